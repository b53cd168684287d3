// Package kube is the source of Kubernetes objects: Services, EndpointSlices and Nodes of the cluster, Pods and
// CiliumEndpoints of this node. It lists and watches and changes nothing.
//
//	API server ──list, watch──▶ reflector ──▶ store ──change──▶ batcher ──event──▶ emit, then index (Cluster)
//	                            (one per kind)  (diff by kind)     (10 ms)
//
// Only the fields of schemas/events/v1/kube.proto leave the package; see convert.go.
package kube
