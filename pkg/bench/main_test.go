package bench

import (
	"context"
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
	if os.Getenv(readersVariable) != "" { // started by a test, as readers
		if err := ReadApart(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
