package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/test/real"
)

// session is longer than the time for which a silent aggregator keeps a partition.
const session = 12 * time.Second

// A fire is how much is counted, and for how long aggregators are killed: WEIR_FIRE_HITS, WEIR_FIRE_KEYS and
// WEIR_FIRE_SECONDS.
type fire struct {
	hits, keys, partitions int
	lasts                  time.Duration
	seed                   uint64
}

func newFire(t testing.TB) fire {
	return fire{
		hits: number(t, "WEIR_FIRE_HITS", 300_000), keys: number(t, "WEIR_FIRE_KEYS", 24_000), partitions: 8,
		lasts: time.Duration(number(t, "WEIR_FIRE_SECONDS", 35)) * time.Second,
		seed:  uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9))),
	}
}

// Three aggregators count the hits of several sources, with far fewer keys in memory than there are. They are killed,
// stopped for longer than their session, terminated, and started again; Redis loses its last second, and Kafka is
// restarted. In the end every key's windows and the list are equal to those of a slow program for the same log.
func TestAggregatorsUnderFireCountTheTruth(t *testing.T) {
	real.Long(t)
	t.Parallel()
	f := newFire(t)
	r := newRiver(t, f.partitions, fireRules)
	r.hotKeys, r.patience = f.keys/20, 2*time.Minute+f.lasts
	begun := time.Now()
	cuts := f.generate(t, begun)
	for range 3 {
		r.install().start()
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sending.Go(func() { f.send(ctx, t, r, cuts) })
	c := chaos{river: r, random: rand.New(rand.NewPCG(f.seed, 6)), done: map[string]int{}}
	c.run(begun.Add(f.lasts))
	sending.Wait()
	c.calm()
	r.drained()
	r.stop()
	w := r.truth()
	t.Logf("%d keys, %d verdicts, %v; %v", len(w.keys), len(w.verdicts), w.seen, c.done)
	r.compareWindows(w)
	r.compareList(w, begun)
	r.compareEvents(w, time.Now().UnixMilli())
	r.keepWordsOfFailure()
}

// generate makes all batches, of hours that end as the test begins.
func (f *fire) generate(t testing.TB, begun time.Time) [][]topic.Message {
	traffic := newTraffic(t, f.seed, mustParse(t, fireRules), f.keys, f.partitions)
	traffic.to = begun.UnixMilli()
	traffic.from = traffic.to - 6*hour
	var cuts [][]topic.Message
	for traffic.hits < f.hits {
		cuts = append(cuts, traffic.cut(1000, float64(traffic.hits)/float64(f.hits)))
	}
	return cuts
}

// send writes the batches over the time that the fire lasts.
func (f *fire) send(ctx context.Context, t testing.TB, r *river, cuts [][]topic.Message) {
	producer := r.client.Appender(topic.AppenderConfig{Topic: r.prefix + "hits", Partitions: f.partitions})
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := producer.Close(closing); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	ticker := time.NewTicker(f.lasts / time.Duration(len(cuts)))
	defer ticker.Stop()
	for _, cut := range cuts {
		if err := producer.Send(ctx, cut...); err != nil {
			return
		}
		<-ticker.C
	}
}

// Chaos disturbs a river in ways that it has to survive.
type chaos struct {
	*river
	random *rand.Rand
	stands [3]time.Time // until when a member is stopped
	done   map[string]int
}

func (c *chaos) run(until time.Time) {
	for n := 0; time.Now().Before(until); n++ {
		time.Sleep(time.Duration(500+c.random.IntN(3000)) * time.Millisecond)
		c.wake(time.Now())
		c.strike(n)
	}
}

// strike does one thing; each of them comes early in a run.
func (c *chaos) strike(n int) {
	i := c.random.IntN(len(c.members))
	running := c.stands[i].IsZero()
	if n > 6 {
		n = c.random.IntN(12)
	}
	switch {
	case n == 2:
		c.done["redis killed"]++
		c.crashRedis(c.redis, c.random)
	case n == 4:
		c.done["kafka restarted"]++
		c.restartKafka(c.random)
	case !running:
	case n == 1 || n == 7:
		c.done["stopped past the session"]++
		c.members[i].signal(syscall.SIGSTOP)
		c.stands[i] = time.Now().Add(session + time.Duration(c.random.IntN(4000))*time.Millisecond)
	case n%3 == 0:
		c.done["told to end"]++
		c.members[i].stop()
		c.restart(i)
	default:
		c.done["killed"]++
		c.members[i].kill()
		c.restart(i)
	}
}

func (c *chaos) restart(i int) {
	time.Sleep(time.Duration(c.random.IntN(2000)) * time.Millisecond)
	c.members[i].start()
}

// wake resumes members that were stopped long enough, and finds those that ended by themselves.
func (c *chaos) wake(now time.Time) {
	for i, m := range c.members {
		if !c.stands[i].IsZero() && now.After(c.stands[i]) {
			c.stands[i] = time.Time{}
			m.signal(syscall.SIGCONT)
		}
		if m.ended() {
			m.kill()
			c.t.Errorf("aggregator %d ended by itself: %s", i, tail(m.said.String(), 2000))
			m.start()
		}
	}
}

func (c *chaos) calm() { c.wake(time.Now().Add(time.Hour)) }

// keepWordsOfFailure writes the aggregators' output into a folder that stays, for finding the cause.
func (r *river) keepWordsOfFailure() {
	r.t.Helper()
	if !r.t.Failed() {
		return
	}
	folder, err := os.MkdirTemp("", "weir-fire-")
	if err != nil {
		r.t.Fatal(err)
	}
	for i, m := range r.members {
		if err := os.WriteFile(folder+"/aggregator-"+strconv.Itoa(i)+".log", []byte(m.said.String()), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Logf("what they said is in %s", folder)
}
