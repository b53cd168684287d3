package recorder

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/tapedeck-io/tapedeck/internal/journal"
	"golang.org/x/sys/unix"
)

// Names and labels are those of Prometheus' conventions. No label has a pod, an address or a Service: their number
// has no bound.
var (
	eventsTotal   = metric("events_total", "Events folded since the recorder started.", "source", "kind")
	lostTotal     = metric("lost_events_total", "Events that a source's peer said it lost.", "source")
	sourceUp      = metric("source_up", "1 while the source sees all that it is to see.", "source")
	gapSeconds    = metric("source_gap_seconds_total", "Time told of in gaps since the recorder started.", "source")
	mapEntries    = metric("map_entries", "Entries known of a BPF map; maps of endpoints are summed.", "map")
	mapMaxEntries = metric("map_max_entries", "Entries that the map has room for.", "map")
	divergences   = metric("divergence_open", "Findings that last.", "kind")
	lagEvents     = metric("projection_lag_events", "Events stored and not yet shown.")
	storeBytes    = metric("store_bytes", "Size of the session's folder.")
	freeBytes     = metric("store_free_bytes", "Room left for it on its disk.")
	journalUp     = metric("journal_writable", "1 while events can be stored.")
	buildInfo     = metric("build_info", "Always 1.", "version", "go_version")
)

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tapedeck_"+name, help, labels, nil)
}

// metrics are made when they are asked for.
type metrics struct {
	board   *board
	journal *journal.Journal
	session string
}

func metricsHandler(b *board, j *journal.Journal, session string) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(&metrics{b, j, session}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Describe leaves the check of what is collected to the registry.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{eventsTotal, lostTotal, sourceUp, gapSeconds, mapEntries, mapMaxEntries, divergences, lagEvents, storeBytes, freeBytes, journalUp, buildInfo} {
		ch <- d
	}
}

func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildInfo, 1, Version, runtime.Version())
	m.collectCounts(counter)
	now := m.board.look()
	for _, s := range now.sources {
		gauge(sourceUp, truth(s.status == "up"), s.name)
	}
	for name, size := range now.maps {
		gauge(mapEntries, float64(size.entries), name)
		gauge(mapMaxEntries, float64(size.most), name)
	}
	for rule, n := range now.findings {
		gauge(divergences, float64(n), rule)
	}
	gauge(journalUp, truth(m.journal.Trouble() == nil))
	if _, last, _ := m.journal.Bounds(); last >= now.seq {
		gauge(lagEvents, float64(last-now.seq))
	}
	gauge(storeBytes, float64(folderSize(m.session)))
	var disk unix.Statfs_t
	if unix.Statfs(m.session, &disk) == nil {
		gauge(freeBytes, float64(disk.Bavail)*float64(disk.Bsize))
	}
}

func (m *metrics) collectCounts(counter func(*prometheus.Desc, float64, ...string)) {
	b := m.board
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, n := range b.events {
		counter(eventsTotal, float64(n), k.source, k.kind)
	}
	for source, n := range b.lost {
		counter(lostTotal, float64(n), source)
	}
	for source, s := range b.gapSeconds {
		counter(gapSeconds, s, source)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// folderSize leaves out what goes while it looks.
func folderSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
