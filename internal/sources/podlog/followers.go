package podlog

import (
	"context"
	"sync"

	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// chainKey is one container of one pod: its instances follow one another.
type chainKey struct{ podUID, container string }

// followers keeps one chain per container of the selected pods.
type followers struct {
	source *Source
	client *corev1.CoreV1Client
	emit   events.Emit
	fail   context.CancelCauseFunc

	mu      sync.Mutex
	running map[chainKey]bool
	wg      sync.WaitGroup
}

// run starts and ends chains as pods come and go, until ctx ends, and waits for all of them.
func (f *followers) run(ctx context.Context, ready func()) {
	defer f.wg.Wait()
	cluster := f.source.config.Cluster
	var first sync.WaitGroup // those that are there at the start, until they have caught up
	changed := cluster.Changed()
	f.start(ctx, &first)
	f.wg.Go(func() {
		first.Wait()
		if ctx.Err() == nil {
			ready()
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = cluster.Changed()
			f.start(ctx, nil)
		}
	}
}

// start starts a chain for each container that has none. Chains end by themselves when their pod is gone.
func (f *followers) start(ctx context.Context, first *sync.WaitGroup) {
	ids := make(map[string]bool)
	for _, ref := range f.source.config.Pods {
		o := f.pod(ref)
		for _, w := range plan(o) {
			ids[w.id] = true
		}
		for _, c := range o.GetPod().GetContainers() {
			f.startOne(ctx, ref, o.Uid, c.Name, first)
		}
	}
	f.source.books.keep(ids)
}

func (f *followers) startOne(ctx context.Context, ref PodRef, uid, container string, first *sync.WaitGroup) {
	k := chainKey{uid, container}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running[k] {
		return
	}
	f.running[k] = true
	c := &chain{
		followers: f, ref: ref, key: k, caughtUp: func() {},
		log: f.source.log.With("pod", ref.Namespace+"/"+ref.Name, "container", container),
	}
	if first != nil {
		first.Add(1)
		c.caughtUp = sync.OnceFunc(first.Done)
	}
	f.wg.Go(func() {
		defer c.caughtUp()
		c.run(ctx)
		f.mu.Lock()
		delete(f.running, k)
		f.mu.Unlock()
	})
}

// pod returns the pod that has the name now, or nil.
func (f *followers) pod(ref PodRef) *eventpb.KubeObject {
	return f.source.config.Cluster.Object(eventpb.Kind_KIND_POD, ref.Namespace, ref.Name)
}
