package integration

import "syscall"

// dieWithParent makes the kernel end a child when the test process dies without running its cleanups, as a test timeout does.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
