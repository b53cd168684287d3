package kube

import (
	"context"
	"slices"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// resource is one kind to follow: how to ask for it and how to read it.
type resource struct {
	kind eventpb.Kind
	name string // plural, as rights and kubectl spell it
	list func(context.Context, metav1.ListOptions) (runtime.Object, error)
	// watch must end with its context.
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// convert returns nil for an object that is not recorded here.
	convert func(any) *eventpb.KubeObject
	// The cluster may not have the type at all.
	optional bool
}

func (c *clients) resources() []resource {
	ofNode := fields.OneTermEqualSelector("spec.nodeName", c.node).String()
	return []resource{
		newResource(eventpb.Kind_KIND_SERVICE, "services", c.core.Services("").List, c.core.Services("").Watch, "", service),
		newResource(eventpb.Kind_KIND_ENDPOINT_SLICE, "endpointslices", c.discovery.EndpointSlices("").List, c.discovery.EndpointSlices("").Watch, "", endpointSlice),
		// Backends on other nodes are known through their slices' targetRef.
		newResource(eventpb.Kind_KIND_POD, "pods", c.core.Pods("").List, c.core.Pods("").Watch, ofNode, pod),
		newResource(eventpb.Kind_KIND_NODE, "nodes", c.core.Nodes().List, c.core.Nodes().Watch, "", node),
		c.ciliumEndpoints(),
	}
}

// newResource fits a typed client's List and Watch, the converter of its objects, and a field selector together.
func newResource[L runtime.Object, T any](
	kind eventpb.Kind, name string,
	list func(context.Context, metav1.ListOptions) (L, error),
	open func(context.Context, metav1.ListOptions) (watch.Interface, error),
	selector string, convert func(*T) *eventpb.KubeObject,
) resource {
	r := resource{kind: kind, name: name}
	r.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.FieldSelector = selector
		return list(ctx, o)
	}
	r.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = selector
		return open(ctx, o)
	}
	r.convert = func(o any) *eventpb.KubeObject {
		if t, ok := o.(*T); ok {
			return convert(t)
		}
		return nil
	}
	return r
}

// ciliumEndpoints cannot be selected by node on the server, so all are read and ours are kept.
func (c *clients) ciliumEndpoints() resource {
	const name = "ciliumendpoints"
	list := func(ctx context.Context, o metav1.ListOptions) (*ciliumEndpointList, error) {
		out := &ciliumEndpointList{}
		return out, c.cilium.Get().Resource(name).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(out)
	}
	open := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.Watch = true
		r := c.cilium.Get().Resource(name).VersionedParams(&o, metav1.ParameterCodec)
		if o.TimeoutSeconds != nil {
			r = r.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
		}
		return r.Watch(ctx)
	}
	r := newResource(eventpb.Kind_KIND_CILIUM_ENDPOINT, name, list, open, "", func(e *ciliumEndpoint) *eventpb.KubeObject {
		if e.Status.Networking == nil || !slices.Contains(c.nodeIPs, e.Status.Networking.Node) {
			return nil
		}
		return endpoint(e)
	})
	r.optional = true
	return r
}
