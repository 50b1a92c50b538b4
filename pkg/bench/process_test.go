package bench

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// What the test itself uses and writes is seen in its own numbers.
func TestReadProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process uses is known on Linux only")
	}
	before, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	held := make([]byte, 32<<20)
	for i := range held {
		held[i] = byte(i)
	}
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; {
	}
	after, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if used := after.cpu - before.cpu; used < 10*time.Millisecond || used > time.Minute {
		t.Errorf("50 ms of work took %v of processor time", used)
	}
	if grown := int64(after.rssAnon) - int64(before.rssAnon); grown < 24<<20 {
		t.Errorf("anonymous memory grew by %d bytes beside %d that were written to", grown, len(held))
	}
	if after.rssFile == 0 {
		t.Error("the program's own file is not among the mapped ones")
	}
	runtime.KeepAlive(held)
	if _, err := readProcess(1 << 30); err == nil {
		t.Error("a process that does not exist has been read")
	}
}
