package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/pkg/index"
)

// checks makes the checks of the index in use, one at a time, and remembers the last.
type checks struct {
	run func(ctx context.Context, progress func(done, total int64)) (index.Report, error)

	mu   sync.Mutex
	last Checked
}

// Checked is the answer of GET /check.
type Checked struct {
	Running bool          `json:"running"`
	Done    int64         `json:"done"` // blocks, of the check that runs
	Total   int64         `json:"total"`
	Ended   *time.Time    `json:"ended,omitempty"` // of the last check, like the rest
	Seconds float64       `json:"seconds,omitempty"`
	Report  *index.Report `json:"report,omitempty"`
}

type problem struct {
	Error string `json:"error"`
}

// post runs a check and answers with its report: 200 when everything is right, 500 when something is wrong, 409 when another one runs.
// The check ends when the client goes away.
func (c *checks) post(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if !c.begin() {
		w.Header().Set("Retry-After", "10")
		reply(w, http.StatusConflict, problem{"a check is running: GET /check says how far it is"})
		return
	}
	defer c.end()
	report, err := c.run(r.Context(), func(done, total int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last.Done, c.last.Total = done, total
	})
	if err != nil {
		reply(w, http.StatusServiceUnavailable, problem{err.Error()})
		return
	}
	c.mu.Lock()
	ended := time.Now()
	c.last.Ended, c.last.Seconds, c.last.Report = &ended, ended.Sub(began).Seconds(), &report
	c.mu.Unlock()
	reply(w, statusOfReport(&report), report)
}

// begin tells whether no other check runs.
func (c *checks) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.Running {
		return false
	}
	c.last.Running, c.last.Done, c.last.Total = true, 0, 0
	return true
}

func (c *checks) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Running = false
}

// get answers with the last report, and with how far the check is that runs: 500 when the last one found something wrong, 404 when there
// was none.
func (c *checks) get(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	switch {
	case last.Report != nil:
		reply(w, statusOfReport(last.Report), last)
	case last.Running:
		reply(w, http.StatusOK, last)
	default:
		reply(w, http.StatusNotFound, problem{"the index has not been checked since the start: POST /check does it"})
	}
}

func statusOfReport(r *index.Report) int {
	if len(r.Problems) > 0 {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// reply writes JSON that people can read.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the client went away; nobody is left to tell
}
