package integration

import (
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// promptly is how soon after its start zsidecar has to listen, and to answer when Zebra is up.
const promptly = 500 * time.Millisecond

// TestPromptStart starts zsidecar with an empty data folder, beside a Zebra that is up and one that is not.
func TestPromptStart(t *testing.T) { // not parallel: it measures time
	n := fixtureNode(t, "")
	program(t)
	full := expectChain(t, n, 0, 100)
	want := query{method: getBlockRange}.encoded(t, full)
	for _, s := range []setup{passthrough, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			requirePrompt(t, c, "listening")
			w := c.wallet()
			awaitAnswer(t, w)
			requirePrompt(t, c, "the first answer")
			if err := w.requireRange(t.Context(), query{method: getBlockRange}, 0, 100, want); err != nil {
				t.Fatal(err)
			}
			requirePrompt(t, c, "the first range")
			c.stop()
		})
		t.Run(s.name+", no Zebra", func(t *testing.T) {
			c := newSidecar(t, "http://"+servertest.FreeAddr(t), n.cookie(), s)
			c.start()
			requirePrompt(t, c, "listening")
			c.stop()
		})
	}
}

func requirePrompt(t *testing.T, c *sidecar, what string) {
	t.Helper()
	took := time.Since(c.proc.started)
	t.Logf("%s: %v after the start", what, took.Round(time.Millisecond))
	if took > promptly {
		t.Errorf("%s came %v after the start, want at most %v", what, took, promptly)
	}
}
