package timeline

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/tapedeck-io/tapedeck/internal/journal"
)

var csvHeader = []string{"time", "clock", "seen", "delay_ms", "services", "kind", "subject", "text", "seq", "cause_seq"}

// WriteCSV writes the rows of a tape as RFC 4180 with a header line. Several Services of one row stand with a blank
// between them. The figures of convergence are not in it.
func WriteCSV(ctx context.Context, w io.Writer, tape *journal.Tape, filter Filter) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	_, err := Of(ctx, tape, filter, func(r Row) error {
		v := r.json()
		delay, cause := "", ""
		if v.DelayMs != nil {
			delay, cause = strconv.FormatFloat(*v.DelayMs, 'f', 3, 64), strconv.FormatUint(*v.CauseSeq, 10)
		}
		return out.Write([]string{v.Time, v.Clock, v.Seen, delay, inert(strings.Join(v.Services, " ")), string(v.Kind),
			inert(v.Subject), inert(v.Text), strconv.FormatUint(v.Seq, 10), cause})
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// inert keeps foreign text from being run: a spreadsheet takes what begins so for a formula.
func inert(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
