package ops

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zsidecar/zsidecar/pkg/index"
)

// Options are what the HTTP port shows.
type Options struct {
	Metrics prometheus.Gatherer
	Health  func() Health
	Alive   func() bool // the program's loop has run lately
	// Check verifies the index in use. It fails when there is none, or when ctx ends.
	Check func(ctx context.Context, progress func(done, total int64)) (index.Report, error)
}

// NewHandler returns the handler of the HTTP port.
func NewHandler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, o.Alive(), "ok\n", "the program's loop has stood still for 30 s\n")
	})
	ready := func(w http.ResponseWriter, _ *http.Request) {
		h := o.Health()
		text := ""
		for _, reason := range h.Reasons {
			text += reason + "\n"
		}
		answer(w, h.Ready, "ok\n", text)
	}
	mux.HandleFunc("GET /readyz", ready)
	mux.HandleFunc("GET /ready", ready)
	health := func(w http.ResponseWriter, _ *http.Request) {
		h := o.Health()
		reply(w, statusOf(h.Ready), h)
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /healthy", health)
	c := checks{run: o.Check}
	mux.HandleFunc("POST /check", c.post)
	mux.HandleFunc("GET /check", c.get)
	return mux
}

func answer(w http.ResponseWriter, ok bool, good, bad string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(statusOf(ok))
	text := bad
	if ok {
		text = good
	}
	_, _ = io.WriteString(w, text) // the client went away; nobody is left to tell
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}
