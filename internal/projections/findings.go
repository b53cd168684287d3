package projections

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/events/eventpb"
)

// Finding is something wrong with the service datapath, from when it was first seen until it ended.
type Finding struct {
	Rule    string
	Subject string   // what it is about, alone of its kind within the rule
	Text    string   // what is the case
	SinceNs int64    // when it was first the case
	FoundNs int64    // when it had lasted long enough to be told
	EndedNs int64    // 0 while it lasts
	Events  []uint64 // positions of the events it began, was found and ended with, and of those it rests on; ascending

	scope  string
	lastNs int64 // when it was last the case, where that is known better than by the event after which it was no more; else 0
}

// Means tells what it means for connections, and what to do.
func (f *Finding) Means() string { return meaning[f.Rule] }

// Lasts says that it has not ended.
func (f *Finding) Lasts() bool { return f.EndedNs == 0 }

// Level is error where connections fail or may fail, warning where something is not as it should be, info where it is chosen so.
func (f *Finding) Level() string { return levels[f.Rule] }

// maxEnded bounds how many ended findings are kept; the oldest are dropped and counted.
const maxEnded = 1000

// book holds findings. Those that have not lasted long enough (FoundNs is 0) are not told, and leave no trace when they end
// before that.
type book struct {
	open    map[findingKey]*Finding
	scopes  map[scopeKey]map[string]struct{} // subjects of open findings
	pending map[findingKey]struct{}
	ended   []*Finding
	dropped uint64
}

type scopeKey struct{ rule, scope string }

type findingKey struct{ rule, scope, subject string }

func newBook() book {
	return book{open: map[findingKey]*Finding{}, scopes: map[scopeKey]map[string]struct{}{}, pending: map[findingKey]struct{}{}}
}

// problem is what a rule finds to be the case now.
type problem struct {
	subject string
	text    string
	sinceNs int64    // when it began, where that is known better than by the event that showed it; else 0
	lastNs  int64    // when it was last the case, likewise
	events  []uint64 // that it rests on
}

// take makes the findings of one scope of a rule those that are the case now.
func (b *book) take(s *State, r *rule, scope string, now []problem) {
	sk := scopeKey{r.name, scope}
	if len(now) == 0 && len(b.scopes[sk]) == 0 {
		return
	}
	still := map[string]bool{}
	for _, p := range now {
		still[p.subject] = true
		b.see(s, r, scope, p)
	}
	for _, subject := range slices.Sorted(maps.Keys(b.scopes[sk])) {
		if !still[subject] {
			b.end(s, findingKey{r.name, scope, subject})
		}
	}
}

// text is what is told of a subject of a node rule; empty while there is no problem.
func (b *book) text(rule, subject string) string {
	if f := b.open[findingKey{rule, "", subject}]; f != nil {
		return f.Text
	}
	return ""
}

func (b *book) see(s *State, r *rule, scope string, p problem) {
	k := findingKey{r.name, scope, p.subject}
	f := b.open[k]
	if f == nil {
		f = &Finding{Rule: r.name, Subject: p.subject, SinceNs: cmp.Or(p.sinceNs, s.SeenNs), scope: scope}
		f.note(append(p.events, s.Seq)...)
		b.hold(k, f)
	}
	f.lastNs = p.lastNs
	if f.Text != p.text {
		f.Text = p.text
		if f.FoundNs != 0 {
			s.touch(topicFindings)
		}
	}
}

func (b *book) hold(k findingKey, f *Finding) {
	b.open[k] = f
	sk := scopeKey{k.rule, k.scope}
	if b.scopes[sk] == nil {
		b.scopes[sk] = map[string]struct{}{}
	}
	b.scopes[sk][k.subject] = struct{}{}
	if f.FoundNs == 0 {
		b.pending[k] = struct{}{}
	}
}

func (b *book) end(s *State, k findingKey) {
	f := b.open[k]
	delete(b.open, k)
	delete(b.pending, k)
	sk := scopeKey{k.rule, k.scope}
	if delete(b.scopes[sk], k.subject); len(b.scopes[sk]) == 0 {
		delete(b.scopes, sk)
	}
	if f.FoundNs == 0 {
		return
	}
	s.touch(topicFindings)
	f.EndedNs, f.lastNs = cmp.Or(f.lastNs, s.SeenNs), 0
	f.note(s.Seq)
	b.ended = append(b.ended, f)
	if over := len(b.ended) - maxEnded; over > 0 {
		b.ended = b.ended[over:]
		b.dropped += uint64(over)
	}
}

// ripen tells of those that have lasted long enough.
func (b *book) ripen(s *State) {
	for k := range b.pending {
		f := b.open[k]
		if r := ruleNamed[k.rule]; s.SeenNs-f.SinceNs >= int64(r.hold) && s.judges(r) {
			f.FoundNs = s.SeenNs
			f.note(s.Seq)
			delete(b.pending, k)
			s.touch(topicFindings)
		}
	}
}

// doubt drops what was not yet found by a rule: what may be torn is not the case for long.
func (b *book) doubt(s *State, r *rule) {
	for k := range b.pending {
		if k.rule == r.name {
			b.end(s, k)
		}
	}
}

// note adds positions, each once and ascending.
func (f *Finding) note(seqs ...uint64) {
	f.Events = append(f.Events, seqs...)
	slices.Sort(f.Events)
	f.Events = slices.Compact(f.Events)
}

// NextDue is when the next finding will have lasted long enough, or ends if nothing more happens, in Unix nanoseconds; false
// while there is none that could.
func (s *State) NextDue() (int64, bool) {
	due := int64(math.MaxInt64)
	if at, ok := s.dropsDue(); ok {
		due = at
	}
	for k := range s.book.pending {
		if r := ruleNamed[k.rule]; s.judges(r) {
			due = min(due, s.book.open[k].SinceNs+int64(r.hold))
		}
	}
	for _, m := range s.missed {
		due = min(due, m.toldNs+int64(gapsApart))
	}
	return due, due != math.MaxInt64
}

// Findings are those that last, in order of when they were found, then those that ended, in order of that.
func (s *State) Findings() []*Finding {
	var list []*Finding
	for _, f := range s.book.open {
		if f.FoundNs != 0 {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *Finding) int { return cmp.Or(cmp.Compare(a.FoundNs, b.FoundNs), a.compare(b)) })
	return append(list, s.book.ended...)
}

// News are the findings that were found, or that ended, with the last event that was folded.
func (s *State) News() []*Finding {
	if !s.changed([]topic{topicFindings}) {
		return nil
	}
	return slices.DeleteFunc(s.Findings(), func(f *Finding) bool { return f.Events[len(f.Events)-1] != s.Seq })
}

// Names says that a finding's subject or text has a word, an address or a name in it, whole.
func (f *Finding) Names(text string) bool {
	dash := strings.NewReplacer("-", "0") // it goes on a name, and ends no number
	return hasWhole(dash.Replace(f.Subject), dash.Replace(text)) || hasWhole(dash.Replace(f.Text), dash.Replace(text))
}

func (f *Finding) compare(o *Finding) int {
	return cmp.Or(cmp.Compare(f.Rule, o.Rule), cmp.Compare(f.scope, o.scope), natural(f.Subject, o.Subject))
}

func (f *Finding) message() *eventpb.FindingKnown {
	return &eventpb.FindingKnown{Rule: f.Rule, Scope: f.scope, Subject: f.Subject, Text: f.Text, SinceNs: f.SinceNs, FoundNs: f.FoundNs, EndedNs: f.EndedNs, LastNs: f.lastNs, Events: f.Events}
}

func findingFrom(m *eventpb.FindingKnown) *Finding {
	return &Finding{Rule: m.Rule, scope: m.Scope, Subject: m.Subject, Text: m.Text, SinceNs: m.SinceNs, FoundNs: m.FoundNs, EndedNs: m.EndedNs, lastNs: m.LastNs, Events: m.Events}
}

func (b *book) messages() []*eventpb.FindingKnown {
	var list []*eventpb.FindingKnown
	for _, f := range slices.SortedFunc(maps.Values(b.open), (*Finding).compare) {
		list = append(list, f.message())
	}
	for _, f := range b.ended {
		list = append(list, f.message())
	}
	return list
}

func bookFrom(list []*eventpb.FindingKnown, dropped uint64) book {
	b := newBook()
	b.dropped = dropped
	for _, m := range list {
		f := findingFrom(m)
		switch {
		case ruleNamed[f.Rule] == nil: // of another version
		case f.EndedNs != 0:
			b.ended = append(b.ended, f)
		default:
			b.hold(findingKey{f.Rule, f.scope, f.Subject}, f)
		}
	}
	return b
}
