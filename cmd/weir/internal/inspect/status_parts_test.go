package inspect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/test/running"
)

// Two aggregators are both asked when both are named; when one is not named, status reports that there is another.
func TestStatusOfTwoAggregators(t *testing.T) {
	one, two := running.NewPart(t, `{"caught_up": true}`), running.NewPart(t, `{"caught_up": false}`)
	settings := settingsOf(t, "collector: {listen: ''}\nenforcer: {admin: ''}")
	places, err := (&partFlags{aggregators: []string{one.URL, two.URL + "/"}}).places(settings)
	if err != nil {
		t.Fatal(err)
	}
	s := &status{Parts: askParts(t.Context(), places, ""), Groups: []groupStatus{{Group: "weir.aggregator", Members: 2}}}
	if len(s.Parts) != 2 || !s.Parts[0].Reached || !s.Parts[1].Reached || s.allPartsCaughtUp() || s.others("weir.aggregator") != "" {
		t.Errorf("%+v, %q", s.Parts, s.others("weir.aggregator"))
	}
	s.Parts = s.Parts[:1]
	s.unasked = s.others("weir.aggregator")
	var text strings.Builder
	if err := s.writeText(&text); err != nil || !strings.Contains(text.String(), "weir.aggregator has 2 members, and 1 of them answered here: name each with --aggregator URL") {
		t.Errorf("%v\n%s", err, text.String())
	}
	for _, url := range []string{"", "one:7411", "ftp://one"} {
		if _, err := (&partFlags{aggregators: []string{url}}).places(settings); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}

// Values that had to go early are shown, and what was seen before is no problem.
func TestStatusOfASourceWithDedupe(t *testing.T) {
	part := running.NewPart(t, `{"caught_up": true, "sources": [{"source": "shop", "kind": "file", "caught_up": true, "requests": 9, "uncounted": {"seen": 9}, "logs": [], "seen": {"values": 10, "most": 10, "early": 3}}]}`)
	settings := settingsOf(t, "aggregator: {listen: ''}\nenforcer: {admin: ''}")
	places, err := (&partFlags{collectors: []string{part.URL}}).places(settings)
	if err != nil {
		t.Fatal(err)
	}
	s := &status{Parts: askParts(t.Context(), places, "")}
	var text strings.Builder
	if err := s.writeText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 values forgotten early", "9 of 9 requests not counted: 9 that were seen before"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if what := s.uncounted(); what != "" {
		t.Errorf("it is a problem: %s", what)
	}
}

// A part whose clock is wrong is named, by the time in its answer.
func TestStatusOfAPartWithAWrongClock(t *testing.T) {
	settings := settingsOf(t, "collector: {listen: ''}\naggregator: {listen: ''}")
	for ahead, want := range map[time.Duration]string{0: "", time.Hour: "ahead", -2 * time.Minute: "behind"} {
		part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			_, _ = w.Write([]byte(`{"caught_up": true, "whole": true}`))
		}))
		defer part.Close()
		places, err := (&partFlags{enforcers: []string{part.URL}}).places(settings)
		if err != nil {
			t.Fatal(err)
		}
		s := &status{CaughtUp: true, Parts: askParts(t.Context(), places, "")}
		first, _, _ := strings.Cut(s.headline(), "\n")
		before, _, found := strings.Cut(first, want+", or this machine's is wrong")
		switch {
		case want == "" && first != "Healthy: all have caught up.",
			want != "" && (!found || !strings.HasPrefix(before, "Needs attention: the clock of the enforcer at "+places[0].shown+" is ")):
			t.Errorf("%v: %s", ahead, first)
		}
	}
}
