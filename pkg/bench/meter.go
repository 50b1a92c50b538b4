package bench

import (
	"context"
	"sync"
	"time"
)

// sampleInterval is how often the memory of a server is read during a round.
const sampleInterval = 20 * time.Millisecond

// metered is what a round took.
type metered struct {
	took      time.Duration
	clientCPU time.Duration
	server    *serverUse // nil: its process is not known
}

// serverUse is what the server's process used in a round.
type serverUse struct {
	cpu              time.Duration
	rssAnon, rssFile uint64 // bytes, when the anonymous memory was at its highest
}

// metered measures one round with what it took.
func (r *run) metered(ctx context.Context, c testCase, t *target) (got round, m metered, err error) {
	watch, err := watchProcess(t.options.PID)
	if err != nil {
		return got, m, err
	}
	cpu, begin := ownCPU(), time.Now()
	got, err = c.measure(ctx, t)
	m.took, m.clientCPU = time.Since(begin), ownCPU()-cpu
	var gone error
	m.server, gone = watch.stop()
	if err == nil {
		err = gone
	}
	return got, m, err
}

// processWatch follows the memory of a process. Nil watches nothing.
type processWatch struct {
	pid     int
	before  processUse
	highest processUse // by anonymous memory; belongs to the goroutine until it has ended
	quit    chan struct{}
	ended   sync.WaitGroup
}

// watchProcess begins to watch a process; none if pid is 0.
func watchProcess(pid int) (*processWatch, error) {
	if pid == 0 {
		return nil, nil
	}
	before, err := readProcess(pid)
	if err != nil {
		return nil, err
	}
	w := &processWatch{pid: pid, before: before, highest: before, quit: make(chan struct{})}
	w.ended.Go(func() {
		ticker := time.NewTicker(sampleInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-ticker.C:
			}
			if use, err := readProcess(pid); err == nil { // one that has gone is found at the end
				w.note(use)
			}
		}
	})
	return w, nil
}

func (w *processWatch) note(use processUse) {
	if use.rssAnon > w.highest.rssAnon {
		w.highest = use
	}
}

// stop ends the watch and returns what the process used since it began.
func (w *processWatch) stop() (*serverUse, error) {
	if w == nil {
		return nil, nil
	}
	close(w.quit)
	w.ended.Wait()
	after, err := readProcess(w.pid)
	if err != nil {
		return nil, err
	}
	w.note(after)
	return &serverUse{cpu: after.cpu - w.before.cpu, rssAnon: w.highest.rssAnon, rssFile: w.highest.rssFile}, nil
}
