package operate

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

var morning = time.Date(2026, 3, 3, 9, 0, 0, 0, time.FixedZone("CET", 3600))

// entryAt is a verdict for an address, made so long after the morning.
func entryAt(ip string, after time.Duration, count int64) *shown.Entry {
	from := morning.Add(after).UnixMilli()
	return &shown.Entry{Entry: blocklist.Entry{ID: ip, Rule: "per-ip", Key: ip, Fields: map[string]string{"ip": ip}, From: from, Decided: from, Until: from + 600_000, Limit: "10/min", Count: count}}
}

// The flags select and sort entries.
func TestListsAreSelectedAndSorted(t *testing.T) {
	entries := []*shown.Entry{entryAt("192.0.2.3", 0, 30), entryAt("192.0.2.1", time.Minute, 10), entryAt("198.51.100.2", 2*time.Minute, 20), entryAt("192.0.2.0/24", 3*time.Minute, 40)}
	for want, flags := range map[string]listCommand{
		"192.0.2.0/24 192.0.2.1 192.0.2.3 198.51.100.2": {sort: "rule"},
		"192.0.2.0/24 198.51.100.2 192.0.2.1 192.0.2.3": {sort: "newest"},
		"192.0.2.3 192.0.2.1":                           {sort: "until", limit: 2},
		"192.0.2.0/24 192.0.2.3":                        {sort: "hits", limit: 2},
		"198.51.100.2 192.0.2.0/24":                     {sort: "refused", limit: 2},
		"192.0.2.0/24 192.0.2.1":                        {sort: "rule", ip: "192.0.2.1"},
		"192.0.2.0/24 192.0.2.1 192.0.2.3":              {sort: "rule", ip: "192.0.2.0/25"},
		"192.0.2.0/24 198.51.100.2":                     {sort: "rule", since: "2m"},
		"192.0.2.0/24":                                  {sort: "rule", since: "2026-03-03T08:02:30Z"},
	} {
		flags.output.Form = "plain"
		var out strings.Builder
		w, err := newListWriter(&flags, &out, morning.Add(4*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		w.refusals = map[string]shown.Refusals{"198.51.100.2": {Refused: 7}}
		for _, e := range entries {
			if err := w.add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.end(blocklist.Header{}); err != nil || strings.Join(strings.Fields(out.String()), " ") != want {
			t.Errorf("%+v: %v, %q, want %q", flags, err, out.String(), want)
		}
	}

	for _, flags := range []listCommand{{sort: "size"}, {sort: "rule", limit: -1}, {sort: "rule", since: "soon"}, {sort: "rule", ip: "alice"}} {
		if _, err := newListWriter(&flags, &strings.Builder{}, morning); err == nil {
			t.Errorf("%+v is accepted", flags)
		}
	}
}

// Rows say that an entry refuses no one: first at a terminal, and at the end in a pipe. An unblock looks like no allow.
func TestRowsOfEntriesThatRefuseNoOne(t *testing.T) {
	h := &held{paused: map[string]bool{"sign-in": true}}
	h.add(&blocklist.Entry{Order: blocklist.OrderAllow, Key: "192.0.2.0/24", Fields: map[string]string{"ip": "192.0.2.0/24"}})
	h.add(&blocklist.Entry{Order: blocklist.OrderAllow, Key: "alice", Fields: map[string]string{"user": "alice"}})

	shadow, paused, allowed, wider, user := entryAt("203.0.113.1", 0, 11), entryAt("203.0.113.2", 0, 11), entryAt("192.0.2.9", 0, 11), entryAt("192.0.0.0/16", 0, 11), entryAt("alice", 0, 11)
	shadow.Mode, paused.Rule, user.Fields = blocklist.Shadow, "sign-in", map[string]string{"user": "alice"}
	unblock := &shown.Entry{Entry: blocklist.Entry{Rule: "manual", Key: "203.0.113.9", Order: blocklist.OrderPardon, Source: blocklist.Manual, By: "root", Why: "their backup", Until: morning.Add(24 * time.Hour).UnixMilli()}}

	for name, test := range map[string]struct {
		of              *shown.Entry
		terminal, piped string
	}{
		"shadow":  {shadow, "09:10:00 (10m00s left)\twould block: 11 hits broke 10/min", "2026-03-03T08:10:00Z\t11 hits broke 10/min (shadow: not refused)"},
		"paused":  {paused, "09:10:00 (10m00s left)\tpaused, not refused: 11 hits broke 10/min", "2026-03-03T08:10:00Z\t11 hits broke 10/min (paused: not refused)"},
		"allowed": {allowed, "09:10:00 (10m00s left)\tallowed, not refused: 11 hits broke 10/min", "2026-03-03T08:10:00Z\t11 hits broke 10/min (allowed: not refused)"},
		"wider":   {wider, "09:10:00 (10m00s left)\t11 hits broke 10/min", "2026-03-03T08:10:00Z\t11 hits broke 10/min"},
		"user":    {user, "09:10:00 (10m00s left)\tallowed, not refused: 11 hits broke 10/min", "2026-03-03T08:10:00Z\t11 hits broke 10/min (allowed: not refused)"},
		"unblock": {unblock, "unblock\t203.0.113.9\t-\tby root: their backup", "unblock\t203.0.113.9\t-\tby root: their backup"},
	} {
		for want, times := range map[string]shown.Times{test.terminal: shown.LocalTimes(morning), test.piped: {}} {
			row := (&listWriter{held: h, times: times}).row(test.of)
			if !strings.HasSuffix(row.Cells, want) || row.Color == output.Green {
				t.Errorf("%s: %q, want %q", name, row, want)
			}
		}
	}
}
