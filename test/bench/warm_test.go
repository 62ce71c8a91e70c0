package bench

import (
	"slices"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
)

// A Kafka in use has been compiled long ago: its Java has made machine code of frequent paths. A fresh one still
// compiles while lines go through, in two threads that take half a processor and more from everything else. So before a
// measurement, contenders read a million lines at a time until the compilers of Kafka's Java, and of their own, had
// practically no work during one such million.
const (
	warmLines = 1_000_000 // of a step
	warmSteps = 7         // at most; all lines together must not be older than a topic keeps them, seven days
	topicWarm = 4         // of the river, whose first step has four million lines and more
	quiet     = 100 * time.Millisecond
)

// warmed runs steps until one took the compilers less than a tenth of a second of processor time, or it was the last.
// The first step, which starts everything, does not count.
func warmed(most int, step func(number int), compiling func() time.Duration) (steps int) {
	for steps < most {
		before := compiling()
		steps++
		step(steps)
		if steps > 1 && compiling()-before < quiet {
			return steps
		}
	}
	return steps
}

// compiling is the processor time so far of the compilers of Kafka's Java, and of those of the processes.
func (c *running) compiling(cluster *kafkatest.Cluster) (total time.Duration) {
	if cluster != nil {
		total = cluster.Compiling()
	}
	for _, p := range c.processes {
		total += kafkatest.Compiling(p.Process.Pid)
	}
	return total
}

// warm has the contender read lines that are written while it is stopped, as in the measurement. It has read those that
// were there before it.
func (r *river) warm(b *testing.B, c *running) {
	steps := warmed(topicWarm, func(number int) {
		if number == 1 {
			return // read from the start
		}
		r.fillAhead(b, c, warmLines)
		r.await(b, c)
	}, func() time.Duration { return c.compiling(r.cluster) })
	b.ReportMetric(float64(r.lines+(steps-1)*warmLines), "warm-lines")
}

// warm has all daemons read file after file, and returns the number of files.
func (w *system) warm(b *testing.B) (rounds int) {
	return warmed(warmSteps, func(round int) {
		w.write(b, "warm", warmLines, round)
		w.release(b, "warm", round)
		w.await(b, round)
	}, func() time.Duration { return w.compiling(w.kafka) })
}

func TestWarmed(t *testing.T) {
	for _, c := range []struct {
		each  []time.Duration // that the compilers use in a step
		steps int
	}{
		{[]time.Duration{0, 0}, 2},
		{[]time.Duration{2 * time.Second, quiet, quiet - 1}, 3},
		{[]time.Duration{0, quiet, 1}, 3},
		{slices.Repeat([]time.Duration{time.Second}, warmSteps+1), warmSteps},
	} {
		total, next := time.Minute, 1
		steps := warmed(warmSteps, func(number int) {
			if number != next {
				t.Errorf("step %d comes as %d", number, next)
			}
			total += c.each[number-1]
			next++
		}, func() time.Duration { return total })
		if steps != c.steps {
			t.Errorf("%v: %d steps, not %d", c.each, steps, c.steps)
		}
	}
}
