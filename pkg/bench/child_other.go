//go:build !linux

package bench

import "syscall"

// canStart tells why servers cannot be started here.
func canStart() error {
	return inputError("servers are started and watched on Linux only: start them yourself and leave --start away")
}

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) {}

func allocated(string) (int64, error) { return 0, canStart() }
