package kube

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// proven is how long a watch must have been open to count as one that worked though it brought nothing: a server
// may accept it and say a moment later that it cannot resume.
const proven = time.Second

// link is the state of one kind's connection: since when nothing is heard, since when every request fails.
type link struct {
	patience time.Duration // how long requests may fail before the source counts as down

	mu      sync.Mutex
	lost    time.Time // when the watch that worked last came to its end; zero while one works
	failing time.Time // first of the requests that failed in a row
}

// alive notes that the server sent something.
func (l *link) alive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = time.Time{}
}

// ended notes the end of a watch that was opened then.
func (l *link) ended(opened time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.lost.IsZero() || now.Sub(opened) >= proven {
		l.lost = now
	}
}

// lostSince returns when the last watch that worked came to its end, or now.
func (l *link) lostSince(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost.IsZero() {
		return now
	}
	return l.lost
}

// answered takes a request's result and says whether the source has to give up: at once where asking again
// cannot help, else when nothing worked for too long.
func (l *link) answered(err error) (giveUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil, isExpired(err):
		l.failing = time.Time{}
		return false
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return true
	case l.failing.IsZero():
		l.failing = time.Now()
	}
	return time.Since(l.failing) >= l.patience
}

// isExpired is the server's answer to a resourceVersion it no longer has: the reflector lists anew.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// openWatch tells its link when it ends: the reflector stops every watch that it was given.
type openWatch struct {
	watch.Interface
	link   *link
	opened time.Time
	once   sync.Once
}

func (w *openWatch) Stop() {
	w.once.Do(func() { w.link.ended(w.opened) })
	w.Interface.Stop()
}
