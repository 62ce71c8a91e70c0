package notify

import (
	"encoding/json"
	"fmt"
	"slices"
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
	_, stop := l.start(receiver)
	l.write(blocklist.EventBlocked, time.Now(), short, long)
	awaits("trigger "+short.ID, "trigger "+long.ID, "resolve "+short.ID)
	l.write(blocklist.EventBlocked, time.Now(), lifted)
	awaits("trigger "+short.ID, "trigger "+long.ID, "resolve "+short.ID, "trigger "+lifted.ID)
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

func TestIncidentsAreBounded(t *testing.T) {
	i := newIncidents(0)
	for n := range maxOpen + 10 {
		e := &Event{Event: blocklist.EventBlocked}
		e.ID, e.Until = fmt.Sprint(n), int64(n)
		i.note(e, true)
	}
	if len(i.until) != maxOpen || len(i.ended(5, 3)) != 3 || i.next > 5 {
		t.Errorf("%d, next %d", len(i.until), i.next)
	}
	longer := &Event{Event: blocklist.EventExtended}
	longer.ID, longer.Until = "0", 100
	i.note(longer, false)
	if i.until["0"] != 100 {
		t.Error("an extension is not followed")
	}
}
