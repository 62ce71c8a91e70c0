package files

import "time"

const (
	steadyAfter = 3 // readings in a row that found something: more is expected by the next beat
	steadyBeats = 2 // the longest pause between two of them
)

// A growth is how steadily a log grows.
type growth struct {
	beat     time.Duration // 0: nothing is steady
	last     time.Time     // when the last reading that found something did
	readings int           // in a row
}

// note notes a reading, with the time when the log was last found to have grown. It reports whether the log grows so
// steadily that more is expected by the next beat.
func (g *growth) note(grown time.Time) bool {
	switch since := grown.Sub(g.last); {
	case since == 0:
		g.readings = 0
	case since > steadyBeats*g.beat:
		g.readings = 1
	default:
		g.readings++
	}
	g.last = grown
	return g.beat > 0 && g.readings >= steadyAfter
}
