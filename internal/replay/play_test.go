package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// played plays a span of the lab into a folder and returns what is in the folder afterwards.
func played(t *testing.T, s *Session, from, to string, p Play) map[string]string {
	t.Helper()
	dir := t.TempDir()
	folder, err := projections.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	p.Show = func(files []projections.File, _ *projections.State) error { return folder.Write(files) }
	first, err := s.Position(t.Context(), moment(t, from))
	if err != nil {
		t.Fatal(err)
	}
	last, err := s.Position(t.Context(), moment(t, to))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Play(t.Context(), first, last, p); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	list, err := filepath.Glob(filepath.Join(dir, "[a-z]*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(b)
	}
	return files
}

// However it is played, the files end as rebuild makes them.
func TestPlayEndsAsRebuild(t *testing.T) {
	every := func(*eventpb.Event, *projections.State, []Change) (bool, error) { return true, nil }
	for name, p := range map[string]Play{
		"instant": {Speed: Instant}, "as recorded": {Speed: 1}, "slow": {Speed: 0.1}, "fast": {Speed: 37.5},
		"no idling": {Speed: 1, IdleLimit: 50 * time.Millisecond}, "stepped": {EachChange: every},
	} {
		for _, span := range [][2]string{{"+0s", ""}, {"+0s", "mark:step 5"}, {"seq:100", "seq:200"}, {"seq:200", "seq:200"}} {
			t.Run(fmt.Sprint(name, span), func(t *testing.T) {
				s := openLab(t)
				synctest.Test(t, func(t *testing.T) {
					if diff := cmp.Diff(filesAt(t, labTape, span[1]), played(t, s, span[0], span[1], p)); diff != "" {
						t.Errorf("rebuilt (-), played (+):\n%s", diff)
					}
				})
			})
		}
	}
}

// The lab's tape is 23.616 s long.
func TestPlayKeepsTime(t *testing.T) {
	s := openLab(t)
	for speed, want := range map[float64]time.Duration{1: 23616 * time.Millisecond, 4: 5904 * time.Millisecond, Instant: 0} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			played(t, s, "+0s", "", Play{Speed: speed})
			if got := time.Since(start).Round(10 * time.Millisecond); got != want.Round(10*time.Millisecond) {
				t.Errorf("at speed %v it took %v, want %v", speed, got, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		played(t, s, "+0s", "", Play{Speed: 1, IdleLimit: 10 * time.Millisecond})
		if got := time.Since(start); got > 270*10*time.Millisecond || got < 500*time.Millisecond {
			t.Errorf("270 events with waits of at most 10 ms took %v", got)
		}
	})
}

func TestPlayStopsWhereTold(t *testing.T) {
	s := openLab(t)
	var seen []uint64
	p := Play{
		Show: func([]projections.File, *projections.State) error { return nil },
		EachChange: func(_ *eventpb.Event, st *projections.State, _ []Change) (bool, error) {
			seen = append(seen, st.Seq)
			return len(seen) < 2, nil
		},
	}
	last, err := s.Position(t.Context(), Moment{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Play(t.Context(), Position{Seq: 144}, last, p); !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
	// The holder comes, then its entry in the agent's list and its address.
	if diff := cmp.Diff([]uint64{147, 167}, seen); diff != "" {
		t.Error(diff)
	}
}
