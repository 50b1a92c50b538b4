package sidecar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
)

// Which URLs lead over networks of others in plain text.
func TestPublicAddress(t *testing.T) {
	t.Parallel()
	names := map[string][]netip.Addr{
		"zebra":  {netip.MustParseAddr("172.18.0.2")},
		"mixed":  {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.7")},
		"public": {netip.MustParseAddr("2001:db8::1")},
	}
	lookup := func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if network != "ip" || names[host] == nil {
			return nil, errors.New("no such host")
		}
		return names[host], nil
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:8232": "", "http://[::1]:8232": "", "http://10.1.2.3:8232": "", "http://[fd00::1]:8232": "", "http://169.254.1.1:1": "",
		"http://0.0.0.0:8232": "", "http://[::ffff:192.168.1.1]:1": "", "http://zebra:8232": "", "http://nobody:8232": "", "https://192.0.2.1": "",
		"http://192.0.2.1:8232": "192.0.2.1", "http://[2001:db8::2]:1": "2001:db8::2", "http://mixed:8232": "198.51.100.7",
		"http://public": "2001:db8::1", "http://[::ffff:192.0.2.1]:1": "192.0.2.1",
	} {
		got := publicAddress(t.Context(), url, lookup)
		if got.IsValid() != (want != "") || got.IsValid() && got.String() != want {
			t.Errorf("%s: got %v, want %q", url, got, want)
		}
	}
}

// The program says it once, and runs. Nobody can be connected to at a multicast address: nothing leaves this machine.
func TestPublicNodeIsWarnedOf(t *testing.T) {
	for url, want := range map[string]int{"http://224.0.0.1:1": 1, "http://127.0.0.1:1": 0} {
		var out bytes.Buffer // read when nobody writes any more
		s, end := runWith(t, Options{Config: settings(t, func(c *config.Config) { c.Zebra, c.NoIndex = url, true }), Log: slog.New(slog.NewTextHandler(&out, nil))})
		await(t, "alive", func() bool { code, _ := get(t, s, "/livez"); return code == 200 })
		if err := end(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "zebra is asked in plain text"); got != want {
			t.Errorf("%s: warned %d times, want %d\n%s", url, got, want, out.String())
		}
	}
}
