package kube

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

var ciliumV2 = schema.GroupVersion{Group: "cilium.io", Version: "v2"}

// ciliumEndpoint is what we read of cilium.io/v2 CiliumEndpoint; the rest is dropped while decoding.
type ciliumEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            ciliumEndpointStatus `json:"status"`
}

type ciliumEndpointStatus struct {
	ID       int64 `json:"id"`
	Identity *struct {
		ID int64 `json:"id"`
	} `json:"identity"`
	Networking *struct {
		Addressing []struct {
			IPV4 string `json:"ipv4"`
			IPV6 string `json:"ipv6"`
		} `json:"addressing"`
		Node string `json:"node"`
	} `json:"networking"`
	State string `json:"state"`
}

type ciliumEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ciliumEndpoint `json:"items"`
}

// DeepCopyObject is the interface's; nothing here changes an object once it is decoded.
func (e *ciliumEndpoint) DeepCopyObject() runtime.Object {
	c := *e
	e.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *ciliumEndpointList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]ciliumEndpoint(nil), l.Items...)
	return &c
}

// newCiliumClient reads CiliumEndpoints without Cilium's clientset, which would bring a hundred packages.
func newCiliumClient(config *rest.Config, h *http.Client) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(ciliumV2.WithKind("CiliumEndpoint"), &ciliumEndpoint{})
	scheme.AddKnownTypeWithName(ciliumV2.WithKind("CiliumEndpointList"), &ciliumEndpointList{})
	metav1.AddToGroupVersion(scheme, ciliumV2)

	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	c.GroupVersion = &ciliumV2
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	return rest.RESTClientForConfigAndClient(c, h)
}
