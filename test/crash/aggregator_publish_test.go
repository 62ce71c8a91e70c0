package crash

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/store"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/test/real"
)

// A key breaks its limit while the blocklist accepts no records, leaves memory, and the process is killed: the next
// owner publishes its entry. The same holds for the record that lifts a block.
func TestUnacknowledgedEntriesArePublishedByTheNextOwner(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := riverOn(t, kafkatest.Real(t, kafkatest.Options{Brokers: 3}), ownPrefix, 1, limited)
	const holder = 2 // the only broker with the blocklist
	r.placeList(holder)
	r.hotKeys = 100
	m := r.install()
	m.start()
	f := r.feed("feed")
	f.hits(of("freed"), every(time.Second, 6)...)
	r.awaitListed(of("freed"), true)
	r.drained()
	r.kafka.Kill(holder)
	f.unblock(of("freed"), time.Now())
	f.hits(of("later"), every(time.Second, 6)...)
	f.crowd("limited", "many", 5000, time.Now())
	r.awaitWindow(of("many-4999"))
	r.awaitWindow(of("later"))
	m.kill()
	if err := errors.Join(r.kafka.StartBroker(holder), r.kafka.Ready(t.Context())); err != nil {
		t.Fatal(err)
	}
	if e := r.list().now[of("later")]; e != nil {
		t.Fatalf("the blocklist was to take nothing, and has %+v", *e)
	}
	m.start()
	r.awaitListed(of("later"), true)
	r.awaitListed(of("freed"), false)
	f.hits(of("freed"), time.Now())
	r.finish(begun)
}

// awaitWindow waits until the store has the state of a key.
func (r *river) awaitWindow(of pair) {
	r.t.Helper()
	s := r.cold()
	defer s.Close()
	r.eventually(fmt.Sprintf("the window of %v is written", of), func() error {
		name := []byte(of.rule + "/" + of.key)
		values, _, err := s.Read(r.t.Context(), hit.Partition(of.rule, []byte(of.key), r.partitions), store.Windows, [][]byte{name})
		if err == nil && values[0] == nil {
			err = errors.New("there is none")
		}
		return err
	})
}

// An aggregator is down for longer than a window while hits of that time wait in Kafka.
func TestHitsThatWaitedLongerThanTheirWindowAreJudgedByTheirTime(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 2, `rules: [{name: limited, key: user, limits: [5/2s], block: {for: 24h}}]`)
	m := r.install()
	m.start()
	f := r.feed("feed")
	f.hits(of("steady"), every(400*time.Millisecond, 2)...)
	r.drained()
	m.kill()
	f.hits(of("steady"), every(500*time.Millisecond, 3)...)
	f.hits(of("greedy"), every(100*time.Millisecond, 6)...)
	time.Sleep(2500 * time.Millisecond)
	f.hits(of("steady"), every(500*time.Millisecond, 4)...)
	m.start()
	r.awaitListed(of("greedy"), true)
	r.drained()
	if e := r.list().now[of("steady")]; e != nil {
		t.Errorf("kept its limit, and is blocked: %+v", *e)
	}
	r.finish(begun)
}

// A rule is renamed, removed, turned to shadow and back while hits of it and of another rule come in.
func TestARuleThatChangesWhileHitsComeIn(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	const other = `{name: other, key: user, limits: [5/10m], block: {for: 24h}}`
	rule := func(name, mode string) string {
		return `rules: [{name: ` + name + `, key: user, limits: [5/10m, 20/hour], mode: ` + mode + `, block: {for: 24h, then: [48h], forget: 72h}}, ` + other + `]`
	}
	r := newBranch(t, 2, rule("limited", "enforce"))
	m := r.install()
	m.start()
	f := r.feed("feed")
	f.hits(of("early"), every(time.Second, 6)...)
	f.hits(of("later"), every(time.Second, 3)...)
	f.hits(pair{"other", "kept"}, every(time.Second, 6)...)
	r.awaitListed(of("early"), true)
	r.awaitListed(pair{"other", "kept"}, true)

	m.write("rules.yaml", rule("renamed", "enforce"))
	r.awaitListed(of("early"), false)
	f.hits(pair{"renamed", "early"}, every(time.Second, 6)...)
	r.awaitListed(pair{"renamed", "early"}, true)
	f.hits(pair{"other", "later"}, every(time.Second, 3)...)

	m.write("rules.yaml", `rules: [`+other+`]`)
	r.awaitListed(pair{"renamed", "early"}, false)
	r.awaitListed(pair{"other", "kept"}, true)

	r.rules = rule("limited", "shadow")
	m.write("rules.yaml", r.rules)
	f.hits(of("shadowed"), every(time.Second, 6)...)
	r.awaitListed(of("shadowed"), true)
	if e := r.list().now[of("shadowed")]; e == nil || e.Mode != blocklist.Shadow {
		t.Errorf("a shadow's entry is %+v", e)
	}

	r.rules = rule("limited", "enforce")
	m.write("rules.yaml", r.rules)
	r.eventually("what was a shadow's is enforced", func() error {
		if e := r.list().now[of("shadowed")]; e == nil || e.Mode != blocklist.Enforce {
			return fmt.Errorf("the list says %+v", e)
		}
		return nil
	})
	f.hits(pair{"other", "later"}, every(time.Second, 3)...)
	r.awaitListed(pair{"other", "later"}, true)
	r.awaitListed(pair{"other", "kept"}, true)
	r.drained()
	r.stop()
	t.Logf("%v later; it said: %s", time.Since(begun), tail(m.said.String(), 3000))
}
