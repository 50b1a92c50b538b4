package sidecar

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
)

// zainoInterval is how often Zaino says how it is.
const zainoInterval = 10 * time.Second

// zainoLog writes the line in which Zaino says how it is, in its words: test harnesses wait for "fs_mode: persistent", which says that the
// index is complete.
type zainoLog struct{ last time.Time }

// look writes the line when it is time.
func (z *zainoLog) look(log *slog.Logger, now time.Time, f ops.Facts, jsonRPC bool) {
	if now.Sub(z.last) < zainoInterval {
		return
	}
	z.last = now
	log.Info(zainoStatus(now, f, jsonRPC))
}

func zainoStatus(now time.Time, f ops.Facts, jsonRPC bool) string {
	chain, server, calls := "RecoverableError", "Ready", "Offline"
	switch {
	case f.Stopping:
		chain, server = "Closing", "Closing"
	case ops.Assess(now, f).Ready:
		chain = "Ready"
	case !f.Node.Known:
		chain = "Spawning"
	}
	if jsonRPC {
		calls = server
	}
	mode := "ephemeral(syncing)"
	switch {
	case !f.Index.On:
		mode = "ephemeral(configured)"
	case f.Index.Complete:
		mode = "persistent"
	}
	return fmt.Sprintf("Zaino status check, chain_state: %s, fs_mode: %s, json_rpc: %s, grpc: %s", chain, mode, calls, server)
}
