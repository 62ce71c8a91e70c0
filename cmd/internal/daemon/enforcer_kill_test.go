package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/test/real"
)

// killed returns an enforcer that starts with a copy of another one's disk at this moment, as after a kill, and that cannot
// reach Kafka or other enforcers.
func killed(t *testing.T, e *edge, more string) *edge {
	t.Helper()
	nobody := "127.0.0.1:1"
	one := newEdge(t, fmt.Sprintf("kafka: {brokers: [%q]}", nobody), more)
	folder := filepath.Join(one.folder, "data", "enforcer")
	for {
		err := os.CopyFS(folder, os.DirFS(filepath.Join(e.folder, "data", "enforcer")))
		if err == nil {
			return one.start()
		}
		if !errors.Is(err, fs.ErrNotExist) { // a file got its name meanwhile
			t.Fatal(err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
}

// After a kill, without Kafka, active entries are active again: verdicts that are a moment old, and manual entries that were
// answered. The same holds for a follower.
func TestActiveOrdersOutlastAKill(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "").start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.marks()
	e.await("ready", e.ready)
	follower := newFollower(t, e)
	const clients = 24
	ip := func(n int) string { return fmt.Sprintf("203.0.113.%d", n) }
	blocked := func(e *edge) (n int) {
		for i := range clients {
			if e.check(ip(i)) == http.StatusTooManyRequests {
				n++
			}
		}
		return n
	}
	for n := range clients {
		p.block(ip(n))
	}
	for _, one := range []*edge{e, follower} {
		one.await("blocked", func() bool { return blocked(one) == clients })
		one.await("on the disk", func() bool {
			after := killed(t, one, "  without_list: deny\n")
			defer after.stop()
			return blocked(after) == clients
		})
	}
	for n, target := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"} {
		e.await("Kafka has it", func() bool { return e.order("POST", "/v1/blocks", fmt.Sprintf(`{"target":%q,"why":"w%d"}`, target, n)) })
		after := killed(t, e, "  without_list: deny\n")
		after.await("ready", after.ready)
		if code := after.check(target); code != http.StatusTooManyRequests {
			t.Errorf("%s was answered, and after a kill: %d", target, code)
		}
		after.stop()
	}
	follower.await("an order at who follows", func() bool { return follower.check("198.51.100.3") == http.StatusTooManyRequests })
	follower.await("on its disk", func() bool {
		after := killed(t, follower, "  without_list: deny\n")
		defer after.stop()
		return after.check("198.51.100.3") == http.StatusTooManyRequests
	})
}

// While its disk is full, the status of an enforcer says that it cannot save its list.
func TestTheStatusNamesAListThatIsNotSaved(t *testing.T) {
	disk, here := real.SmallDisk(t, "1m")
	if !here {
		return
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "")
	if err := os.Symlink(disk, filepath.Join(e.folder, "data")); err != nil {
		t.Fatal(err)
	}
	e.start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.block("203.0.113.7")
	p.marks()
	e.await("ready", e.ready)
	says := func() bool {
		_, text := e.ask("GET", e.admin, "/status", "")
		return strings.Contains(text, "cannot save its list")
	}
	e.await("it is in the status", says)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	e.await("it is over", func() bool { return !says() })
}
