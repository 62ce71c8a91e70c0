package crash

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
	m.write("weir.yaml", wholeConfig(rules, s, enforcer, m.address)+fmt.Sprintf("kafka: {hits: {partitions: %d}, events: {partitions: %d}}\n", partitions, partitions))
	t.Cleanup(m.kill)
	r.members = append(r.members, m)
	return r, enforcer
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

// One process with its own topics and store is killed again and again, at its start too.
func TestARunUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	kills := 3 * number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	begun := time.Now()
	s := newWholeSite(t, seed)
	r, enforcer := installRun(t, s)
	s.run(20)
	random := rand.New(rand.NewPCG(seed, 10))
	for range kills {
		r.members[0].start()
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		r.members[0].kill()
	}
	s.close()
	r.members[0].start()
	r.connect()
	r.settle(s, begun, enforcer, newCounterOf(r.client, r.prefix))
}
