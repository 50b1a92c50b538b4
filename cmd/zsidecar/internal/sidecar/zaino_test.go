package sidecar

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// What the line says in every state.
func TestZainoStatus(t *testing.T) {
	t.Parallel()
	now := time.Now()
	known := zebrarpc.TipState{Known: true, Confirmed: now}
	building, complete := ops.IndexFacts{On: true, Open: true}, ops.IndexFacts{On: true, Open: true, Complete: true}
	stopped := ops.IndexFacts{On: true, Open: true, Stopped: true, Err: errors.New("bad block")}
	for _, tt := range []struct {
		facts   ops.Facts
		jsonRPC bool
		want    string
	}{
		{ops.Facts{Index: building}, false, "chain_state: Spawning, fs_mode: ephemeral(syncing), json_rpc: Offline, grpc: Ready"},
		{ops.Facts{Node: known, Index: building}, true, "chain_state: Ready, fs_mode: ephemeral(syncing), json_rpc: Ready, grpc: Ready"},
		{ops.Facts{Node: known, Index: complete}, true, "chain_state: Ready, fs_mode: persistent, json_rpc: Ready, grpc: Ready"},
		{ops.Facts{Node: known}, false, "chain_state: Ready, fs_mode: ephemeral(configured), json_rpc: Offline, grpc: Ready"},
		{ops.Facts{Node: known, Index: stopped}, false, "chain_state: RecoverableError, fs_mode: ephemeral(syncing), json_rpc: Offline, grpc: Ready"},
		{ops.Facts{Node: known, Index: complete, Stopping: true}, true, "chain_state: Closing, fs_mode: persistent, json_rpc: Closing, grpc: Closing"},
	} {
		if got := zainoStatus(now, tt.facts, tt.jsonRPC); got != "Zaino status check, "+tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The line comes at once and then every ten seconds, and only from the program that was started as zainod.
func TestZainoLog(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log, now := slog.New(slog.NewTextHandler(&text, nil)), time.Now()
	var z zainoLog
	for i, want := range []int{1, 1, 2, 2} {
		z.look(log, now.Add(time.Duration(i)*5*time.Second), ops.Facts{}, false)
		if got := strings.Count(text.String(), `msg="Zaino status check, chain_state: Spawning`); got != want {
			t.Errorf("after %d s: %d lines, want %d", i*5, got, want)
		}
	}
	n := newNode(t, 20, zebratest.NodeOptions{})
	startNode(t, n)
	for _, zaino := range []bool{true, false} {
		var out bytes.Buffer // read when nobody writes any more
		s, end := runWith(t, Options{Config: settings(t, func(c *config.Config) { c.Zebra = n.URL() }), Zaino: zaino, Log: slog.New(slog.NewTextHandler(&out, nil))})
		await(t, "ready", func() bool { return s.Health().Ready })
		if err := end(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "Zaino status check"); got > 1 || got == 1 != zaino {
			t.Errorf("as zainod %v: %d lines", zaino, got)
		}
	}
}
