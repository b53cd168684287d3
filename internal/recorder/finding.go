package recorder

import (
	"log/slog"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/projections"
)

// tellFinding says in the log that a finding came, or that it ended.
func tellFinding(log *slog.Logger, f *projections.Finding) {
	about := log.With("rule", f.Rule, "severity", f.Level(), "subject", f.Subject, "text", f.Text, "since", time.Unix(0, f.SinceNs).UTC())
	if f.Lasts() {
		about.Warn("finding", "means", f.Means(), "events", f.Events)
		return
	}
	about.Info("finding ended", "lasted", time.Duration(f.EndedNs-f.SinceNs).Round(time.Millisecond), "events", f.Events)
}
