package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/sources"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const checkTimeout = 3 * time.Second

// Check says which requests will be made. It makes none of them.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	p := s.config.Profile
	when := fmt.Sprintf("when it changes and every %v", s.config.Interval)
	command := newCurl(s.config.Rest, p.Ghost.TimeoutSeconds).command(fmt.Sprintf("http://CLUSTER_IP:%d/", p.Ghost.Port))
	list := []sources.Finding{
		{
			Thing: "probe nodeport",
			Seen:  fmt.Sprintf("will GET http://INTERNAL_IP:NODE_PORT/ of Service %s/%s from this node, %s", p.Namespace, p.NodePort.Service, when),
		},
		{
			Thing: "probe ghost",
			Seen: fmt.Sprintf("will run in pod %s/%s through the API's exec, for Service %s, %s: %s",
				p.Namespace, p.Ghost.ProbePod, p.Ghost.Service, when, strings.Join(command, " ")),
		},
	}
	if err := s.checkExec(ctx); err != nil {
		list[1].Err = err
	}
	return list
}

// checkExec asks for an exec without the upgrade that one needs: it is refused for a missing right, else for that.
func (s *Source) checkExec(ctx context.Context) error {
	p := s.config.Profile
	thing := fmt.Sprintf("exec in pod %s/%s", p.Namespace, p.Ghost.ProbePod)
	if s.config.Rest == nil {
		return &events.Trouble{Thing: thing, Cause: errNoCluster, Mend: "name a kubeconfig with --kubeconfig"}
	}
	client, err := typedcorev1.NewForConfig(s.config.Rest)
	if err != nil {
		return &events.Trouble{Thing: thing, Cause: err, Mend: "correct the kubeconfig"}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = client.RESTClient().Get().Namespace(p.Namespace).Resource("pods").Name(p.Ghost.ProbePod).SubResource("exec").
		Param("command", "true").Param("stdout", "true").Do(ctx).Error()
	switch {
	case apierrors.IsForbidden(err):
		return &events.Trouble{Thing: thing, Cause: err, Mend: "grant this user get and create on pods/exec in " + p.Namespace}
	case apierrors.IsUnauthorized(err):
		return &events.Trouble{Thing: thing, Cause: err, Mend: "renew the credentials in the kubeconfig"}
	case err != nil && apierrors.ReasonForError(err) == "":
		return &events.Trouble{Thing: thing, Cause: err, Mend: "start the API server, or correct its address in the kubeconfig"}
	}
	return nil
}
