package integration

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel end a child when the test process dies without running its cleanups, as a test timeout does.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// procCPU is the processor time of a running process, all its threads together, to the nanosecond: /proc counts in ticks of 10 ms.
func procCPU(tb testing.TB, p *process) time.Duration {
	tb.Helper()
	const cpuClock = 2 // CPUCLOCK_SCHED; the clock of another process is named by its id, see clock_getcpuclockid(3)
	var used unix.Timespec
	if err := unix.ClockGettime(^int32(p.cmd.Process.Pid)<<3|cpuClock, &used); err != nil {
		tb.Fatalf("processor time of %s: %v", p.name, err)
	}
	return time.Duration(used.Nano())
}
