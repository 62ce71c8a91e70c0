package replay

import (
	"context"
	"strconv"
	"strings"
	"time"

	"weir/cmd/internal/exit"
	"weir/internal/sleep"
)

// A speed is the speed of sending; the zero value means as fast as the sink takes lines.
type speed struct {
	perSecond float64 // lines a second
	factor    float64 // of the log's own pace
}

func parseSpeed(text string) (speed, error) {
	if text == "max" {
		return speed{}, nil
	}
	if number, ok := strings.CutSuffix(text, "/s"); ok {
		if n, err := strconv.ParseFloat(number, 64); err == nil && n >= 0.001 && n <= 1e9 {
			return speed{perSecond: n}, nil
		}
	}

	if number, ok := strings.CutPrefix(text, "x"); ok {
		if f, err := strconv.ParseFloat(number, 64); err == nil && f >= 0.001 && f <= 1e9 {
			return speed{factor: f}, nil
		}
	}

	return speed{}, exit.Wrongf("--speed %s is not a speed; write max, 500/s, or x10 for ten times the log's own pace", text)
}

// A pacer computes when each line is due.
type pacer struct {
	speed
	start time.Time // when the first line was due
	first int64     // its own time, Unix ms
	begun bool
	lines int64
}

// due returns when the next line is to be sent; the zero time means now.
func (p *pacer) due(at int64, timed bool) time.Time {
	if p.start.IsZero() {
		p.start = time.Now()
	}
	switch {
	case p.perSecond > 0:
		p.lines++
		return p.start.Add(time.Duration(float64(p.lines-1) / p.perSecond * float64(time.Second)))
	case p.factor == 0 || !timed:
		return time.Time{}
	}

	if !p.begun {
		p.begun, p.first, p.start = true, at, time.Now()
	}
	return p.start.Add(time.Duration(float64(at-p.first) / p.factor * float64(time.Millisecond)))
}

// shortestWait is the shortest wait: lines that are due within it are sent together, none before its time.
const shortestWait = 5 * time.Millisecond

// waitUntil waits until due. If it has to wait, it calls before first.
func waitUntil(ctx context.Context, due time.Time, before func() error) error {
	left := time.Until(due)
	if left <= 0 {
		return ctx.Err()
	}
	if err := before(); err != nil {
		return err
	}

	sleep.For(ctx, max(left, shortestWait))
	return ctx.Err()
}
