package ops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zsidecar/zsidecar/pkg/index"
)

// One check runs at a time, ends with its client, and is remembered.
func TestCheck(t *testing.T) {
	t.Parallel()
	type outcome struct {
		report index.Report
		err    error
	}
	began, outcomes := make(chan struct{}), make(chan outcome)
	h := NewHandler(Options{Metrics: prometheus.NewRegistry(), Check: func(ctx context.Context, progress func(done, total int64)) (index.Report, error) {
		progress(3, 10)
		began <- struct{}{}
		select {
		case <-ctx.Done():
			return index.Report{}, ctx.Err()
		case o := <-outcomes:
			return o.report, o.err
		}
	}})
	ask := func(ctx context.Context, method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/check", nil))
		return w
	}
	post := func(ctx context.Context) <-chan *httptest.ResponseRecorder {
		done := make(chan *httptest.ResponseRecorder, 1)
		go func() { done <- ask(ctx, http.MethodPost) }()
		<-began
		return done
	}
	expect := func(what string, w *httptest.ResponseRecorder, code int, text string) {
		t.Helper()
		if w.Code != code || !strings.Contains(w.Body.String(), text) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s; want %d and %q", what, w.Code, w.Body, code, text)
		}
	}
	ctx := t.Context()
	expect("before any", ask(ctx, http.MethodGet), 404, "POST /check")

	first := post(ctx)
	expect("while one runs", ask(ctx, http.MethodGet), 200, `"running": true,
  "done": 3,
  "total": 10`)
	if second := ask(ctx, http.MethodPost); second.Code != 409 || second.Header().Get("Retry-After") == "" {
		t.Errorf("a second one: %d %s", second.Code, second.Body)
	}
	outcomes <- outcome{index.Report{Height: 9}, nil}
	expect("a right index", <-first, 200, `"height": 9`)
	expect("afterwards", ask(ctx, http.MethodGet), 200, `"running": false`)

	wrong := post(ctx)
	outcomes <- outcome{index.Report{Height: 10, Problems: []index.Problem{{Key: "segment/9"}}}, nil}
	expect("a damaged index", <-wrong, 500, `"segment/9"`)
	expect("afterwards", ask(ctx, http.MethodGet), 500, `"ended": "`)

	failing := post(ctx)
	outcomes <- outcome{err: errors.New("no index")}
	expect("no index", <-failing, 503, `"no index"`)

	gone, leave := context.WithCancel(ctx)
	left := post(gone)
	leave()
	expect("a client that goes away", <-left, 503, "canceled")
	last := post(ctx)
	outcomes <- outcome{index.Report{Height: 11}, nil}
	expect("the next one", <-last, 200, `"height": 11`)
}
