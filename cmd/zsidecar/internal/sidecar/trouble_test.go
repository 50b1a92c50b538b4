package sidecar

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// What is wrong with a block stops the build below it and makes the program not ready, with height, hash and URL; it heals with the node.
func TestWrongBlock(t *testing.T) {
	const bad, tip = chain.Height(150), chain.Height(200)
	raw := func(spoil func([]byte) []byte) zebratest.Fault {
		return zebratest.Fault{Method: "getblock", Where: zebratest.AtHeight(bad), Raw: spoil}
	}
	for name, c := range map[string]struct {
		fault  zebratest.Fault
		height string
		at     chain.Height // whose hash is named
		below  chain.Height // where the index has to end
		remedy string
	}{
		"transactions": {raw(zebratest.FlipLastByte), "block 150: ", bad, bad, "database is damaged"},
		"hash":         {raw(zebratest.FlipHeaderByte), "block 151 (", bad + 1, bad, "database is damaged"},
		"link":         {raw(zebratest.FlipPrevHash), "block 150 (", bad - 1, bad, "database is damaged"},
		"tree sizes": {zebratest.Fault{Method: "getblock", Where: zebratest.AtHeight(tip), Sizes: func(s chain.TreeSizes) chain.TreeSizes {
			s.Orchard++
			return s
		}}, "block 200 (", tip, tip, "the blocks add up to"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, int(tip), zebratest.NodeOptions{})
			startNode(t, n)
			hash, err := n.Chain().Hash(c.at)
			if err != nil {
				t.Fatal(err)
			}
			heal := n.Fault(c.fault)
			s, end := run(t, settings(t, func(c *config.Config) { c.Zebra = n.URL() }))
			await(t, "the build has stopped", func() bool {
				code, text := get(t, s, "/readyz")
				return code == 503 && strings.Contains(text, "the index build has stopped: ")
			})
			_, text := get(t, s, "/healthz")
			for _, part := range []string{c.height, hash.String(), n.URL(), c.remedy} {
				if !strings.Contains(text, part) {
					t.Errorf("/healthz does not name %s: %s", part, text)
				}
			}
			if stored := s.Health().Index; stored.Height != nil {
				right, err := n.Chain().Hash(chain.Height(*stored.Height))
				if err != nil || stored.Hash != right.String() || *stored.Height >= uint32(c.below) {
					t.Errorf("the index ends with block %d (%s), the node has %s, %v", *stored.Height, stored.Hash, right, err)
				}
			}
			if _, metrics := get(t, s, "/metrics"); !strings.Contains(metrics, "\nzsidecar_build_stopped 1\n") {
				t.Error("/metrics does not say that the build has stopped")
			}

			heal()
			if err := n.Chain().Extend(1, zebratest.Small); err != nil { // a new tip is when it is tried again
				t.Fatal(err)
			}
			await(t, "complete and ready", func() bool { h := s.Health(); return h.Ready && h.Index.State == "complete" })
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A full disk pauses the build; answers go on.
func TestFullDisk(t *testing.T) {
	n := newNode(t, 50, zebratest.NodeOptions{})
	startNode(t, n)
	s, end := run(t, settings(t, func(c *config.Config) { c.Zebra, c.MinFreeBytes = n.URL(), 1<<62 }))
	await(t, "the pause is told", func() bool {
		reasons := strings.Join(s.Health().Reasons, "; ")
		return strings.HasPrefix(reasons, "the index build is paused: ") && strings.Contains(reasons, "disk full: ")
	})
	if code, text := get(t, s, "/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if _, metrics := get(t, s, "/metrics"); !strings.Contains(metrics, "\nzsidecar_build_paused_for_disk 1\n") {
		t.Error("/metrics does not say that the build is paused")
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A port that is taken ends New, which leaves no goroutine behind, and the other port free.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	cfg := settings(t, func(c *config.Config) { c.GRPC, c.HTTP = free.Addr().String(), taken.Addr().String() })
	before := goleak.IgnoreCurrent()
	if _, err := New(Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("got %v, want a port that is in use", err)
	}
	goleak.VerifyNone(t, before)
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Fatalf("the other port was not given back: %v", err)
	}
	again.Close()
}
