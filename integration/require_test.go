package integration

import (
	"os"
	"testing"
)

// missing skips the test because something of the real world is not there, or fails it where the environment says that everything
// must be.
func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("ZSIDECAR_REQUIRE_REAL") == "1" {
		tb.Fatalf("%s (and ZSIDECAR_REQUIRE_REAL is 1)", why)
	}
	tb.Skip(why)
}

// zebradPath returns the zebrad to run.
func zebradPath(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ZSIDECAR_ZEBRAD")
	if path == "" {
		missing(tb, "ZSIDECAR_ZEBRAD is not set: run scripts/zebrad.sh and set it to the printed path")
	}
	return path
}

// pythonPath returns the Python with grpcio.
func pythonPath(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ZSIDECAR_PYTHON")
	if path == "" {
		missing(tb, "ZSIDECAR_PYTHON is not set: run scripts/venv.sh and set it to the printed path")
	}
	return path
}

// walletPath returns the wallet program of integration/wallet.
func walletPath(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ZSIDECAR_WALLET")
	if path == "" {
		missing(tb, "ZSIDECAR_WALLET is not set: run scripts/wallet.sh and set it to the printed path")
	}
	return path
}

// zainodPath returns the zainod to compare with. Nothing else depends on it, and it is dear to build: its absence skips even where nothing else may
// be missing (scripts/real.sh leaves the test out).
func zainodPath(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ZSIDECAR_ZAINOD")
	if path == "" {
		tb.Skip("ZSIDECAR_ZAINOD is not set: run scripts/zainod.sh and set it to the printed path")
	}
	return path
}
