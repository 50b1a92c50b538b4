package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/progress"
)

// showProgress shows how far a piece of work is, as note tells, until stop is called, which may be more than once.
func showProgress(ctx context.Context, log *slog.Logger, screen *progress.Screen, what string) (note func(done, total int64), stop func()) {
	var m meter
	ctx, cancel := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		progress.Report(ctx, progress.Options{Read: m.state, Log: log, Screen: screen, What: what})
	})
	return m.note, func() { cancel(); shown.Wait() }
}

// meter turns what a piece of work says of its progress into what is shown.
type meter struct {
	mu          sync.Mutex
	done, total int64
	began       time.Time // of this pass over the blocks
}

func (m *meter) note(done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() || done < m.done {
		m.began = time.Now()
	}
	m.done, m.total = done, total
}

func (m *meter) state() progress.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return progress.State{
		Height: uint64(m.done), Target: uint64(m.total), Building: m.done < m.total,
		PerSecond: float64(m.done) / max(time.Since(m.began).Seconds(), 0.001),
	}
}
