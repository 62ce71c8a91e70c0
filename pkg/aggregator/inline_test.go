package aggregator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/blocklist"
)

var (
	inlineRules = strings.Replace(labRules, "limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}", "limits: [4/10s], inline: true", 1)
	alsoRules   = strings.Replace(labRules, "name: few,", "name: few, inline: {also: log},", 1)
	onlyInline  = "rules: [{name: few, key: ip, limits: [4/10s], inline: true}]"
)

// A rule that becomes inline ends its blocks, as one that is gone. Its hits are neither counted nor waited for.
func TestARuleThatBecomesInlineEndsItsBlocks(t *testing.T) {
	for _, rules := range []string{inlineRules, onlyInline} {
		for _, restarted := range []bool{false, true} {
			l := newLab(t, 1, newMemoryStore())
			p := l.takes()
			l.hits("192.0.2.1", 5)
			l.settle(p)
			reload := func(text string) {
				t.Helper()
				if restarted {
					l.start(text)
					p = l.takes()
				} else if err := l.agg.Reload(parseRules(t, text)); err != nil {
					t.Fatal(err)
				}
				p.rules.reread = func() { t.Error("the rules are read again for hits of an inline rule") }
				l.turn(p)
				l.settle(p)
			}
			reload(rules)
			l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
			l.hits("192.0.2.2", 5)
			l.settle(p)
			if e := l.said()["few/192.0.2.2"]; e != nil {
				t.Errorf("an inline rule decides: %+v", e)
			}
			reload(alsoRules)
			l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 })
			l.hits("192.0.2.3", 5)
			l.settle(p)
			l.want("few/192.0.2.3", func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Count == 5 })
		}
	}
}

// A question about a key of an inline rule has the reason as its answer. The rule is in no list of keys, and has no series.
func TestAnInlineRuleIsNotCountedHere(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	l.start(inlineRules)
	p := l.takes()
	l.settle(p)
	mux := http.NewServeMux()
	l.agg.Handle(mux.Handle)
	for path, want := range map[string]string{"/v1/keys?rule=few&key=192.0.2.9": "404 rule few is decided inline: aggregators do not count it", "/v1/top?rule=few": "200 []"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if got := fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String())); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	if l.agg.metrics.broken.DeletePartialMatch(map[string]string{"rule": "few"}) > 0 || testutil.CollectAndCount(l.agg.metrics.broken) == 0 {
		t.Error("the metrics show the inline rule")
	}
}
