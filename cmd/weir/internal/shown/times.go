package shown

import (
	"fmt"
	"io"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/pkg/backtest"
)

// Times writes times for the reader of an output: in a terminal local ones, with the time that is left; elsewhere RFC 3339
// in UTC, as the zero value does.
type Times struct{ now time.Time }

// NewTimes returns the times of an output that is written at now.
func NewTimes(w io.Writer, now time.Time) Times {
	if !output.IsTerminal(w) {
		return Times{}
	}
	return LocalTimes(now)
}

// LocalTimes returns times in the zone of now.
func LocalTimes(now time.Time) Times { return Times{now} }

// Local reports whether times are local.
func (t Times) Local() bool { return !t.now.IsZero() }

// At returns a time in Unix milliseconds; a local one without its zone.
func (t Times) At(milliseconds int64) string {
	if !t.Local() {
		return backtest.Instant(milliseconds).String()
	}

	at := time.UnixMilli(milliseconds).In(t.now.Location())
	switch {
	case at.YearDay() == t.now.YearDay() && at.Year() == t.now.Year():
		return at.Format("15:04:05")
	case at.Year() == t.now.Year():
		return at.Format("2 Jan 15:04")
	}
	return at.Format("2 Jan 2006 15:04")
}

// Exact returns a time with its date and milliseconds; a local one without its zone.
func (t Times) Exact(milliseconds int64) string {
	if !t.Local() {
		return t.At(milliseconds)
	}
	return time.UnixMilli(milliseconds).In(t.now.Location()).Format("2006-01-02 15:04:05.000")
}

// Note returns a line that names the zone of the times below; empty where they are in UTC.
func (t Times) Note() string {
	if !t.Local() {
		return ""
	}
	return "Times are of " + t.now.Format("MST (-07:00)") + ".\n"
}

// Until returns an end; a local one with the time that is left.
func (t Times) Until(milliseconds int64) string {
	left := time.UnixMilli(milliseconds).Sub(t.now)
	if !t.Local() || left <= 0 {
		return t.At(milliseconds)
	}
	return t.At(milliseconds) + " (" + Span(left) + " left)"
}

// Zone returns the name of the zone after a title: UNTIL (CET).
func (t Times) Zone(title string) string {
	if !t.Local() {
		return title
	}
	return title + " (" + t.now.Format("MST") + ")"
}

// Span returns a duration in at most two units.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
