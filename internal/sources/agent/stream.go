package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// errNoStream says that the agent has no change stream of a table.
var errNoStream = errors.New("the agent streams no such table")

// change is one row that a stream brought.
type change struct {
	table *table
	row   row
	at    time.Time
}

// openTable opens the change stream of a table and only then reads the whole table, so that nothing falls between
// the two. It returns errNoStream when the agent knows no such stream or table.
func (c *client) openTable(ctx context.Context, t *table) (io.ReadCloser, []row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(requestTimeout, func() { cancel(fmt.Errorf("no answer within %s", requestTimeout)) })
	resp, err := c.open(ctx, "/statedb/changes/"+t.name, nil)
	late.Stop()
	if err != nil {
		cancel(nil)
		return nil, nil, missing(err)
	}
	rows, err := c.query(ctx, t.name)
	if err != nil {
		cancel(nil)
		resp.Body.Close()
		return nil, nil, missing(err)
	}
	return &stream{resp.Body, cancel}, rows, nil
}

func missing(err error) error {
	var answer *statusError
	if errors.As(err, &answer) && answer.code == http.StatusNotFound {
		return errNoStream
	}
	return err
}

// stream ends its request when it is closed: a body that is only closed is first read to its end.
type stream struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (s *stream) Close() error {
	s.cancel(nil)
	return s.ReadCloser.Close()
}

// query reads all rows of a table.
func (c *client) query(ctx context.Context, name string) ([]row, error) {
	ask, err := json.Marshal(map[string]any{"table": name, "key": "", "index": "", "lowerbound": true})
	if err != nil {
		return nil, err
	}
	body, err := c.get(ctx, "/statedb/query", bytes.NewReader(ask))
	if err != nil {
		return nil, err
	}
	var rows []row
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		var r row
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode table %s: %w", name, err)
		}
		if r.Error != "" {
			return nil, fmt.Errorf("query table %s: %s", name, r.Error)
		}
		rows = append(rows, r)
	}
}

// follow reads a stream to its end, which is an error unless ctx ended: the agent went.
func follow(ctx context.Context, t *table, body io.Reader, out chan<- change) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxBody)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("decode change of %s: %w", t.name, err)
		}
		if r.empty() {
			continue
		}
		select {
		case out <- change{t, r, time.Now()}:
		case <-ctx.Done():
			return nil
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return errTooLarge
	case err != nil:
		return fmt.Errorf("read changes of %s: %w", t.name, err)
	}
	return fmt.Errorf("read changes of %s: %w", t.name, io.EOF)
}
