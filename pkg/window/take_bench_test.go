package window

import (
	"testing"
	"time"
)

// Two limits of one key that is at its limit all the time: half of the attempts are refused.
func BenchmarkTake(b *testing.B) {
	for _, a := range Algorithms() {
		b.Run(a.String(), func(b *testing.B) {
			p := mustNew(b, Config{Algorithm: a, Limits: []Limit{{100, time.Second}, {5000, time.Minute}}, Subwindows: 10, Block: Block{For: time.Minute}, Remember: 8192})
			var s State
			at := int64(someTime)
			for range 100_000 {
				at += 5
				p.Take(&s, at, 1)
			}
			b.ReportAllocs()
			for b.Loop() {
				at += 5
				p.Take(&s, at, 1)
			}
		})
	}
}

// An attempt that is admitted, and ends when ten others have come: at a limit at once next to another one.
func BenchmarkTakeAtOnce(b *testing.B) {
	p := mustNew(b, Config{Limits: []Limit{{20, 30 * time.Second}, {1_000_000, time.Second}}, AtOnce: []int{0}, Algorithm: Token, Block: Block{For: time.Minute}})
	var s State
	at := int64(someTime)
	b.ReportAllocs()
	for b.Loop() {
		at++
		p.Take(&s, at, 1)
		p.End(&s, at, at-10, 1)
	}
}
