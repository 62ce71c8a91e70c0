package crash

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/test/real"
)

// limited is a rule with a limit that is soon broken, however slow the machine is, and a long block.
const limited = `rules: [{name: limited, key: user, limits: [5/10m, 20/hour], block: {for: 24h, then: [48h], forget: 72h}}]`

func of(key string) pair { return pair{"limited", key} }

// finish waits until all hits are counted, and compares the store and the list with the truth of the log.
func (r *river) finish(begun time.Time) {
	r.t.Helper()
	r.drained()
	r.stop()
	w := r.truth()
	r.compareWindows(w)
	r.compareList(w, begun)
	r.keepWordsOfFailure()
}

// written is the complete content of Redis.
func (r *river) written() map[string]string {
	r.t.Helper()
	keys, err := r.redis.Client.Keys(r.t.Context(), "*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	asked := r.redis.Client.Pipeline()
	for _, key := range keys {
		asked.Dump(r.t.Context(), key)
	}
	answers, err := asked.Exec(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]string{}
	for i, answer := range answers {
		all[keys[i]] = answer.String()
	}
	return all
}

// An owner is stopped in the middle of its work until its partition belongs to another one, and wakes while the other
// cannot be asked: its writes reach neither the store nor the list. The check must happen before the other's session is
// over; if it came too late, the test tries again.
func TestAPausedOwnerThatWakesWritesNothing(t *testing.T) {
	real.Long(t)
	t.Parallel()
	const tries = 5
	for n := range tries {
		looked := false
		t.Run(fmt.Sprint(n), func(t *testing.T) { looked = wakeAPausedOwner(t) })
		if looked || t.Failed() {
			return
		}
	}
	t.Fatalf("this machine is too slow: in %d tries an owner of old was never looked at within the session of the next", tries)
}

// wakeAPausedOwner reports whether it could check in time.
func wakeAPausedOwner(t *testing.T) (looked bool) {
	begun := time.Now()
	r := newBranch(t, 1, limited)
	owner, other := r.install(), r.install()
	owner.start()
	f := r.feed("feed")
	f.crowd("limited", "before", 1000, time.Now())
	r.drained()
	f.hits(of("mallory"), every(time.Second, 3)...)
	f.crowd("limited", "under-way", 15_000, time.Now())
	owner.signal(syscall.SIGSTOP)
	f.hits(of("mallory"), every(time.Second, 3)...)
	other.start()
	r.drained()
	r.awaitListed(of("mallory"), true)
	other.signal(syscall.SIGSTOP)
	stopped := time.Now()
	before, listed := r.written(), r.list().now
	owner.signal(syscall.SIGCONT)
	r.awaitGivenUp(owner)
	time.Sleep(time.Second) // for messages on their way to Kafka
	after, now := r.written(), r.list().now
	if took := time.Since(stopped); took > 7*time.Second { // its session is 9 s, and its last heartbeat a second old at most
		t.Logf("it took %v, and the partition may be the owner's again by right", took)
		return false
	}
	if !maps.Equal(before, after) {
		t.Error("an owner of old has written to the store")
	}
	for of, e := range now {
		if was := listed[of]; was == nil || was.ID != e.ID || was.Until != e.Until {
			t.Errorf("an owner of old has put on the list: %+v", *e)
		}
	}
	other.signal(syscall.SIGCONT)
	f.hits(of("mallory"), every(time.Second, 3)...)
	f.hits(of("trudy"), every(time.Second, 6)...)
	r.finish(begun)
	return true
}

// awaitGivenUp waits until an aggregator has noticed that it owns nothing.
func (r *river) awaitGivenUp(m *member) {
	r.t.Helper()
	r.eventually("it owns nothing", func() error {
		var owned []struct{ Partition int }
		if err := m.get("/v1/partitions", &owned); err != nil {
			return err
		}
		if len(owned) > 0 {
			return fmt.Errorf("it owns %v", owned)
		}
		return nil
	})
}

// A replica that was disconnected a while ago replaces its master, while its owner goes on.
func TestARedisThatGoesBackUnderItsOwner(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 2, limited)
	board := newSwitchboard(t, r.redis.Addr)
	r.place = inRedis(board.address)
	r.install().start()
	f := r.feed("feed")
	f.crowd("limited", "before", 1000, time.Now())
	f.hits(of("early"), every(time.Second, 6)...)
	f.hits(of("later"), every(time.Second, 3)...)
	f.hits(of("freed"), every(time.Second, 6)...)
	r.drained()
	r.awaitListed(of("freed"), true)
	replica := r.replica()
	f.hits(of("later"), every(time.Second, 3)...) // the replica does not get these
	f.unblock(of("freed"), time.Now())
	f.crowd("limited", "since", 1000, time.Now())
	r.drained()
	r.awaitListed(of("later"), true)
	r.awaitListed(of("freed"), false)
	r.redis.Kill()
	board.connect(replica.Addr)
	r.redis = replica
	f.hits(of("early"), time.Now())
	f.hits(of("freed"), every(time.Second, 2)...)
	f.hits(of("latest"), every(time.Second, 6)...)
	r.finish(begun)
}

// replica copies the current content of Redis, and is then disconnected.
func (r *river) replica() *redistest.Server {
	r.t.Helper()
	replica := redistest.Start(r.t, appendOnly...)
	host, port, _ := net.SplitHostPort(r.redis.Addr)
	if err := replica.Client.Do(r.t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the replica has what there is", func() error {
		there, err := replica.Client.InfoMap(r.t.Context(), "replication").Result()
		if err == nil && (there["Replication"]["master_link_status"] != "up" || there["Replication"]["master_sync_in_progress"] != "0") {
			err = fmt.Errorf("the link is %v", there)
		}
		return err
	})
	if err := replica.Client.Do(r.t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		r.t.Fatal(err)
	}
	return replica
}

// FLUSHALL under a running owner: all counts are read from the log again.
func TestARedisThatIsFlushedIsRebuilt(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 2, limited)
	r.install().start()
	f := r.feed("feed")
	r.somebody(f)
	if err := r.redis.Client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f.hits(of("later"), every(time.Second, 3)...)
	r.awaitListed(of("later"), true)
	r.awaitWindow(of("early")) // of the partition without new hits: its commit is older
	r.finish(begun)
}

// Redis comes back empty, once under a running owner and once while no aggregator runs.
func TestARedisThatLostItsFolderIsRebuilt(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 2, limited)
	m := r.install()
	m.start()
	f := r.feed("feed")
	r.somebody(f)
	r.emptyRedis()
	f.hits(of("later"), every(time.Second, 2)...)
	f.crowd("limited", "since", 1000, time.Now())
	r.drained()
	m.stop()
	r.emptyRedis()
	f.hits(of("later"), time.Now())
	m.start()
	r.awaitListed(of("later"), true)
	r.finish(begun)
}

// somebody has one key blocked, one almost blocked, one unblocked, and many others.
func (r *river) somebody(f *feed) {
	r.t.Helper()
	f.crowd("limited", "before", 1000, time.Now())
	f.hits(of("early"), every(time.Second, 6)...)
	f.hits(of("later"), every(time.Second, 3)...)
	f.hits(of("freed"), every(time.Second, 6)...)
	f.unblock(of("freed"), time.Now())
	r.drained()
	r.awaitListed(of("early"), true)
}

// The status names a Redis that is away, while the aggregator runs and at its start, until it is back.
func TestTheStatusNamesARedisThatIsAway(t *testing.T) {
	t.Parallel()
	r := newBranch(t, 2, limited)
	m := r.install()
	m.start()
	f := r.feed("feed")
	r.somebody(f)
	awaits := func(what string, is func(text string) bool) {
		t.Helper()
		r.awaitStore(m, what, is)
	}
	names := func(text string) bool { return strings.Contains(text, r.redis.Addr) }
	r.redis.Kill()
	m.kill()
	m.start()
	awaits("a start names it", names)
	r.redis.Restart()
	awaits("it is back", func(text string) bool { return text == "" })
	f.crowd("limited", "first", 100, time.Now())
	r.drained()
	r.redis.Kill()
	f.crowd("limited", "since", 100, time.Now())
	awaits("it is named", names)
	r.redis.Restart()
	awaits("it is back", func(text string) bool { return text == "" })
	r.drained()
}

// A Redis whose policy changes while an aggregator runs, as after a failover to another one, may lose counts. The status
// says so.
func TestTheStatusNamesARedisThatEvicts(t *testing.T) {
	t.Parallel()
	r := newBranch(t, 2, limited)
	m := r.install()
	m.start()
	r.somebody(r.feed("feed"))
	for _, policy := range []string{"allkeys-lru", "noeviction"} {
		if err := r.redis.Client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		r.awaitStore(m, policy, func(text string) bool { return strings.Contains(text, policy) == (policy != "noeviction") })
	}
}

// awaitStore waits until the status of an aggregator says of its store, or the error of asking for it, what it should.
func (r *river) awaitStore(m *member, what string, is func(text string) bool) {
	r.t.Helper()
	r.eventually(what, func() error {
		var status struct{ Store string }
		text := ""
		if err := m.get("/status", &status); err != nil {
			text = err.Error()
		}
		if text += status.Store; !is(text) {
			return fmt.Errorf("it has %q", text)
		}
		return nil
	})
}

func (r *river) emptyRedis() {
	r.t.Helper()
	r.redis.Kill()
	if err := os.RemoveAll(filepath.Join(r.redis.Folder, "appendonlydir")); err != nil {
		r.t.Fatal(err)
	}
	r.redis.Restart()
}

// A switchboard is an address that connects to one server or another.
type switchboard struct {
	address string
	mu      sync.Mutex
	target  string
	open    []net.Conn
}

func newSwitchboard(t testing.TB, target string) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &switchboard{address: listener.Addr().String(), target: target}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(caller) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		b.connect("")
		serving.Wait()
	})
	return b
}

// connect closes all connections; the next ones go to another server.
func (b *switchboard) connect(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.target = target
	for _, c := range b.open {
		c.Close()
	}
	b.open = nil
}

func (b *switchboard) serve(caller net.Conn) {
	defer caller.Close()
	b.mu.Lock()
	server, err := net.Dial("tcp", b.target)
	if err != nil {
		b.mu.Unlock()
		return
	}
	b.open = append(b.open, caller, server)
	b.mu.Unlock()
	defer server.Close()
	var copying sync.WaitGroup
	copying.Go(func() {
		io.Copy(server, caller)
		server.Close()
	})
	io.Copy(caller, server)
	caller.Close()
	copying.Wait()
}
