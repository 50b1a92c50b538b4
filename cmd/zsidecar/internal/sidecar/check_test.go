package sidecar

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/index"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// The index in use is checked over HTTP; one that is not there is not.
func TestCheckInUse(t *testing.T) {
	n := newNode(t, 50, zebratest.NodeOptions{})
	startNode(t, n)
	post := func(s *Sidecar) (int, []byte) {
		t.Helper()
		resp, err := http.Post("http://"+s.HTTPAddr()+"/check", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	s, end := run(t, settings(t, func(c *config.Config) { c.Zebra = n.URL() }))
	await(t, "the index is complete", func() bool { return s.Health().Index.State == "complete" })
	code, body := post(s)
	var report index.Report
	if err := json.Unmarshal(body, &report); err != nil || code != 200 || report.Height != 50 || !report.Complete || len(report.Problems) > 0 {
		t.Errorf("POST /check: %d %s, %v", code, body, err)
	}
	if code, text := get(t, s, "/check"); code != 200 || !strings.Contains(text, `"height": 50`) {
		t.Errorf("GET /check: %d %s", code, text)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}

	s, _ = run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex = n.URL(), true }))
	if code, body := post(s); code != 503 || !strings.Contains(string(body), "there is no index") {
		t.Errorf("POST /check without an index: %d %s", code, body)
	}
}
