//go:build !linux

package bench

import (
	"fmt"
	"runtime"
	"time"
)

// readProcess fails: what another process uses is known on Linux only.
func readProcess(pid int) (processUse, error) {
	return processUse{}, fmt.Errorf("what process %d uses is known on Linux only: leave --pid away", pid)
}

// ownCPU is not known here.
func ownCPU() time.Duration { return 0 }

// machine describes what the run is made on, as far as it is known here.
func machine(tool string) Machine {
	return Machine{Cores: runtime.NumCPU(), Tool: tool, System: runtime.GOOS + "/" + runtime.GOARCH}
}
