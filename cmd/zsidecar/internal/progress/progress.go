// Package progress shows how far the index build is: a live bar on a terminal, elsewhere a log line every ten seconds in which it got further.
//
// Report is run by the caller in a goroutine of its own and ends with its context. A Screen keeps log lines and the bar apart: it takes
// the bar away, writes the lines, and draws the bar again.
package progress

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

const (
	barInterval = 200 * time.Millisecond
	logInterval = 10 * time.Second
)

// State is how far the build is.
type State struct {
	Height   uint64 // blocks up to here are indexed
	Target   uint64 // the node's tip; 0: not known yet
	Building bool   // there is something to show: the node's tip is known and the index is behind it

	PerSecond float64 // blocks, of late
}

// Options are the parameters of Report.
type Options struct {
	Read   func() State
	Log    *slog.Logger
	Screen *Screen // where the bar goes; nil: log lines only
	What   string  // what the log lines say; empty: "building the index", with a line at the beginning and one at the end
}

// Report shows the build until ctx ends.
func Report(ctx context.Context, o Options) {
	r := reporter{Options: o, brief: o.What != ""}
	r.What = cmp.Or(o.What, "building the index")
	ticker := time.NewTicker(barInterval)
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
	brief    bool
	began    time.Time // of the build that is shown; zero: none is
	first    uint64    // its first height
	lastLine time.Time
	line     uint64 // the height of that line
}

// step looks at one reading.
func (r *reporter) step(now time.Time, s State) {
	if !s.Building {
		r.finish(now, s)
		return
	}
	if r.began.IsZero() {
		r.began, r.first, r.lastLine, r.line = now, s.Height, now, s.Height
		if !r.brief {
			r.Log.Info(r.What, "height", s.Height, "target", s.Target)
		}
	}
	if r.Screen != nil {
		r.Screen.show(s)
		return
	}
	if now.Sub(r.lastLine) >= logInterval && s.Height != r.line { // why it stands still, the build says once itself
		r.lastLine, r.line = now, s.Height
		r.Log.Info(r.What, "height", s.Height, "target", s.Target,
			"blocks_per_s", int(s.PerSecond), "percent", s.percent(), "eta", s.eta())
	}
}

// finish ends the build that is shown, if there is one.
func (r *reporter) finish(now time.Time, s State) {
	if r.began.IsZero() {
		return
	}
	r.hide()
	if took := now.Sub(r.began); s.Height > r.first && !r.brief {
		blocks := s.Height - r.first
		r.Log.Info("the index reached the tip", "height", s.Height, "blocks", blocks,
			"took", took.Round(100*time.Millisecond).String(), "blocks_per_s", int(float64(blocks)/took.Seconds()))
	}
	r.began = time.Time{}
}

func (r *reporter) hide() {
	if r.Screen != nil {
		r.Screen.Hide()
	}
}
