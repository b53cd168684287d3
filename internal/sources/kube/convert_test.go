package kube

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const createdNs = 1796090564 * 1_000_000_000 // 2026-12-01T02:02:44Z, by date(1)

// testdata/node.json is what kubectl printed on a real node; the expected values were read off it by hand.
func TestRealObjects(t *testing.T) {
	want := map[string]*eventpb.KubeObject{
		"Service": {
			Namespace: "cca-dp", Name: "web-np", Uid: "20e6277d-ad85-4652-ba14-078defa9355d", ResourceVersion: "758",
			CreatedNs: createdNs + 6e9,
			Service: &eventpb.Service{
				Type: "NodePort", ClusterIps: []string{"10.43.212.229"}, Selector: map[string]string{"app": "web"},
				SessionAffinity: "None", ExternalTrafficPolicy: "Cluster", InternalTrafficPolicy: "Cluster", IpFamilies: []string{"IPv4"},
				Ports: []*eventpb.ServicePort{{Protocol: "TCP", Port: 80, TargetPort: "8080", NodePort: 30780}},
			},
		},
		"EndpointSlice": {
			Namespace: "cca-dp", Name: "web-rfmcv", Uid: "cdef1a1e-7158-4e40-b9ae-bb6cdf9ae846", ResourceVersion: "734",
			CreatedNs: createdNs - 8e9,
			Labels:    map[string]string{"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "kubernetes.io/service-name": "web"},
			EndpointSlice: &eventpb.EndpointSlice{
				Service: "web", AddressType: "IPv4", Ports: []*eventpb.EndpointPort{{Protocol: "TCP", Port: new(int32(8080))}},
				Endpoints: []*eventpb.Endpoint{
					readyEndpoint("10.42.0.123", "web-65786f495b-v7kvz", "19ee1e38-972a-4855-ba26-5a448c4d4b2b"),
					readyEndpoint("10.42.0.48", "web-65786f495b-gvlw2", "9d529c5b-2d52-4bfd-a6ff-74b5121626dc"),
					readyEndpoint("10.42.0.97", "web-65786f495b-dn6cc", "9e044812-c40d-4a11-96c0-467f56030192"),
					readyEndpoint("10.42.0.164", "web-65786f495b-f9rxv", "acb953bf-b20b-4537-9360-681bdff9b23b"),
				},
			},
		},
		"Pod": {
			Namespace: "cca-dp", Name: "holder", Uid: "23558ccc-cde5-474c-94a7-2676b529ac2e", ResourceVersion: "754",
			CreatedNs: createdNs, Labels: map[string]string{"app": "holder"},
			Pod: &eventpb.Pod{
				NodeName: "lab", HostIp: "192.168.96.10", PodIps: []string{"10.42.0.49"}, Phase: "Running", Ready: true,
				Containers: []*eventpb.Container{{
					Name: "holder", Id: "containerd://59203bc1f865415ac2eec181cfb755635a3d0aed232115fff527109c81bedac5",
					Ready: true, State: "running",
				}},
			},
		},
		"Node": {
			Name: "lab", Uid: "6ca9a0b6-59dd-4d90-9e2f-fd493c97e6c4", ResourceVersion: "306", CreatedNs: createdNs - 147e9,
			Labels: map[string]string{
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
				"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "lab", "kubernetes.io/os": "linux",
			},
			Node: &eventpb.Node{InternalIps: []string{"192.168.96.10"}, PodCidrs: []string{"10.42.0.0/24"}, Ready: true, Kernel: "6.18.44-fc-v782", Kubelet: "v1.34.4"},
		},
		"CiliumEndpoint": {
			Namespace: "cca-dp", Name: "holder", Uid: "636aa90b-45c4-49ac-87f4-596a087a01d9", ResourceVersion: "747",
			CreatedNs: createdNs, Labels: map[string]string{"app": "holder"},
			CiliumEndpoint: &eventpb.CiliumEndpoint{EndpointId: 2725, Identity: 40847, Addresses: []string{"10.42.0.49"}, State: "ready", NodeIp: "192.168.96.10"},
		},
	}
	got := map[string]*eventpb.KubeObject{}
	for kind, text := range realObjects(t) {
		got[kind] = convertJSON(t, kind, text)
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}

func readyEndpoint(ip, pod, uid string) *eventpb.Endpoint {
	return &eventpb.Endpoint{
		Addresses: []string{ip}, Ready: new(true), Serving: new(true), Terminating: new(false), NodeName: "lab",
		TargetKind: "Pod", TargetNamespace: "cca-dp", TargetName: pod, TargetUid: uid,
	}
}

func realObjects(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/node.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, i := range list.Items {
		var o struct{ Kind string }
		if err := json.Unmarshal(i, &o); err != nil {
			t.Fatal(err)
		}
		out[o.Kind] = i
	}
	return out
}

func convertJSON(t *testing.T, kind string, text []byte) *eventpb.KubeObject {
	t.Helper()
	switch kind {
	case "Service":
		return service(decode[corev1.Service](t, text))
	case "EndpointSlice":
		return endpointSlice(decode[discoveryv1.EndpointSlice](t, text))
	case "Pod":
		return pod(decode[corev1.Pod](t, text))
	case "Node":
		return node(decode[corev1.Node](t, text))
	case "CiliumEndpoint":
		return endpoint(decode[ciliumEndpoint](t, text))
	}
	t.Fatalf("unknown kind %s", kind)
	return nil
}

func decode[T any](t *testing.T, text []byte) *T {
	t.Helper()
	o := new(T)
	if err := json.Unmarshal(text, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// A tape can be given to a stranger (cilium-cli#1631, #1634: redaction missed the last-applied annotation).
func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2"
	metadata := `"metadata":{"namespace":"shop","name":"x",
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hunter2","vendor.example/token":"hunter2","service.cilium.io/global":"true"},
		"managedFields":[{"manager":"hunter2","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:hunter2":{}}}],
		"finalizers":["hunter2"],"generateName":"hunter2"}`
	for kind, text := range map[string]string{
		"Pod": `{` + metadata + `,"spec":{"nodeName":"lab","serviceAccountName":"hunter2","imagePullSecrets":[{"name":"hunter2"}],
			"volumes":[{"name":"hunter2","secret":{"secretName":"hunter2"}}],
			"initContainers":[{"name":"i","image":"hunter2","env":[{"name":"P","value":"hunter2"}]}],
			"containers":[{"name":"c","image":"hunter2","command":["hunter2"],"args":["hunter2"],
				"env":[{"name":"P","value":"hunter2"}],"envFrom":[{"secretRef":{"name":"hunter2"}}],
				"volumeMounts":[{"name":"hunter2","mountPath":"/hunter2"}],
				"livenessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"A","value":"hunter2"}]}}}]},
			"status":{"message":"hunter2","containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":1,"message":"hunter2"}}}]}}`,
		"Service":        `{` + metadata + `,"spec":{"ports":[{"port":80}]}}`,
		"EndpointSlice":  `{` + metadata + `,"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"deprecatedTopology":{"a":"hunter2"}}]}`,
		"Node":           `{` + metadata + `,"spec":{"providerID":"hunter2"},"status":{"images":[{"names":["hunter2"]}]}}`,
		"CiliumEndpoint": `{` + metadata + `,"status":{"id":1,"identity":{"id":2,"labels":["hunter2"]}}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			if !bytes.Contains([]byte(text), []byte(secret)) {
				t.Fatal("the input has no secret")
			}
			o := convertJSON(t, kind, []byte(text))
			out, err := proto.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(out, []byte(secret)) {
				t.Errorf("a secret is recorded: %v", o)
			}
			if d := cmp.Diff(map[string]string{"service.cilium.io/global": "true"}, o.Annotations); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRecordedAnnotations(t *testing.T) {
	for name, want := range map[string]bool{
		"service.cilium.io/affinity":                        true,
		"service.kubernetes.io/topology-mode":               true,
		"service.kubernetes.io/topology-aware-hints":        true,
		"topology.kubernetes.io/zone":                       true,
		"kubectl.kubernetes.io/last-applied-configuration":  false,
		"endpoints.kubernetes.io/last-change-trigger-time":  false,
		"service.beta.kubernetes.io/aws-load-balancer-type": false,
		"evil-service.cilium.io/affinity":                   false,
		"topology":                                          false,
	} {
		if got := recorded(name); got != want {
			t.Errorf("%s: recorded %t, want %t", name, got, want)
		}
	}
}

// Ports that are null serve all ports, an empty list none, a port without a number any (kubernetes#109627,
// ingress-nginx#9141, #9149: taken for port 0).
func TestSlicePortsNullEmptyNil(t *testing.T) {
	for text, want := range map[string]*eventpb.EndpointSlice{
		`{"ports":null}`: {PortsNull: true},
		`{}`:             {PortsNull: true},
		`{"ports":[]}`:   {},
		`{"ports":[{"name":"a","protocol":"TCP"}]}`:                 {Ports: []*eventpb.EndpointPort{{Name: "a", Protocol: "TCP"}}},
		`{"ports":[{"port":0}]}`:                                    {Ports: []*eventpb.EndpointPort{{Port: new(int32(0))}}},
		`{"ports":[],"endpoints":[{"addresses":[]}]}`:               {Endpoints: []*eventpb.Endpoint{{}}},
		`{"ports":[],"endpoints":[{"conditions":{"ready":false}}]}`: {Endpoints: []*eventpb.Endpoint{{Ready: new(false)}}},
	} {
		got := endpointSlice(decode[discoveryv1.EndpointSlice](t, []byte(text))).EndpointSlice
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

func TestContainerStates(t *testing.T) {
	text := `{"metadata":{"name":"p"},"spec":{
		"initContainers":[{"name":"setup"}],
		"containers":[{"name":"app","ports":[{"containerPort":80,"hostPort":8080,"hostIP":"10.0.0.1","protocol":"TCP"}]},{"name":"new"}]},
		"status":{"initContainerStatuses":[{"name":"setup","containerID":"containerd://1","state":{"terminated":{"exitCode":0}}}],
		"containerStatuses":[{"name":"app","containerID":"containerd://3","restartCount":1,"ready":true,
			"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"containerID":"containerd://2"}}}]}}`
	want := []*eventpb.Container{
		{Name: "setup", Id: "containerd://1", State: "terminated"},
		{
			Name: "app", Id: "containerd://3", PreviousId: "containerd://2", Ready: true, State: "running", Restarts: 1,
			Ports: []*eventpb.ContainerPort{{Protocol: "TCP", Port: 80, HostPort: 8080, HostIp: "10.0.0.1"}},
		},
		{Name: "new"},
	}
	got := pod(decode[corev1.Pod](t, []byte(text))).Pod.Containers
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
}
