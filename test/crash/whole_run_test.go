package crash

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/internal/topic/local"
	"weir/test/port"
	"weir/test/real"
)

// installRun lays out `weir run` over a site's log, with its own topics and store.
func installRun(t testing.TB, s *site) (r *river, enforcer string) {
	t.Helper()
	return installRunOf(t, s, wholeRules)
}

// installRunOf is installRun with other rules.
func installRunOf(t testing.TB, s *site, rules string) (r *river, enforcer string) {
	t.Helper()
	r = &river{t: t, prefix: ownPrefix, partitions: partitions, rules: rules, patience: 2 * time.Minute}
	enforcer = port.Reserve(t, "127.0.0.1")
	build(t, "weir") // before the log is written
	m := &member{&installation{t: t, part: "weir", arguments: []string{"run"}, folder: t.TempDir()}, port.Reserve(t, "127.0.0.1")}
	m.write("weir.yaml", runConfig(rules, s, enforcer, m.address))
	t.Cleanup(m.kill)
	r.members = append(r.members, m)
	return r, enforcer
}

func runConfig(rules string, s *site, enforcer, aggregator string) string {
	return wholeConfig(rules, s, enforcer, aggregator) + fmt.Sprintf("kafka: {hits: {partitions: %d}, events: {partitions: %d}}\n", partitions, partitions)
}

// connect makes the river's client one of the topics in the running process, over its socket.
func (r *river) connect() {
	r.t.Helper()
	r.client = local.Dial(filepath.Join(r.members[0].folder, "data", "topics.sock"))
	r.t.Cleanup(r.client.Close)
	r.eventually("it runs", func() error {
		_, err := r.client.Offsets(r.t.Context(), r.prefix+"hits")
		return err
	})
}

// One process with its own topics and store is killed again and again, at its start too. It stands still for a while at
// times, and its rules change, also to faulty ones.
func TestARunUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := 2 * number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	begun := time.Now()
	s := newWholeSite(t, seed)
	r, enforcer := installRun(t, s)
	m := r.members[0]
	rules := func(rules string) { m.write("weir.yaml", runConfig(rules, s, enforcer, m.address)) }
	s.run(20)
	random, done := rand.New(rand.NewPCG(seed, 10)), map[string]int{}
	for range kills {
		rules([]string{wholeRules, wholeRules + otherRule}[random.IntN(2)])
		m.start()
		for range random.IntN(4) {
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			done[r.disturb(m, random, rules)]++
		}
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		m.kill()
	}
	s.close()
	rules(wholeRules)
	m.start()
	r.connect()
	r.settle(s, begun, enforcer, newCounterOf(r.client, r.prefix))
	t.Log(done)
}

// otherRule changes the rules and counts nothing.
const otherRule = `  - {name: other, key: ip, match: 'path == "/never"', limits: [5/min]}
`

// disturb does something to a running process that does not end it, and says what.
func (r *river) disturb(m *member, random *rand.Rand, rules func(string)) string {
	r.t.Helper()
	what, text := "no change", wholeRules
	switch random.IntN(4) {
	case 0:
		r.freeze(m, time.Duration(random.IntN(1500))*time.Millisecond)
		return "frozen"
	case 1:
		what, text = "another rule", wholeRules+otherRule
	case 2:
		what, text = "faulty rules", wholeRules+"  - {name: faulty\n"
	}
	rules(text)
	if random.IntN(2) == 0 {
		_ = m.process.Process.Signal(syscall.SIGHUP)
	}
	return what
}
