package kube

import (
	"errors"
	"testing"
	"testing/synctest"
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
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := &link{patience: 5 * time.Second}
				for _, a := range answers {
					time.Sleep(time.Until(begin.Add(a.at)))
					if got := l.answered(a.err); got != a.want {
						t.Errorf("at %v after %v: give up %t, want %t", a.at, a.err, got, a.want)
					}
				}
			})
		})
	}
}

// A gap starts where the last watch that worked ended, not where the server at last said that it cannot resume.
func TestGapStartsAtTheLastGoodWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, opened := &link{}, time.Now()
		time.Sleep(90 * time.Second)
		l.ended(opened) // open for 90 s, quiet
		lost := time.Now()
		time.Sleep(30 * time.Second)
		l.ended(time.Now()) // opened, and refused in the stream at once
		if got := l.lostSince(time.Now()); got != lost {
			t.Errorf("lost since %v, want %v", got, lost)
		}
		l.alive()
		time.Sleep(70 * time.Second)
		if now := time.Now(); l.lostSince(now) != now {
			t.Errorf("lost since %v, want %v", l.lostSince(now), now)
		}
	})
}
