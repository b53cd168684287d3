package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
	"google.golang.org/protobuf/proto"
)

const saveTimeout = 10 * time.Second

// family is one address family's save commands. Rules live in two places, nf_tables and the legacy tables, and a
// save command shows one of them: the plain command whichever the system chose.
type family struct {
	plain, nft, legacy string
	// tables lists the legacy tables that are loaded, below /proc. Without the module there is no such file.
	// A save command is only run where it is not empty, and never names a table: either would load it.
	tables string
}

var families = [...]family{
	{"iptables-save", "iptables-nft-save", "iptables-legacy-save", "net/ip_tables_names"},
	{"ip6tables-save", "ip6tables-nft-save", "ip6tables-legacy-save", "net/ip6_tables_names"},
}

// rules is the topic of packet filter rules.
type rules struct {
	log      *slog.Logger
	proc     string
	versions map[string]string // by command, as `command -V` says
	seen     map[string]bool   // commands that have been in an event
	last     []*eventpb.RuleSet
}

func newRules(cfg Config) *rules {
	return &rules{log: cfg.Logger, proc: cfg.Proc, versions: map[string]string{}, seen: map[string]bool{}}
}

func (r *rules) look(ctx context.Context, out *eventpb.HostState) error {
	var sets []*eventpb.RuleSet
	for _, f := range families {
		sets = append(sets, r.save(ctx, f.plain))
		if other := r.other(ctx, f); other != "" {
			sets = append(sets, r.save(ctx, other))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if slices.EqualFunc(sets, r.last, func(a, b *eventpb.RuleSet) bool { return proto.Equal(a, b) }) {
		return nil
	}
	for _, s := range sets {
		r.seen[s.Command] = true
		if s.Unreadable != "" {
			r.log.Warn("rules are not wholly readable", "command", s.Command, "reason", s.Unreadable)
		}
	}
	r.last, out.RuleSets = sets, sets
	return nil
}

// other names the command that shows what the plain one hides, or nothing when there is nothing to hide. What has
// been shown once is shown on, so that its end is seen.
func (r *rules) other(ctx context.Context, f family) string {
	if v := r.version(ctx, f.plain); v != "" && !strings.Contains(v, "nf_tables") {
		if _, err := exec.LookPath(f.nft); err != nil {
			return ""
		}
		return f.nft
	}
	if r.seen[f.legacy] {
		return f.legacy
	}
	names, err := os.ReadFile(filepath.Join(r.proc, selfNet(r.proc), f.tables))
	if err != nil || len(bytes.TrimSpace(names)) == 0 {
		return ""
	}
	return f.legacy
}

// selfNet is the part of a path below proc that leads to this process's own network: another process
// namespace's /proc/self may point nowhere.
func selfNet(proc string) string {
	if _, err := os.Stat(filepath.Join(proc, "self", "net")); err == nil {
		return "self"
	}
	return "1"
}

// save runs one command and reads what it prints.
func (r *rules) save(ctx context.Context, command string) *eventpb.RuleSet {
	path, err := exec.LookPath(command)
	if err != nil {
		return &eventpb.RuleSet{Command: command, Unreadable: command + ": not installed"}
	}
	stdout, stderr, err := output(ctx, path)
	set := parseRules(command, stdout, stderr, err)
	if set.Version == "" {
		set.Version = r.version(ctx, command)
	}
	return set
}

// version is what the command says of itself, asked once.
func (r *rules) version(ctx context.Context, command string) string {
	if v, ok := r.versions[command]; ok {
		return v
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "" // it may be installed yet
	}
	stdout, _, err := output(ctx, path, "-V")
	if err != nil {
		return ""
	}
	_, v, _ := strings.Cut(strings.TrimSpace(stdout), " ")
	r.versions[command] = v
	return v
}

// output runs a command to its end, in the C locale.
func output(ctx context.Context, path string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	var o, e bytes.Buffer
	c := exec.CommandContext(ctx, path, args...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.Stdout, c.Stderr = &o, &e
	c.WaitDelay = time.Second
	err = c.Run()
	if ctx.Err() == context.DeadlineExceeded {
		err = errors.New("no end after " + saveTimeout.String())
	}
	return o.String(), e.String(), err
}
