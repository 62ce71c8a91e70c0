package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

// actions are what a stand-in for PagerDuty was asked: trigger or resolve, and the entry's id.
func (i *inbox) actions(t *testing.T) (all []string) {
	t.Helper()
	for _, m := range i.all() {
		var e pagerEvent
		if err := json.Unmarshal([]byte(m.text), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Action+" "+e.DedupKey)
	}
	return all
}

// An incident is resolved when its block reaches its end, also by a process that has not triggered it; and not twice.
func TestIncidentsEndWithTheirBlocks(t *testing.T) {
	t.Parallel()
	l, in := newLog(t), newInbox(t, nil)
	pager := &PagerDuty{Server{URL: in.URL}, secretFile(t, "routing")}
	awaits := func(want ...string) {
		t.Helper()
		wait.Until(t, fmt.Sprint(want), func() bool { return len(in.all()) >= len(want) })
		if got := in.actions(t); !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	}
	short, long, lifted := entry("per-ip", "short"), entry("per-ip", "long"), entry("per-ip", "lifted")
	short.Until, long.Until = time.Now().Add(time.Second).UnixMilli(), time.Now().Add(3*time.Second).UnixMilli()
	receiver := to("pager", pager)
	receiver.Timeout = time.Minute // a request that was given up could arrive after those that follow
	n, stop := l.start(receiver)
	l.write(blocklist.EventBlocked, time.Now(), short, long)
	awaits("trigger "+short.ID, "trigger "+long.ID, "resolve "+short.ID)
	l.write(blocklist.EventBlocked, time.Now(), lifted)
	awaits("trigger "+short.ID, "trigger "+long.ID, "resolve "+short.ID, "trigger "+lifted.ID)
	wait.Until(t, "it has the answer", func() bool { return n.Status()[0].Sent == 4 })
	stop()
	lifted.Ended = time.Now().UnixMilli()
	l.write(blocklist.EventLifted, time.Now().Add(-time.Hour), lifted) // however old
	l.write(blocklist.EventEnded, time.Now(), entry("per-ip", "unknown"))
	l.start(receiver)
	wait.Until(t, "all are resolved", func() bool { return len(in.all()) >= 6 })
	got := in.actions(t)
	slices.Sort(got[4:])
	want := []string{"resolve " + lifted.ID, "resolve " + long.ID}
	if slices.Sort(want); !slices.Equal(got[4:], want) {
		t.Errorf("%q", got)
	}
}

// A block that ends before its message is sent is triggered first, and resolved then.
func TestIncidentsOfShortBlocksAreResolved(t *testing.T) {
	t.Parallel()
	l, in := newLog(t), newInbox(t, nil)
	receiver := to("pager", &PagerDuty{Server{URL: in.URL}, secretFile(t, "routing")})
	receiver.Timeout, receiver.Group = time.Minute, time.Second
	l.start(receiver)
	short := entry("per-ip", "short")
	short.Until = time.Now().Add(100 * time.Millisecond).UnixMilli()
	l.write(blocklist.EventBlocked, time.Now(), short)
	wait.Until(t, "it is resolved", func() bool { return len(in.all()) >= 2 })
	if got, want := in.actions(t), []string{"trigger " + short.ID, "resolve " + short.ID}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// An incident that was triggered after its block had ended is resolved, also by the next process, although incidents
// whose blocks ended later were resolved before.
func TestIncidentsOfLateEventsAreResolved(t *testing.T) {
	t.Parallel()
	l, early, late := newLog(t), entry("per-ip", "early"), entry("per-ip", "late")
	early.Until = time.Now().Add(500 * time.Millisecond).UnixMilli()
	late.Until = early.Until - 1000
	var away atomic.Bool
	in := newInbox(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if away.Load() && n > 3 { // what follows the second trigger
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	receiver := to("pager", &PagerDuty{Server{URL: in.URL}, secretFile(t, "routing")})
	receiver.Timeout = time.Minute
	n, stop := l.start(receiver)
	l.write(blocklist.EventBlocked, time.Now(), early)
	wait.Until(t, "the first is resolved", func() bool { return n.Status()[0].Sent == 2 })
	wait.Until(t, "the commit has it", func() bool {
		commits, err := l.Committed(t.Context(), GroupOf("weir.notify", receiver.Name), eventsTopic)
		return err == nil && strings.Contains(commits[0].Metadata, "resolved")
	})
	away.Store(true)
	l.write(blocklist.EventBlocked, time.Now(), late)
	wait.Until(t, "the second is not resolved", func() bool { return n.Status()[0].Error != "" })
	stop()
	away.Store(false)
	l.start(receiver)
	wait.Until(t, "the next process resolves it", func() bool { return slices.Contains(in.actions(t), "resolve "+late.ID) })
}

func TestIncidentsAreBounded(t *testing.T) {
	i := newIncidents(0)
	for n := range maxOpen + 10 {
		e := &Event{Event: blocklist.EventBlocked}
		e.ID, e.Until = fmt.Sprint(n), int64(n)
		i.note(e, true)
	}
	if len(i.until) != maxOpen || len(i.ended(5, 3, nil)) != 3 || i.next > 5 {
		t.Errorf("%d, next %d", len(i.until), i.next)
	}
	longer := &Event{Event: blocklist.EventExtended}
	longer.ID, longer.Until = "0", 100
	i.note(longer, false)
	if i.until["0"] != 100 {
		t.Error("an extension is not followed")
	}
}
