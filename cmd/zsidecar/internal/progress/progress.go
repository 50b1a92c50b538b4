// Package progress shows how far the index build is: a live bar on a terminal, one log line every ten seconds elsewhere.
//
// Report is run by the caller in a goroutine of its own and ends with its context. A Screen keeps log lines and the bar apart: it takes
// the bar away, writes the lines, and draws the bar again.
package progress

import (
	"context"
	"log/slog"
	"time"
)

const (
	barInterval  = 200 * time.Millisecond
	logInterval  = 10 * time.Second
	rateWindow   = 10 * time.Second // the rate is that of the last ten seconds
	rateInterval = 200 * time.Millisecond
)

// State is how far the build is.
type State struct {
	Height   uint64 // blocks up to here are indexed
	Target   uint64 // the node's tip; 0: not known yet
	Building bool   // there is something to show: the node's tip is known and the index is behind it
}

// Options are the parameters of Report.
type Options struct {
	Read   func() State
	Log    *slog.Logger
	Screen *Screen // where the bar goes; nil: log lines only
}

// Report shows the build until ctx ends.
func Report(ctx context.Context, o Options) {
	r := reporter{Options: o}
	ticker := time.NewTicker(rateInterval)
	defer ticker.Stop()
	defer r.hide()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			r.step(now, o.Read())
		}
	}
}

type reporter struct {
	Options
	rate     rate
	began    time.Time // of the build that is shown; zero: none is
	first    uint64    // its first height
	lastLine time.Time
}

// step looks at one reading.
func (r *reporter) step(now time.Time, s State) {
	if !s.Building {
		r.finish(now, s)
		return
	}
	if r.began.IsZero() {
		r.began, r.first, r.lastLine, r.rate = now, s.Height, now, rate{}
		r.Log.Info("building the index", "height", s.Height, "target", s.Target)
	}
	r.rate.add(now, s.Height)
	f := frame{State: s, perSecond: r.rate.perSecond()}
	if r.Screen != nil {
		r.Screen.show(f)
		return
	}
	if now.Sub(r.lastLine) >= logInterval {
		r.lastLine = now
		r.Log.Info("building the index", "height", s.Height, "target", s.Target,
			"blocks_per_s", int(f.perSecond), "percent", f.percent(), "eta", f.eta())
	}
}

// finish ends the build that is shown, if there is one.
func (r *reporter) finish(now time.Time, s State) {
	if r.began.IsZero() {
		return
	}
	r.hide()
	if took := now.Sub(r.began); s.Height > r.first {
		blocks := s.Height - r.first
		r.Log.Info("the index reached the tip", "height", s.Height, "blocks", blocks,
			"took", took.Round(100*time.Millisecond).String(), "blocks_per_s", int(float64(blocks)/took.Seconds()))
	}
	r.began = time.Time{}
}

func (r *reporter) hide() {
	if r.Screen != nil {
		r.Screen.hide()
	}
}

// rate is the speed over the last rateWindow.
type rate struct{ samples []sample }

type sample struct {
	at     time.Time
	height uint64
}

func (r *rate) add(at time.Time, height uint64) {
	for len(r.samples) > 1 && at.Sub(r.samples[0].at) > rateWindow {
		r.samples = r.samples[1:]
	}
	r.samples = append(r.samples, sample{at, height})
}

func (r *rate) perSecond() float64 {
	if len(r.samples) < 2 {
		return 0
	}
	first, last := r.samples[0], r.samples[len(r.samples)-1]
	if last.height < first.height { // a rewind
		return 0
	}
	return float64(last.height-first.height) / last.at.Sub(first.at).Seconds()
}
