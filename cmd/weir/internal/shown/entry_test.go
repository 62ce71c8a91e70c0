package shown

import (
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// The reason that a command gives by itself ends in the user's name, which is not shown twice.
func TestTheAuthorIsNamedOnce(t *testing.T) {
	for why, want := range map[string]string{
		"unblocked by hand by root":  "by root: unblocked by hand",
		"unblocked by hand by alice": "by root: unblocked by hand by alice",
		"their backup":               "by root: their backup",
	} {
		e := &Entry{Entry: blocklist.Entry{Source: blocklist.Manual, By: "root", Why: why}}
		if got := e.WhyText(); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}

// At a terminal, where long rows are cut, a reason begins with what is not refused.
func TestWhatIsNotRefusedComesFirst(t *testing.T) {
	for want, e := range map[string]blocklist.Entry{
		"11 hits broke 10/min":                       {},
		"would block: 11 hits broke 10/min":          {Mode: blocklist.Shadow},
		"guarded, would block: 11 hits broke 10/min": {Mode: blocklist.Shadow, Guarded: true},
	} {
		e.Limit, e.Count = "10/min", 11
		if got := (&Entry{Entry: e}).WhyIn(LocalTimes(time.Now())); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The entry of a network names the addresses that led to it.
func TestTheAddressesOfANetworkAreShown(t *testing.T) {
	e := &Entry{Entry: blocklist.Entry{Limit: "5 blocked addresses within 10 minutes", Count: 6, Level: 2, By: "weir", Why: "6 blocked addresses: 203.0.113.1, 203.0.113.2"}}
	const want = "more than 5 blocked addresses within 10 minutes; 6 blocked addresses: 203.0.113.1, 203.0.113.2, offence 2"
	if got := e.WhyText(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
