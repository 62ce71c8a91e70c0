package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/pkg/enforcer/past"
)

// The view fits every terminal, and what clients chose does nothing to it. It leaves out the answers that an enforcer does
// not give.
func TestTheViewFitsTheTerminal(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\u202e<script>\r\n日本語日本語日本語日本語日本語日本語日本語日本語日本語"
	key, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 3, 8, 0, 30, 0, time.FixedZone("CET", 3600))
	s := liveState{at: now, requests: 12345, perSecond: 52, shadow: 2, numbers: &liveNumbers{}, near: []*topKey{{Rule: hostile, Key: hostile, Limit: "10/min", Count: 11, Share: 1.1}}}
	numbers := `{"since":"2026-03-03T06:00:00Z","refused":812,"last_minute":{"checks":600,"refused":60},"rules":{"per-ip":{"blocked_now":1,"blocked_today":17}},
		"entries":[{"rule":"per-ip","key":` + string(key) + `,"until":"9999-12-31T23:59:59Z","refused":9,"last_minute":3}]}`
	if err := json.Unmarshal([]byte(numbers), s.numbers); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"enforce", "shadow"} {
		line := `{"v":1,"id":"one","rule":"per-ip","key":` + string(key) + `,"fields":{"user":"x"},"from":"2026-03-03T08:00:00Z","until":"2026-03-03T08:10:00Z","decided":"2026-03-03T08:00:01Z",` +
			`"limit":"10/min","count":11,"level":1,"mode":"` + mode + `","source":"verdict","by":"weir","why":"","event":"blocked","at":"2026-03-03T08:00:01Z"}`
		event, err := past.ReadEvent([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		s.events = append(s.events, event)
	}
	l := &Live{Foot: "Ctrl-C ends it.", began: now.Add(-time.Minute), now: s}
	for _, size := range [][2]int{{80, 24}, {40, 10}, {10, 3}, {1, 1}, {300, 100}} {
		lines := l.Lines(size[0], size[1])
		for _, line := range lines {
			if strings.ContainsAny(line, "\x1b\x07\r\n\u202e") || utf8.RuneCountInString(line) > size[0] {
				t.Errorf("%v: %q", size, line)
			}
		}
	}
	all := strings.Join(l.Lines(200, 40), "\n")
	for _, want := range []string{"52 requests/s, 12,345 requests read", "1 key blocked now, 17 blocks today; 2 would be blocked (shadow); 1.0 of 10.0 checks/s refused, 812 in all", "would block: 11 hits broke 10/min", "3 refused in the last minute  no end"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}

	l.now = liveState{at: now, note: "no enforcer answers"}
	if lines := l.Lines(80, 24); len(lines) != 4 || lines[2] != "no enforcer answers" {
		t.Errorf("%q", lines)
	}
}
