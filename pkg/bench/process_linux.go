package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readProcess reads what a process uses; it has to be one of the same user for what it has written to be told, which is 0 otherwise.
// Source: clock_getcpuclockid(3), proc_pid_status(5), proc_pid_io(5).
func readProcess(pid int) (use processUse, err error) {
	// The clock of another process is named by its id. /proc/PID/stat counts in ticks of 10 ms, the clock in nanoseconds.
	const cpuClock = 2 // CPUCLOCK_SCHED
	var used unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|cpuClock, &used); err != nil {
		return use, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	use.cpu = time.Duration(used.Nano())
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return use, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	use.rssAnon = procField(status, "RssAnon:") << 10
	use.rssFile = procField(status, "RssFile:") << 10
	if io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid)); err == nil {
		use.written = procField(io, "write_bytes:")
	}
	return use, nil
}

// procField returns the number of a line that begins with a name, 0 if there is none.
func procField(file []byte, name string) uint64 {
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n
		}
	}
	return 0
}

// ownCPU is the processor time of this process, kernel time included.
func ownCPU() time.Duration {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &used); err != nil {
		return 0
	}
	return time.Duration(used.Nano())
}

// machine describes what the run is made on.
func machine(tool string) Machine {
	m := Machine{Cores: runtime.NumCPU(), Tool: tool, System: runtime.GOOS + "/" + runtime.GOARCH}
	if cpuinfo, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = procText(cpuinfo, "model name")
	}
	if meminfo, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.Memory = procField(meminfo, "MemTotal:") << 10
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.System = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + runtime.GOARCH
	}
	return m
}

// procText returns what follows the colon in the first line that begins with a name.
func procText(file []byte, name string) string {
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
