package zebratest

import (
	"encoding/hex"
	"testing"
)

// start starts a node for the length of a test.
func start(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
