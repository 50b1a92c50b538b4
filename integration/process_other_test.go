//go:build !linux

package integration

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
