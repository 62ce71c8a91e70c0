package bench

import (
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// busy is how long processes have used at least a third of a processor. They commit their position later than they
// reach it, and are idle until then.
type busy struct {
	at   time.Time
	used float64 // seconds of processors
	took time.Duration
}

// look reports whether they were busy since the last call.
func (w *busy) look(now time.Time, used float64) (were bool) {
	since := now.Sub(w.at)
	if were = used-w.used >= since.Seconds()/3; were {
		w.took += since
	}
	w.at, w.used = now, used
	return were
}

// fillAhead writes lines while a contender is stopped, so that it has all of them to read.
func (r *river) fillAhead(b *testing.B, c *running, lines int) {
	b.Helper()
	for _, p := range c.processes {
		p.Process.Signal(syscall.SIGSTOP)
		defer p.Process.Signal(syscall.SIGCONT)
	}
	r.fill(b, lines)
}

// redisSeconds is the processor time of its Redis.
func (c *running) redisSeconds(b *testing.B) (total float64) {
	b.Helper()
	if c.redis == nil {
		return 0
	}
	info, err := c.redis.Client.InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, kind := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][kind], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += seconds
	}
	return total
}

// redisMiB is the maximum memory of its Redis.
func (c *running) redisMiB(b *testing.B) float64 {
	b.Helper()
	if c.redis == nil {
		return 0
	}
	info, err := c.redis.Client.InfoMap(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	bytes, err := strconv.ParseFloat(info["Memory"]["used_memory_peak"], 64)
	if err != nil {
		b.Fatal(err)
	}
	return bytes / (1 << 20)
}

func TestBusy(t *testing.T) {
	start := time.Now()
	w := busy{at: start, used: 10}
	were := []bool{w.look(start.Add(time.Second), 11), w.look(start.Add(31*time.Second), 11.5), w.look(start.Add(32*time.Second), 13.5)}
	if !slices.Equal(were, []bool{true, false, true}) {
		t.Error(were)
	}
	if w.took != 2*time.Second || w.used != 13.5 {
		t.Errorf("%+v", w)
	}
}
