package bench

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(fakeServerVariable); how != "" { // started by a test, as a server
		fmt.Fprintln(os.Stderr, serveFake(how, os.Args[1:]))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
