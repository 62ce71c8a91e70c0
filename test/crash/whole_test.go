package crash

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/pkg/blocklist"
	"weir/test/port"
	"weir/test/real"
)

// wholeRules are a limit that some clients break and most do not, and one that refuses no client.
const wholeRules = `rules:
  - {name: per-ip, key: ip, limits: [20/min, 60/hour], block: {for: 24h}}
  - {name: per-path, key: path, limits: [4000/hour], mode: shadow}
`

// wholeLimits are those of wholeRules by address.
var wholeLimits = []struct {
	hits   int
	millis int64
}{{20, minute}, {60, hour}}

// newWholeSite has so many clients that most break no limit.
func newWholeSite(t testing.TB, seed uint64) *site {
	s := newSite(t, seed)
	s.clients, s.most = 2000, 20
	return s
}

// offenders are the clients that broke a limit, by a plain count of the written lines.
func (s *site) offenders() map[string]bool {
	found := map[string]bool{}
	for ip, times := range s.times {
		for i := range times {
			for _, l := range wholeLimits {
				found[ip] = found[ip] || i >= l.hits && times[i]-times[i-l.hits] < l.millis
			}
		}
	}
	return found
}

// compareBlocked compares the clients that were ever on the list, and those that the enforcer refuses now, with those
// that broke a limit.
func (r *river) compareBlocked(s *site, enforcer string) {
	r.t.Helper()
	offenders, ever := s.offenders(), map[string]bool{}
	for _, e := range r.list().ever {
		if e.Mode != blocklist.Enforce {
			continue
		}
		ever[e.Key] = true
		if !offenders[e.Key] {
			r.t.Errorf("on the list, and kept its limits: %+v", *e)
		}
	}
	refused := 0
	r.eventually("the enforcer refuses who broke a limit, and nobody else", func() error {
		refused = 0
		for ip, broke := range offenders {
			want := http.StatusOK
			if broke {
				want = http.StatusTooManyRequests
				refused++
			}
			if broke && !ever[ip] {
				return fmt.Errorf("%s broke a limit, and was never on the list", ip)
			}
			if got, err := check(enforcer, ip); err != nil || got != want {
				return fmt.Errorf("%s gets %d, want %d: %w", ip, got, want, err)
			}
		}
		return nil
	})
	r.t.Logf("%d lines of %d clients, of whom %d are refused", s.lines, len(s.times), refused)
}

// check asks an enforcer about a client.
func check(enforcer, ip string) (int, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+enforcer+"/v1/check", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Forwarded-For", ip)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// settle waits until all lines of a site are counted, and compares the counts with the truth while the parts run; it
// calls ended when they have stopped.
func (r *river) settle(s *site, begun time.Time, enforcer string, counter *counter) {
	r.t.Helper()
	r.frozen.Wait()
	counter.await(r.t, s.want)
	r.drained()
	r.compareBlocked(s, enforcer)
	w := r.truth()
	r.compareList(w, begun)
	r.compareEvents(w, time.Now().UnixMilli())
	r.stop()
	r.compareWindows(w)
	r.t.Logf("%d hits; batches %v", counter.total(), counter.verdicts)
	r.keepWordsOfFailure()
}

// The three daemons, two of them aggregators, read a log that grows and is rotated. Any of them is killed at any time
// and started again, or stands still for a while, Redis loses its last second, Kafka is restarted. In the end every line
// was counted once, every client that broke a limit is refused, and no other client was ever on the list.
func TestAllPartsUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	begun := time.Now()
	s := newWholeSite(t, seed)
	r := riverOn(t, kafkatest.Real(t, kafkatest.Options{}), ownPrefix, partitions, wholeRules)
	r.patience = 2 * time.Minute
	enforcer := port.Reserve(t, "127.0.0.1")
	for _, part := range []string{"aggregator", "aggregator", "collector", "enforcer"} {
		r.installPart(part, s, enforcer).start()
	}
	s.run(20)
	random, done := rand.New(rand.NewPCG(seed, 9)), map[string]int{}
	for n := range kills {
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		r.strike(n, random, done)
	}
	s.close()
	r.settle(s, begun, enforcer, newCounterOf(r.client, r.prefix))
	t.Log(done)
}

func (r *river) strike(n int, random *rand.Rand, done map[string]int) {
	switch n % 8 {
	case 3:
		done["redis"]++
		r.crashRedis(r.redis, random)
	case 5:
		m := r.members[random.IntN(len(r.members))]
		done["frozen "+m.part]++
		r.freeze(m, time.Duration(random.IntN(14_000))*time.Millisecond)
	case 6:
		done["kafka"]++
		r.restartKafka(random)
	default:
		m := r.members[n%len(r.members)] // each of them comes early in a run
		if n > 8 {
			m = r.members[random.IntN(len(r.members))]
		}
		if m.ended() {
			r.t.Errorf("a part has ended by itself:\n%s", tail(m.said.String(), 3000))
		}
		done[m.part]++
		m.kill()
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
		m.start()
	}
}

// freeze stops a part for a while, at times for longer than its session with Kafka lasts, as happens to a virtual machine
// that is moved. Other strikes go on meanwhile.
func (r *river) freeze(m *member, lasts time.Duration) {
	process := m.process.Process // not that of a later start
	_ = process.Signal(syscall.SIGSTOP)
	r.frozen.Go(func() {
		time.Sleep(lasts)
		_ = process.Signal(syscall.SIGCONT)
	})
}

// installPart lays out a daemon that reads a site's log, on the river's Kafka and Redis.
func (r *river) installPart(part string, s *site, enforcer string) *member {
	r.t.Helper()
	m := &member{&installation{t: r.t, part: part, folder: r.t.TempDir()}, port.Reserve(r.t, "127.0.0.1")}
	m.write("weir.yaml", wholeConfig(r.rules, s, enforcer, m.address)+fmt.Sprintf("kafka: {brokers: [%s], prefix: %q, hits: {partitions: %d}, events: {partitions: %d}}\nstore: %s\n",
		strings.Join(r.kafka.Addresses(), ", "), r.prefix, r.partitions, r.partitions, r.store()))
	r.t.Cleanup(m.kill)
	r.members = append(r.members, m)
	return m
}

func wholeConfig(rules string, s *site, enforcer, aggregator string) string {
	return rules + fmt.Sprintf(`
data: data
time: {late: 10m, ahead: 10s}
client: {trusted_proxies: [127.0.0.1/32]}
collector: {listen: "", sources: [{file: %q, format: combined}]}
aggregator: {listen: %q, hot_keys: 1000}
enforcer: {listen: %q, admin: ""}
`, s.path("access.log"), aggregator, enforcer)
}
