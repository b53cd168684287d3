package recorder

import (
	"os"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"golang.org/x/sys/unix"
)

// sessionStart describes this run: the machine, its clocks at one instant, the profile and the sources.
func sessionStart(o Options, sources []string) *eventpb.Session {
	s := &eventpb.Session{
		ToolVersion: Version,
		BootId:      firstLine("/proc/sys/kernel/random/boot_id"),
		WallNs:      time.Now().UnixNano(),
		BoottimeNs:  clock(unix.CLOCK_BOOTTIME),
		MonotonicNs: clock(unix.CLOCK_MONOTONIC),
		UserHz:      100,
		Sync:        syncText(o.Sync),
		ProfileYaml: o.ProfileText,
		Sources:     sources,
		Redaction:   redactionPolicy(o.Redact),
	}
	if o.Profile != nil {
		s.ProfileName = o.Profile.Name
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		s.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return s
}

func syncText(d time.Duration) string {
	if d == 0 {
		return "always"
	}
	return d.String()
}

func clock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
