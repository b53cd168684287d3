package sourcetest

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// ContainerLog is a container's log as a kubelet serves it: of each instance the newest file only, lines with a stamp
// that is not before sinceTime, to the end or on until the container ends.
type ContainerLog struct {
	mu        sync.Mutex
	instances []*instance // the last one is the current
	cut       chan struct{}
	wake      chan struct{}
}

type instance struct {
	id    string
	lines []logLine
	file  int // the line that the newest file begins with
	over  bool
}

type logLine struct {
	at   time.Time
	text string
}

// NewContainerLog returns one of a container that has not started.
func NewContainerLog() *ContainerLog {
	return &ContainerLog{cut: make(chan struct{}), wake: make(chan struct{})}
}

// Begin starts an instance; the one before it, if any, is over.
func (c *ContainerLog) Begin(id string) {
	c.change(func() {
		for _, i := range c.instances {
			i.over = true
		}
		c.instances = append(c.instances, &instance{id: id})
	})
}

// End ends the current instance.
func (c *ContainerLog) End() {
	c.change(func() { c.instances[len(c.instances)-1].over = true })
}

// Forget takes the instances and their logs away.
func (c *ContainerLog) Forget() {
	c.change(func() { c.instances = nil })
}

// Log adds lines to the current instance.
func (c *ContainerLog) Log(at time.Time, texts ...string) {
	c.change(func() {
		i := c.instances[len(c.instances)-1]
		for _, text := range texts {
			i.lines = append(i.lines, logLine{at: at, text: text})
		}
	})
}

// Rotate begins a new file: who follows goes on with it, who asks anew gets that alone.
func (c *ContainerLog) Rotate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.instances[len(c.instances)-1]
	i.file = len(i.lines)
}

// Break ends the open streams.
func (c *ContainerLog) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.cut)
	c.cut = make(chan struct{})
}

func (c *ContainerLog) change(act func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	act()
	close(c.wake)
	c.wake = make(chan struct{})
}

// Instances are the ids of all instances, and whether the last one is over.
func (c *ContainerLog) Instances() (ids []string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		ids, over = append(ids, i.id), i.over
	}
	return ids, over
}

// ServeHTTP answers a request for the log.
func (c *ContainerLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c.mu.Lock()
	at, cut := len(c.instances)-1, c.cut
	if q.Get("previous") == "true" {
		at--
	}
	if at < 0 {
		c.mu.Unlock()
		Refuse(w, http.StatusBadRequest)
		return
	}
	from := c.instances[at]
	sent := from.file
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		sent = max(sent, len(from.lines)-n)
	}
	c.mu.Unlock()
	since, _ := time.Parse(time.RFC3339, q.Get("sinceTime"))
	w.WriteHeader(http.StatusOK)
	for {
		c.mu.Lock()
		wake, over, lines := c.wake, from.over, from.lines[sent:]
		c.mu.Unlock()
		for _, l := range lines {
			if sent++; !l.at.Before(since) {
				fmt.Fprintf(w, "%s %s\n", l.at.Format(time.RFC3339Nano), l.text)
			}
		}
		w.(http.Flusher).Flush()
		if q.Get("follow") != "true" || over {
			return
		}
		select {
		case <-wake:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}
