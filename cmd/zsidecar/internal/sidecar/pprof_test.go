package sidecar

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// Profiles have a port of their own: the one of metrics, which others may reach, shows none.
func TestPprof(t *testing.T) {
	t.Parallel()
	n := newNode(t, 10, zebratest.NodeOptions{})
	startNode(t, n)
	s, stop := run(t, settings(t, func(c *config.Config) { c.Zebra, c.Pprof = n.URL(), "127.0.0.1:0" }))
	get := func(addr, path string) (int, string) {
		t.Helper()
		reply, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(body)
	}
	if code, body := get(s.PprofAddr(), "/debug/pprof/goroutine?debug=1"); code != http.StatusOK || !strings.Contains(body, "Sidecar).Run") {
		t.Errorf("goroutines: %d, %q", code, body)
	}
	if code, body := get(s.PprofAddr(), "/debug/pprof/profile?seconds=1"); code != http.StatusOK || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("profile: %d, %.20q is not gzip", code, body)
	}
	for _, path := range []string{"/metrics", "/livez", "/"} {
		if code, _ := get(s.PprofAddr(), path); code != http.StatusNotFound {
			t.Errorf("%s on the port of profiles: %d", path, code)
		}
	}
	if code, _ := get(s.HTTPAddr(), "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles on the port of metrics: %d", code)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
