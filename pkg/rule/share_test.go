package rule_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const errorsRule = "rules: [{name: a, key: ip, share: {of: 'status in 400..498', over: 50%, least: 20, within: 10m}}]"

// A hit has the value 1 if the request meets the condition, and 0 if not. The number that tells conditions apart never
// changes, and differs for another condition only.
func TestHitsOfAShare(t *testing.T) {
	for status, want := range map[int]uint64{404: 1, 200: 0, 499: 0} {
		value, of, ok := valueOf(t, errorsRule, request.Request{Status: status})
		if !ok || value != want || of != 0x2eb3a171431060bf {
			t.Errorf("%d: %d of %#x, %v", status, value, of, ok)
		}
	}
	_, of, _ := valueOf(t, errorsRule, request.Request{})
	for rules, same := range map[string]bool{
		"rules: [{name: b, key: host, share: {of: 'status  in 400..498 // all', over: 10%, least: 2, within: 1h, late: 1s}}]": true,
		"rules: [{name: a, key: ip, share: {of: 'status in 400..499', over: 50%, least: 20, within: 10m}}]":                   false,
	} {
		if _, got, _ := valueOf(t, rules, request.Request{Host: "h"}); (got == of) != same {
			t.Errorf("%s: %#x, and %#x", rules, got, of)
		}
	}
	if _, _, ok := valueOf(t, "rules: [{name: a, key: ip, share: {of: 'int(fields.size) > 5', over: 50%, least: 20, within: 10m}}]", request.Request{}); ok {
		t.Error("a request counts whose condition cannot be computed")
	}
}

// The condition decides: it is in the fingerprint, and so is the rest of the share; and its fields are read.
func TestSharesDecide(t *testing.T) {
	share := func(text string) *rule.Set { return mustParse(t, "rules: [{name: a, key: ip, share: {"+text+"}}]") }
	seen := map[string]bool{}
	for _, text := range []string{
		"of: status == 404, over: 50%, least: 20, within: 10m", "of: fields.kind == 'x', over: 50%, least: 20, within: 10m", "of: status == 404, over: 50.01%, least: 20, within: 10m",
		"of: status == 404, over: 50%, least: 21, within: 10m", "of: status == 404, over: 50%, least: 20, within: 11m", "of: status == 404, over: 50%, least: 20, within: 10m, late: 1m",
	} {
		seen[share(text).Fingerprint()] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d fingerprints of six shares", len(seen))
	}
	set := share("of: fields.kind == 'x', over: 50%, least: 20, within: 10m")
	if reads := set.Reads(); !slices.Contains(reads, "kind") {
		t.Error(reads)
	}
	if of := set.ValuesOf(); len(of) != 1 || of[0] != set.Rules[0].ValuesOf() {
		t.Error(of)
	}
}

func TestSharesInWords(t *testing.T) {
	for text, want := range map[string]string{
		"over: 50%, least: 20, within: 10m":   "50% of at least 20 requests within 10 minutes",
		"over: 12.50 %, least: 1, within: 1h": "12.5% of at least 1 request within an hour",
	} {
		set := mustParse(t, "rules: [{name: a, key: ip, share: {of: status == 404, "+text+"}}]")
		if got := set.Rules[0].Limits[0].Text; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	set := mustParse(t, errorsRule)
	limit, err := rule.ParseLimit("100/hour")
	if err != nil {
		t.Fatal(err)
	}
	if got := set.WithLimits([][]rule.Limit{{limit}}).Rules[0].Limits[0].Text; got != "50% of at least 100 requests within an hour" {
		t.Error(got)
	}
}

// A hit may be as late as the share says, but no later than for all rules. A block begins so much later.
func TestHowLateHitsOfASharesAre(t *testing.T) {
	for late, want := range map[string]time.Duration{"": 20 * time.Minute, ", late: 30s": 30 * time.Second, ", late: 0s": 0, ", late: 1h": 20 * time.Minute} {
		set := mustParse(t, "rules: [{name: a, key: ip, share: {of: status == 404, over: 50%, least: 3, within: 10m"+late+"}}]")
		p, err := set.Rules[0].Policy(20*time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		judge := set.NewJudge()
		var s window.State
		const at = 1_700_000_000_000
		for range 3 {
			hits := judge.Hits(&request.Request{IP: netip.MustParseAddr("192.0.2.1"), Status: 404})
			p.HitValue(&s, at, hits[0].Value)
		}
		if o := p.Judge(&s, at+want.Milliseconds()+1); o.Event != window.Broke || o.From != at+want.Milliseconds() || o.Count != 3 {
			t.Errorf("%q: %+v", late, o)
		}
	}
}
