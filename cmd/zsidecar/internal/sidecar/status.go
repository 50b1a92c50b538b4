package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/ops"
	"github.com/zsidecar/zsidecar/pkg/index"
)

const (
	statusInterval = 250 * time.Millisecond
	aliveWithin    = 30 * time.Second
)

// watchStatus keeps the gRPC health service and the log in step with ops.Assess, and its own pulse for /livez.
func (s *Sidecar) watchStatus(ctx context.Context) {
	ticker := time.NewTicker(statusInterval)
	defer ticker.Stop()
	ready := false
	var behind behindLog
	var zaino zainoLog
	for {
		changed := s.client.Changed()
		s.pulse()
		behind.look(s.Log, s.facts())
		if s.Zaino {
			zaino.look(s.Log, time.Now(), s.facts(), s.json != nil)
		}
		if h := s.Health(); h.Ready != ready {
			ready = h.Ready
			s.wallets.SetServing(ready)
			s.logReady(h)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

// pulse notes that the loop runs, with the monotonic clock: that on the wall may jump.
func (s *Sidecar) pulse() {
	now := time.Now()
	s.beat.Store(&now)
}

// keepNodeInfo has the wallet server ask the node about itself at every change of the tip, so that what it says when the node goes away
// is not old, and the index keep the answer, for a start without the node.
func (s *Sidecar) keepNodeInfo(ctx context.Context) {
	opened := s.opened
	for {
		changed := s.client.Changed()
		if s.client.Tip().Up() {
			info, err := s.wallets.AskNode(ctx)
			store := s.store.Load()
			switch {
			case err == nil && store != nil:
				store.PutNodeInfo(info)
			case err != nil && ctx.Err() == nil:
				s.Log.Debug("ask the node about itself", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-opened:
			opened = nil
		}
	}
}

func (s *Sidecar) logReady(h ops.Health) {
	switch {
	case h.Ready:
		s.Log.Info("ready: wallets are answered", "node_height", height(h.Node.Height), "index", h.Index.State, "index_height", height(h.Index.Height))
	case !s.stopping.Load():
		s.Log.Warn("not ready", "reasons", strings.Join(h.Reasons, "; "))
	}
}

// height is for log lines.
func height(h *uint32) any {
	if h == nil {
		return "none"
	}
	return *h
}

// Health judges the present moment.
func (s *Sidecar) Health() ops.Health { return ops.Assess(time.Now(), s.facts()) }

func (s *Sidecar) facts() ops.Facts {
	return ops.Facts{NodeURL: s.client.URL(), Node: s.client.Tip(), Refused: s.client.Refused(), Missing: s.missingMethods(), Index: s.indexFacts(), Stopping: s.stopping.Load()}
}

func (s *Sidecar) readings() ops.Readings {
	facts := s.facts()
	r := ops.Readings{
		Facts: facts, Zebra: s.client.Stats(), Wallets: s.wallets.Stats(), Mempool: s.mempool.Stats(), JSONRPC: s.json.stats(),
		Ready: ops.Assess(time.Now(), facts).Ready, TipStream: s.tips != nil,
	}
	if store := s.store.Load(); store != nil {
		r.Store = store.Stats()
	}
	for _, port := range s.ports {
		r.Refused += port.Refused()
	}
	if s.tips != nil {
		r.Tips = s.tips.Stats()
	}
	return r
}

// checkIndex verifies the index while it is in use.
func (s *Sidecar) checkIndex(ctx context.Context, progress func(done, total int64)) (index.Report, error) {
	store := s.store.Load()
	if store == nil {
		return index.Report{}, errors.New("there is no index now: it is off, or waits to be opened")
	}
	s.Log.Info("checking the index")
	report, err := store.Check(ctx, index.CheckOptions{Progress: progress})
	switch {
	case err != nil:
		s.Log.Warn("the index was not checked", "error", err)
	case len(report.Problems) > 0:
		s.Log.Error("the index is damaged: stop and run zsidecar check --repair", "problems", len(report.Problems), "first", report.Problems[0].String())
	default:
		s.Log.Info("the index is right", "height", report.Height)
	}
	return report, err
}

// serveHTTP serves metrics and health until ctx ends.
func (s *Sidecar) serveHTTP(ctx context.Context) error {
	if exposed(s.http) {
		s.Log.Warn("metrics and health are served on an address that others may reach, who may also have the index checked: "+
			"choose a private one (--http)", "addr", s.HTTPAddr())
	}
	s.Log.Info("serving metrics and health", "addr", s.HTTPAddr())
	return s.serveOperator(ctx, s.http, ops.NewHandler(ops.Options{
		Metrics: s.registry,
		Health:  s.Health,
		Alive:   func() bool { return time.Since(*s.beat.Load()) < aliveWithin },
		Check:   s.checkIndex,
	}))
}

// servePprof serves profiles until ctx ends.
func (s *Sidecar) servePprof(ctx context.Context) error {
	s.Log.Info("serving profiles", "addr", s.PprofAddr())
	return s.serveOperator(ctx, s.pprof, ops.NewPprofHandler())
}

// serveOperator serves one of the operator's ports until ctx ends.
func (s *Sidecar) serveOperator(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		limit, cancel := context.WithTimeout(context.Background(), httpLimit)
		defer cancel()
		if server.Shutdown(limit) != nil {
			server.Close()
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-ended
	return nil
}

// BlocksServed counts the blocks that wallets got, by chain.Origin.
func (s *Sidecar) BlocksServed() [2]uint64 { return s.wallets.Stats().BlocksServed }

// behindAfter is how long Zebra has to be below a complete index before the log tells: a moment of it is a reorg to a shorter chain, or
// several nodes that answer in turn.
const behindAfter = 10 * time.Second

// behindLog tells when Zebra has been set back below the index, and when it has caught up.
type behindLog struct {
	since time.Time // zero: it is not below
	told  bool
}

func (b *behindLog) look(log *slog.Logger, f ops.Facts) {
	switch below := f.Node.Up() && f.Index.Complete && f.Node.ID.Height < f.Index.Tip.Height; {
	case !below && b.told && f.Node.Up():
		log.Info("zebra has caught up with the index", "height", f.Node.ID.Height)
		*b = behindLog{}
	case !below:
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = time.Now()
	case !b.told && time.Since(b.since) >= behindAfter:
		b.told = true
		log.Warn("zebra is below the index, as after a restart or with a new database: what is indexed is served on, and it is waited for",
			"zebra", f.Node.ID.Height, "index", f.Index.Tip.Height)
	}
}
