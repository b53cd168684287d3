package podlog

import (
	"context"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/sources"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const checkTimeout = 3 * time.Second

// Check asks for one byte of each pod's log. A pod that is not there is no fault: it is followed when it comes.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	client, done, err := s.connect()
	if err != nil {
		return []sources.Finding{{Thing: "pod logs", Err: err}}
	}
	defer done()
	var list []sources.Finding
	for _, ref := range s.config.Pods {
		list = append(list, checkPod(ctx, client, ref))
	}
	return list
}

func checkPod(ctx context.Context, client *typedcorev1.CoreV1Client, ref PodRef) sources.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f := sources.Finding{Thing: "log of pod " + ref.Namespace + "/" + ref.Name}
	one := int64(1)
	// Rights are looked at before the pod, so that a pod that is not there tells of them too.
	_, err := client.Pods(ref.Namespace).GetLogs(ref.Name, &corev1.PodLogOptions{TailLines: &one, LimitBytes: &one}).DoRaw(ctx)
	switch {
	case err == nil:
		f.Seen = "can be read"
	case apierrors.IsNotFound(err):
		f.Seen = "no such pod yet; followed when it comes"
	case apierrors.IsBadRequest(err):
		f.Seen = "the pod is not that far, or has several containers; all are followed"
	default:
		f.Err = trouble(ref, err)
	}
	return f
}
