package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// A rule in shadow mode refuses no one, and no text says that it does.
func TestShadowIsNoBlock(t *testing.T) {
	at := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	e := &shown.Entry{Entry: blocklist.Entry{Rule: "per-ip", Key: "203.0.113.7", Limit: "10/min", Count: 11, Mode: blocklist.Shadow, Until: at.UnixMilli()}}
	for want, of := range map[string]struct {
		what string
		zone *time.Location
	}{
		"would block until 2026-03-03 08:00:00: 11 hits broke 10/min": {blocklist.EventBlocked, time.UTC},
		"would block: 11 hits broke 10/min":                           {blocklist.EventLifted, time.UTC},
		"11 hits broke 10/min (shadow: not refused)":                  {blocklist.EventLifted, nil},
	} {
		if got := rest(of.what, e, of.zone); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}

	guarded := &shown.Entry{Entry: e.Entry}
	guarded.Guarded = true
	if got := rest(blocklist.EventBlocked, guarded, time.UTC); got != "guarded, would block until 2026-03-03 08:00:00: 11 hits broke 10/min" {
		t.Error(got)
	}

	var k countedKey
	err := json.Unmarshal([]byte(`{"rule":"per-ip","key":"203.0.113.7","where":"hot","limits":[],
		"block":{"from":"2026-03-03T08:00:07Z","until":"2026-03-03T08:10:07Z","limit":"10/min","count":11,"level":1,"blocked":true}}`), &k)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []blocklist.Mode{blocklist.Shadow, blocklist.Enforce} {
		e.Mode = mode
		var b strings.Builder
		k.text(&b, []*shown.Entry{e}, shown.Times{})
		if got := strings.Contains(b.String(), "    would be blocked until 2026-03-03T08:10:07Z: 11 hits broke 10/min, offence 1 (shadow: not refused)\n"); got != (mode == blocklist.Shadow) {
			t.Errorf("%v: %s", mode, b.String())
		}
	}

	var b strings.Builder
	k.text(&b, []*shown.Entry{guarded}, shown.Times{})
	if !strings.Contains(b.String(), "would be blocked until 2026-03-03T08:10:07Z: 11 hits broke 10/min, offence 1 (guarded by most_new: not refused)\n") {
		t.Error(b.String())
	}
}
