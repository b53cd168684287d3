package bpfmap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/tapedeck-io/tapedeck/internal/cilium"
	"github.com/tapedeck-io/tapedeck/internal/events"
	"github.com/tapedeck-io/tapedeck/internal/sources"
)

// Check opens every map as Run does and reads none.
func (s *Source) Check(ctx context.Context) []sources.Finding {
	if err := mounted(s.BPFFS); err != nil {
		return []sources.Finding{{Thing: s.BPFFS, Err: err}}
	}
	dir := filepath.Join(s.BPFFS, pinFolder)
	list, err := pins(s.BPFFS, func(cilium.Kind) bool { return true })
	if err == nil && len(list) == 0 {
		err = &events.Trouble{Thing: dir, Cause: errors.New("no Cilium maps are pinned here"), Mend: "start the Cilium agent on this node"}
	}
	if err != nil {
		return []sources.Finding{{Thing: dir, Err: err}}
	}
	var counts struct{ services, connections, policies, others int }
	var findings []sources.Finding
	for _, p := range list {
		if ctx.Err() != nil {
			break
		}
		t, err := openTable(s.BPFFS, p, time.Time{})
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone since it was listed
			continue
		case isForbidden(err): // as all others will be
			return []sources.Finding{{Thing: dir, Err: openTrouble(p.name, err)}}
		case err != nil:
			findings = append(findings, sources.Finding{Thing: p.name, Err: openTrouble(p.name, err)})
			continue
		}
		if !t.supported {
			findings = append(findings, sources.Finding{Thing: p.name, Err: layoutTrouble(t)})
		}
		switch {
		case !t.supported:
		case together(p.kind):
			counts.services++
		case paceOf(p.kind) == connectionPace:
			counts.connections++
		case isPolicy(p.kind):
			counts.policies++
		default:
			counts.others++
		}
		t.close()
	}
	seen := fmt.Sprintf("%d maps of services, backends and rev-NAT, %d of connections, %d of policies, %d others",
		counts.services, counts.connections, counts.policies, counts.others)
	return append([]sources.Finding{{Thing: dir, Seen: seen}}, findings...)
}

func layoutTrouble(t *table) error {
	return &events.Trouble{
		Thing: t.name,
		Cause: fmt.Errorf("a layout that this version cannot read (keys of %d, values of %d bytes)", t.m.KeySize(), t.m.ValueSize()),
		Mend:  "use a version of tapedeck that knows this version of Cilium; the map's entries are not recorded",
	}
}
