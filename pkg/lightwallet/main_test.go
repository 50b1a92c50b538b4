package lightwallet

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The package starts no goroutine, and Stop ends grpc-go's. A benchmark starts this binary again as its server.
func TestMain(m *testing.M) {
	if kind := os.Getenv(benchServerEnv); kind != "" {
		if err := runBenchServer(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
