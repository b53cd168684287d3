package kube

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestGivingUp(t *testing.T) {
	refused := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	gone := apierrors.NewResourceExpired("too old")
	type answer struct {
		at   time.Duration
		err  error
		want bool
	}
	for name, answers := range map[string][]answer{
		"long failing":           {{0, refused, false}, {4 * time.Second, refused, false}, {5 * time.Second, refused, true}},
		"an answer in between":   {{0, refused, false}, {4 * time.Second, nil, false}, {6 * time.Second, refused, false}},
		"too old is an answer":   {{0, refused, false}, {4 * time.Second, gone, false}, {6 * time.Second, refused, false}},
		"forbidden stays so":     {{0, forbidden, true}},
		"unauthorized stays so":  {{0, apierrors.NewUnauthorized("x"), true}},
		"nothing but successes.": {{0, nil, false}, {time.Hour, nil, false}},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(0, 0)
			l := &link{now: func() time.Time { return now }, patience: 5 * time.Second}
			for _, a := range answers {
				now = time.Unix(0, 0).Add(a.at)
				if got := l.answered(a.err); got != a.want {
					t.Errorf("at %v after %v: give up %t, want %t", a.at, a.err, got, a.want)
				}
			}
		})
	}
}

// A gap starts where the last watch that worked ended, not where the server at last said that it cannot resume.
func TestGapStartsAtTheLastGoodWatch(t *testing.T) {
	now := time.Unix(100, 0)
	l := &link{now: func() time.Time { return now }}
	l.ended(time.Unix(10, 0)) // open for 90 s, quiet
	now = time.Unix(130, 0)
	l.ended(time.Unix(130, 0)) // opened, and refused in the stream at once
	if got := l.lostSince(now); got != time.Unix(100, 0) {
		t.Errorf("lost since %v, want 100", got.Unix())
	}
	l.alive()
	now = time.Unix(200, 0)
	if got := l.lostSince(now); got != now {
		t.Errorf("lost since %v, want 200", got.Unix())
	}
}
