package main

import (
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/memlimit"
)

// limitMemory tells the garbage collector how much memory the control group leaves it, unless GOMEMLIMIT does: without, it would let
// garbage grow until the kernel ends the process.
func (p *program) limitMemory(log *slog.Logger) {
	for _, entry := range p.env {
		if value, ok := strings.CutPrefix(entry, "GOMEMLIMIT="); ok && value != "" {
			log.Info("memory limit", "GOMEMLIMIT", value)
			return
		}
	}
	limit, file, err := memlimit.OfCgroup(os.DirFS("/"))
	switch {
	case err != nil:
		log.Debug("no memory limit is known", "err", err)
	case limit > 0:
		goal := memlimit.ForGo(limit)
		debug.SetMemoryLimit(goal)
		log.Info("memory limit", "bytes", goal, "control_group", limit, "file", file)
	}
}
