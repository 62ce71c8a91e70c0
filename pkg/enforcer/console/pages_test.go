package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/console"
	"weir/pkg/rule"
)

const someRules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min, 100/hour], description: "visitors <b>"}
  - {name: sign-in, key: [user, path], limits: [5/min], mode: shadow, match: 'path == "/login"'}
  - {name: quota, key: user, limits: [2/min], inline: true}
`

// withRules gives a stand rules, and an API and parts whose every text is the given one.
func (s *stand) withRules(text string) *stand {
	s.t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(someRules))
	if err != nil {
		s.t.Fatal(err)
	}
	s.config.Rules = func() *rule.Set { return set }
	quoted := asJSON(s.t, text)
	entry := ofIP("203.0.113.7")
	entry.Key, entry.Fields, entry.By, entry.Limit = cut(text, 900), map[string]string{"agent": cut(text, 900), "user": "b"}, cut(text, 200), cut(text, 200)
	order := (&blocklist.Order{ID: "1", Kind: blocklist.OrderAllow, Scope: "agent", Value: cut(text, 900), From: entry.From, Until: entry.Until, By: cut(text, 200), Why: text}).Entry()
	events := ""
	for i, what := range []string{"blocked", "extended", "corrected", "ended", "lifted", "ordered", text} {
		of := entry
		if i > 3 {
			of = order
		}
		event, err := blocklist.AppendEvent(nil, what, time.Now().UnixMilli(), of)
		if err != nil {
			s.t.Fatal(err)
		}
		events += "," + string(event)
	}
	answers := map[string]string{
		"/v1/find":     fmt.Sprintf(`{"key":%s,"entries":[%s],"orders":[%s],"sending":{"last":"2026-01-02T03:04:05Z"}}`, quoted, asJSON(s.t, entry), asJSON(s.t, order)),
		"/v1/evidence": fmt.Sprintf(`{"id":"1","requests":[{"time":"2026-01-02T03:04:05Z","method":%[1]s,"host":%[1]s,"path":%[1]s,"status":200,"agent":%[1]s}],"kept":5,"counted":11}`, quoted),
		"/v1/keys":     fmt.Sprintf(`{"rule":%[1]s,"key":%[1]s,"where":"memory","at":"2026-01-02T03:04:05Z","limits":[{"limit":%[1]s,"count":3,"clears":"2026-01-02T03:04:05Z"}]}`, quoted),
		"/v1/events":   `{"events":[` + events[1:] + `],"next":` + quoted + `,"oldest":` + quoted + `}`,
		"/v1/whatif": fmt.Sprintf(`{"rule":%[1]s,"hits":5,"keys":1,"first":"2026-01-02T03:04:05Z","last":"2026-01-02T03:05:05Z","partitions":1,"read":1,"now":{"limits":[%[1]s]},"other":{"limits":[%[1]s],"blocked":1,"refused":2},
			"only_other":1,"top":[{"key":%[1]s,"hits":5,"other":{"first":"2026-01-02T03:04:05Z","refused":2}}],"notes":[%[1]s]}`, quoted),
		"/v1/numbers": fmt.Sprintf(`{"checks":10,"refused":5000,"last_minute":{"checks":7,"refused":4},"per_second":{"checks":[1,2,3],"refused":[0,1,0]},
			"rules":{"per-ip":{"refused":5000,"blocked_now":1,"blocked_today":2},"sign-in":{"refused":0}},
			"entries":[{"rule":%[1]s,"key":%[1]s,"target":%[1]s,"until":%[1]s,"refused":5000,"last_minute":4,"last_refused":"2026-01-02T03:04:05Z"}]}`, quoted),
	}
	s.answers = answers
	s.answer = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answers[r.URL.Path]) }
	s.config.Parts = []console.Part{
		{Name: "collector", Get: func(context.Context, string) (int, []byte, error) {
			return 200, []byte(fmt.Sprintf(`{"caught_up":true,"error":%[1]s,"sources":[{"source":%[1]s,"kind":"file","format":%[1]s,"error":%[1]s,"errors":[%[1]s,"another problem"],"requests":30,"uncounted":{%[1]s:3,"address":27},"logs":[{"lag":2,"newest":"2026-01-02T03:04:05Z"}]}]}`, quoted)), nil
		}},
		{Name: "aggregator", Get: func(_ context.Context, path string) (int, []byte, error) {
			if strings.HasPrefix(path, "/v1/keys") {
				return 503, []byte(text), nil
			}
			return 200, []byte(fmt.Sprintf(`{"caught_up":true,"store":%[1]s,"partitions":[{"partition":1,"error":%[1]s}]}`, quoted)), nil
		}},
		{Name: "enforcer", Get: func(context.Context, string) (int, []byte, error) {
			return 200, []byte(fmt.Sprintf(`{"caught_up":true,"whole":true,"version":%[1]s,"age":%[1]s,"follows":%[1]s,"trouble":%[1]s,"paused":[%[1]s]}`, quoted)), nil
		}},
		{Name: "enforcer", Address: text, Get: func(context.Context, string) (int, []byte, error) { return 0, nil, fmt.Errorf("%s", text) }},
	}
	return s
}

// Every text of the API and of parts is text on every page, also in forms and previews.
func TestHostileTextsOfOthers(t *testing.T) {
	for _, text := range hostile {
		s := newStand(t, true, ofIP("203.0.113.7")).withRules(text).start()
		s.login("ann's")
		for _, path := range []string{"/console/", "/console/?group=refused", "/console/key?key=" + url.QueryEscape(cut(text, 900)), "/console/rules", "/console/parts", "/console/whatif?rule=per-ip&limits=" + url.QueryEscape(text) + "&since=" + url.QueryEscape(text), "/console/audit?key=" + url.QueryEscape(text) + "&by=" + url.QueryEscape(text)} {
			status, body, _ := s.get(path)
			if status != http.StatusOK {
				t.Errorf("%q: %d %s", path, status, body)
			}
			safePage(t, text, body)
		}
		for _, name := range []string{"block", "allow", "unblock", "disallow", "pause"} {
			form := url.Values{"token": {s.token()}, "action": {name}, "target": {text}, "rule": {text}, "for": {text}, "why": {"x" + text}, "allow": {text}, "back": {text}}
			if status, body, _ := s.post("/console/act", form); status == http.StatusOK {
				safePage(t, text, body)
			} else {
				t.Errorf("%s of %q: %d", name, text, status)
			}
		}
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusPreconditionRequired)
			fmt.Fprintf(w, `{"detail":%[1]s,"affects":[%[1]s]}`, asJSON(t, text))
		}
		if _, body, _ := s.post("/console/act", url.Values{"token": {s.token()}, "action": {"pause"}, "why": {"x"}, "step": {"do"}}); !strings.Contains(body, "It also affects") {
			t.Error(body)
		} else {
			safePage(t, text, body)
		}
	}
}

// An action is an order of the API by the name of the session's key. Before it there is a preview, which orders nothing.
func TestActions(t *testing.T) {
	s := newStand(t, true, ofIP("203.0.113.7")).withRules("x").start()
	s.login("ann's")
	for _, one := range []struct {
		form url.Values
		want string
	}{
		{url.Values{"action": {"block"}, "target": {"203.0.113.0/24"}, "for": {"1h"}}, `POST /v1/blocks? {"for":"1h","target":"203.0.113.0/24","why":"because"} by ann write`},
		{url.Values{"action": {"allow"}, "target": {"user:alice"}, "for": {"forever"}, "confirm": {"yes"}}, `POST /v1/allows? {"confirm":true,"for":"forever","target":"user:alice","why":"because"} by ann write`},
		{url.Values{"action": {"unblock"}, "target": {"alice /login"}, "allow": {"1h"}}, `DELETE /v1/blocks?allow=1h&key=alice+%2Flogin&why=because  by ann write`},
		{url.Values{"action": {"disallow"}, "target": {"203.0.113.7"}}, `DELETE /v1/allows?target=203.0.113.7&why=because  by ann write`},
		{url.Values{"action": {"pause"}, "rule": {"per-ip"}, "for": {"10m"}}, `POST /v1/pause? {"for":"10m","rule":"per-ip","why":"because"} by ann write`},
		{url.Values{"action": {"confirm"}, "rule": {"per-ip"}, "for": {"10m"}}, `POST /v1/guard? {"for":"10m","rule":"per-ip","why":"because"} by ann write`},
		{url.Values{"action": {"endconfirm"}, "rule": {"per-ip"}}, `DELETE /v1/guard?rule=per-ip&why=because  by ann write`},
		{url.Values{"action": {"resume"}, "rule": {"per-ip"}}, `DELETE /v1/pause?rule=per-ip&why=because  by ann write`},
	} {
		one.form.Set("why", "because")
		one.form.Set("token", s.token())
		one.form.Set("back", "/console/rules")
		s.orders = nil
		if status, body, _ := s.post("/console/act", one.form); status != http.StatusOK || len(s.orders) > 0 || !strings.Contains(body, `name="step" value="do"`) {
			t.Errorf("the preview: %d %q %s", status, s.orders, body)
		}
		one.form.Set("step", "do")
		status, _, header := s.post("/console/act", one.form)
		if status != http.StatusSeeOther || header.Get("Location") != "/console/rules" || len(s.orders) != 1 || s.orders[0] != one.want {
			t.Errorf("%d %q, not %q", status, s.orders, one.want)
		}
	}
	if _, body, _ := s.get("/console/rules"); !strings.Contains(body, "The pause of the rule per-ip has ended.") {
		t.Errorf("the page does not show what was done: %s", body)
	}
	if _, body, _ := s.get("/console/rules"); strings.Contains(body, "has ended") {
		t.Error("it shows it twice")
	}

	slip := url.Values{"token": {s.token()}, "action": {"block"}, "target": {"203.0.113.7/24"}, "why": {"x"}}
	if _, body, _ := s.post("/console/act", slip); !strings.Contains(body, "203.0.113.7/24 is taken as all of 203.0.113.0/24.") {
		t.Errorf("a network by an address within it: %s", body)
	}

	s.orders = nil
	for name, form := range map[string]url.Values{
		"no reason": {"token": {s.token()}, "action": {"block"}, "target": {"203.0.113.7"}}, "no token": {"action": {"block"}, "target": {"203.0.113.7"}, "why": {"x"}},
		"another action": {"token": {s.token()}, "action": {"x"}, "why": {"x"}},
	} {
		form.Set("step", "do")
		if status, _, _ := s.post("/console/act", form); status < 400 || len(s.orders) > 0 {
			t.Errorf("%s: %d", name, status)
		}
	}
	form := url.Values{"token": {s.token()}, "action": {"block"}, "target": {"203.0.113.7"}, "why": {"x"}, "step": {"do"}}
	if status, _, _ := s.post("/console/act", form, "Origin", "https://evil.example"); status != http.StatusForbidden || len(s.orders) > 0 {
		t.Errorf("from another origin: %d", status)
	}
}

// Before a block, the page shows about how many requests it affects.
func TestThePreviewShowsWhatAKeySends(t *testing.T) {
	s := newStand(t, true).withRules("x")
	s.config.Parts = []console.Part{{Name: "aggregator", Get: func(context.Context, string) (int, []byte, error) {
		return 200, []byte(`{"rule":"per-ip","key":"203.0.113.7","where":"memory","at":"2026-01-02T03:04:05Z","limits":[
			{"limit":"10/min","count":4},{"limit":"100/hour","count":57},{"limit":"200 different paths within an hour","count":90}]}`), nil
	}}}
	s.start()
	s.login("ann's")
	for name, shown := range map[string]bool{"block": true, "allow": true, "unblock": false} {
		form := url.Values{"token": {s.token()}, "action": {name}, "target": {"203.0.113.7"}, "why": {"x"}}
		if _, body, _ := s.post("/console/act", form); strings.Contains(body, "It sends: 57 requests count now towards 100/hour of the rule per-ip.") != shown {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// A key of the role read, a console without actions, and a visitor without a session have no actions.
func TestReadersDoNotAct(t *testing.T) {
	for name, prepare := range map[string]func() *stand{
		"a reader": func() *stand { s := newStand(t, true).withRules("x").start(); s.login("rob's"); return s },
		"only reading": func() *stand {
			s := newStand(t, true).withRules("x")
			s.config.ReadOnly = true
			s.start().login("ann's")
			return s
		},
		"no log-in": func() *stand { return newStand(t, false).withRules("x").start() },
	} {
		s := prepare()
		for _, path := range []string{"/console/key?key=203.0.113.7", "/console/rules"} {
			if status, body, _ := s.get(path); status != http.StatusOK || strings.Contains(body, "/console/act") {
				t.Errorf("%s: %s has actions: %d", name, path, status)
			}
		}
		token := ""
		if name != "no log-in" {
			token = s.token()
		}
		form := url.Values{"token": {token}, "action": {"block"}, "target": {"203.0.113.7"}, "why": {"x"}, "step": {"do"}}
		if status, _, _ := s.post("/console/act", form); status < 400 || len(s.orders) > 0 {
			t.Errorf("%s: %d %q", name, status, s.orders)
		}
	}
}

// The page of other limits shows the answer of the API, and its refusals as sentences. The form offers rules with hits.
func TestOtherLimits(t *testing.T) {
	s := newStand(t, false).withRules("203.0.113.7").start()
	if _, body, _ := s.get("/console/rules"); !strings.Contains(body, `action="/console/whatif"`) || strings.Contains(body, `<option value="quota">`) {
		t.Error(body)
	}
	_, body, _ := s.get("/console/whatif?rule=per-ip&limits=20/min&since=6h")
	for _, want := range []string{`value="20/min"`, `<option value="6h" selected>`, "5 hits of 1 key", "<strong>with the other limits</strong>", "40.0%", "1 key would be blocked by the other limits only", `key=203.0.113.7">203.0.113.7</a>`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s", want, body)
		}
	}
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"detail":"limits: 20 is no limit"}`)
	}
	if _, body, _ := s.get("/console/whatif?rule=per-ip&limits=20"); !strings.Contains(body, `<p class="banner bad" role="status">Limits: 20 is no limit.</p>`) {
		t.Error(body)
	}
}

// When the enforcer gives no events, the page shows the reason.
func TestAuditShowsWhyThereAreNoEvents(t *testing.T) {
	s := newStand(t, false).start()
	for detail, want := range map[string]string{"4 others look through the events just now: ask again": "4 others look through the events just now: ask again.", "<b>": "&lt;b&gt;"} {
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, asJSON(t, map[string]string{"detail": detail}))
		}
		if status, body, _ := s.get("/console/audit"); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d %s", status, body)
		}
	}
}

// The audit has the name of a person once, also where no reason was given, and names the end of a confirmation.
func TestTheAuditNamesAPersonOnce(t *testing.T) {
	s := newStand(t, false).start()
	e := &blocklist.Entry{ID: "c", Rule: "per-ip", Key: "per-ip", Source: blocklist.Manual, Order: blocklist.OrderConfirm, By: "root", Why: "ended by hand by root", Ended: 1, Until: blocklist.Never}
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		text := strings.TrimSuffix(asJSON(t, e), "}") + `,"event":"lifted","at":"2026-03-03T08:00:00Z"}`
		fmt.Fprintf(w, `{"events":[%s]}`, text)
	}
	_, body, _ := s.get("/console/audit")
	for _, want := range []string{">Confirmation ended<", ">ended by hand<", `data-label="By">root<`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q: %s", want, body)
		}
	}
}

// The page of a key begins with the blocks that refuse it.
func TestBlocksThatRefuseComeFirst(t *testing.T) {
	inShadow, enforced := ofIP("203.0.113.7"), ofIP("203.0.113.7")
	inShadow.Mode, inShadow.Rule, enforced.Rule = blocklist.Shadow, "tried", "used"
	s := newStand(t, false).withRules("203.0.113.7").start()
	s.answers["/v1/find"] = fmt.Sprintf(`{"entries":[%s,%s]}`, asJSON(t, inShadow), asJSON(t, enforced))
	_, body, _ := s.get("/console/key?key=203.0.113.7")
	if first, second := strings.Index(body, ">used<"), strings.Index(body, ">tried<"); first < 0 || second < first {
		t.Errorf("used is at %d, tried at %d: %s", first, second, body)
	}
}

// Pages show what was refused, where the enforcer counts that: in all, by rule, by entry, and over the last hour.
func TestRefusedRequestsAreShown(t *testing.T) {
	s := newStand(t, false, ofIP("203.0.113.7")).withRules("203.0.113.7").start()
	s.answers["/v1/find"] = strings.Replace(s.answers["/v1/find"], `"entries":[{`, `"entries":[{"refused":4321,"last_refused":"2026-01-02T03:04:05Z",`, 1)
	for path, wanted := range map[string][]string{
		"/console/":                        {`data-figure="refused">5,000</b>`, `data-figure="minute">4</b>`, `<polyline class="refused" points="`},
		"/console/rules":                   {`data-label="Today">2</td><td class="number" data-label="Refused">5,000</td>`, `data-label="Today"></td><td class="number" data-label="Refused">0</td>`},
		"/console/?group=refused":          {"<strong>1 key</strong>", `key=203.0.113.7">203.0.113.7</a>`, ">5,000</td>"},
		"/console/?group=refused&q=192.0.": {"<strong>0 keys</strong>"},
		"/console/key?key=203.0.113.7":     {"4,321 requests refused, the last at <time"},
	} {
		status, body, _ := s.get(path)
		for _, want := range wanted {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d without %s: %s", path, status, want, body)
			}
		}
	}
	delete(s.answers, "/v1/numbers")
	for _, path := range []string{"/console/", "/console/rules", "/console/?group=refused"} {
		if status, body, _ := s.get(path); status != http.StatusOK || strings.Contains(body, "data-figure") || strings.Contains(body, "Blocked today") {
			t.Errorf("%s of an enforcer without numbers: %d %s", path, status, body)
		}
	}
}

// The list has how many requests each entry has refused, a link that sorts by it, and an answer for the script.
func TestTheListShowsWhatEntriesRefuse(t *testing.T) {
	one := ofIP("203.0.113.7")
	s := newStand(t, false, one, ofIP("203.0.113.8"))
	s.config.Refused = func(id string) int64 { return map[string]int64{one.ID: 4321}[id] }
	s.start()
	_, body, _ := s.get("/console/?q=203.0.113.")
	for _, want := range []string{`data-f="refused">4,321</td>`, `data-f="refused">0</td>`, `href="/console/?group=refused&amp;q=203.0.113."`, `data-counted="1"`, `data-id="` + one.ID + `"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	want := map[string]string{one.ID: "4,321", "<b>": "0"}
	got := map[string]string{}
	if status, body, _ := s.get("/console/refused?id=" + one.ID + "&id=%3Cb%3E"); status != http.StatusOK || json.Unmarshal([]byte(body), &got) != nil || !maps.Equal(got, want) {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := s.get("/console/refused?" + strings.Repeat("id=a&", 51)); status != http.StatusBadRequest {
		t.Errorf("51 entries: %d", status)
	}
	s.config.Refused = nil
	s.start()
	if _, body, _ := s.get("/console/"); strings.Contains(body, "data-counted") || strings.Contains(body, ">0</td>") {
		t.Errorf("an enforcer that does not count shows refusals: %s", body)
	}
	if status, _, _ := s.get("/console/refused?id=a"); status != http.StatusBadRequest {
		t.Errorf("without counts: %d", status)
	}
}

// Parts are well while they read what comes in, and not when they are behind. Requests that rules leave out on
// purpose are no loss.
func TestThePartsOfABusySystemAreWell(t *testing.T) {
	now := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	var collector, aggregator string
	s := newStand(t, false)
	s.config.Now = func() time.Time { return now }
	for name, body := range map[string]*string{"collector": &collector, "aggregator": &aggregator} {
		s.config.Parts = append(s.config.Parts, console.Part{Name: name, Get: func(context.Context, string) (int, []byte, error) { return 200, []byte(*body), nil }})
	}
	s.start()
	const logs, counted = `{"caught_up":%t,"sources":[{"source":"a","requests":30,"uncounted":{%q:3},"logs":[{"lag":%d,"newest":"2026-03-03T07:59:%dZ"}]}]}`, `{"caught_up":%t,"partitions":[{"lag":%d,"reached":"2026-03-03T07:59:%dZ"}]}`
	for want, one := range map[string]struct{ collector, aggregator string }{
		"All parts have caught up.": {fmt.Sprintf(logs, true, "match", 0, 10), fmt.Sprintf(counted, true, 0, 10)},
		"All parts have caught up. Of 1 source, not all requests count: the reasons are below.": {fmt.Sprintf(logs, true, "format", 0, 10), fmt.Sprintf(counted, true, 0, 10)},
		"All is well: the last requests are on their way.":                                      {fmt.Sprintf(logs, false, "match", 5, 58), fmt.Sprintf(counted, false, 7, 57)},
		"The collector has not caught up.":                                                      {fmt.Sprintf(logs, false, "match", 5, 30), fmt.Sprintf(counted, true, 0, 30)},
		"All parts have caught up. Nothing has been read of b, c.":                              {`{"caught_up":true,"sources":[{"source":"a","requests":1},{"source":"b","kind":"file","logs":[]},{"source":"c","kind":"http"}]}`, fmt.Sprintf(counted, true, 0, 10)},
		"The aggregator has not caught up.":                                                     {fmt.Sprintf(logs, true, "match", 0, 58), fmt.Sprintf(counted, false, 7, 30)},
	} {
		collector, aggregator = one.collector, one.aggregator
		if _, body, _ := s.get("/console/parts"); !strings.Contains(body, ">"+want+"</p>") || !strings.Contains(body, `Counted up to</dt><dd><time datetime="2026-03-03T07:59`) {
			t.Errorf("%s: %s", want, body)
		} else if strings.Contains(want, "Nothing") != strings.Contains(body, "no file to read: none matches") {
			t.Errorf("%s: the reason: %s", want, body)
		}
	}
}

// Parts are not well while nothing is read or sent, although nothing waits that they know of. Losses are shown.
func TestPartsThatReadNothingAreNotWell(t *testing.T) {
	var collector, aggregator string
	s := newStand(t, false)
	s.config.Now = func() time.Time { return time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC) }
	for name, body := range map[string]*string{"collector": &collector, "aggregator": &aggregator} {
		s.config.Parts = append(s.config.Parts, console.Part{Name: name, Get: func(context.Context, string) (int, []byte, error) { return 200, []byte(*body), nil }})
	}
	s.start()
	const idle = `{"caught_up":true}`
	for _, one := range []struct{ want, collector, aggregator string }{
		{"The collector has not caught up.", `{"caught_up":false,"sources":[{"source":"a","requests":1,"logs":[{"in_flight":1,"newest":"2026-03-03T07:59:00Z"}]}]}`, idle},
		{"The collector has not caught up.", `{"caught_up":false,"sources":[{"source":"a","requests":1,"caught_up":false,"logs":[]}]}`, idle},
		{"The aggregator has not caught up.", idle, `{"caught_up":false,"partitions":[{"lag_unknown_since":"2026-03-03T07:59:00Z"}]}`},
		{"All is well: the last requests are on their way.", idle, `{"caught_up":false,"partitions":[{"lag_unknown_since":"2026-03-03T07:59:55Z"}]}`},
		{"All parts have caught up. Of 1 source, not all requests count: the reasons are below.", `{"caught_up":true,"sources":[{"source":"a","requests":1,"lost":7}]}`, idle},
	} {
		collector, aggregator = one.collector, one.aggregator
		if _, body, _ := s.get("/console/parts"); !strings.Contains(body, ">"+one.want+"</p>") || strings.Contains(one.collector, "lost") != strings.Contains(body, "lost before being read") {
			t.Errorf("%s: %s", one.want, body)
		}
	}
}

// The first line tells what needs attention as weir status does: rules on the disk that are refused, sources that cannot
// be read, what passes because of a pause or a guard, and parts with different rules.
func TestPartsThatNeedAttentionAreNotWell(t *testing.T) {
	var collector, enforcer string
	s := newStand(t, false)
	for name, body := range map[string]*string{"collector": &collector, "enforcer": &enforcer} {
		s.config.Parts = append(s.config.Parts, console.Part{Name: name, Get: func(context.Context, string) (int, []byte, error) { return 200, []byte(*body), nil }})
	}
	slices.SortFunc(s.config.Parts, func(a, b console.Part) int { return strings.Compare(a.Name, b.Name) })
	s.start()
	for _, one := range []struct{ want, also, collector, enforcer string }{
		{"All parts have caught up.", "", `"rules":"a"`, `"rules":"a"`},
		{"The collector reports trouble.", "Not all of the configuration on the disk is active: rules.yaml:2:38: &lt;b&gt;; keys: gone.", `"rules":"a","refused":"rules.yaml:2:38: <b>\nkeys: gone"`, `"refused":"rules.yaml:2:38: <b>\nkeys: gone"`},
		{"1 source cannot be read, or not all of it: the reasons are below.", "one is damaged", `"sources":[{"source":"x","requests":3,"errors":["one is damaged","two is cut off"]}]`, ""},
		{"Paused, so not refused: everything; guarded, so not refused: 18 keys of a; guarded, so not refused: 1 key of b.", "Paused</dt>", "", `"paused":["*"],"guarded":{"b":1,"a":18}`},
		{"All parts have caught up.", "nothing new since its start", `"sources":[{"source":"x","kind":"file","requests":0,"logs":[{"newest":"2026-03-03T07:00:00Z"}]}]`, ""},
		{"The parts have different rules.", "", `"rules":"a"`, `"rules":"b"`},
	} {
		collector, enforcer = withCaughtUp(one.collector), withCaughtUp(one.enforcer)
		_, body, _ := s.get("/console/parts")
		if !strings.Contains(body, ">"+one.want+"</p>") || !strings.Contains(body, one.also) {
			t.Errorf("%s: %s", one.want, body)
		}
		if n := strings.Count(body, "on the disk"); n > 1 {
			t.Errorf("%s: the reason is there %d times", one.want, n)
		}
	}
}

// withCaughtUp is the status of a part that has caught up, with more members.
func withCaughtUp(members string) string {
	return strings.TrimSuffix(`{"caught_up":true,`+members, ",") + "}"
}

// An export is a file. A refusal of the API is a page with its sentence.
func TestExports(t *testing.T) {
	s := newStand(t, false).withRules("x").start()
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") == "" {
			w.Header().Set("Content-Type", "text/csv")
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, "time,event\n")
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"detail":"the index of <events> cannot be read now"}`)
	}
	if status, body, header := s.get("/console/events?format=csv"); status != http.StatusOK || body != "time,event\n" || header.Get("Content-Disposition") != `attachment; filename="weir-events.csv"` {
		t.Errorf("%d %q %v", status, body, header)
	}
	status, body, header := s.get("/console/events?format=csv&key=x")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "<p>The index of &lt;events&gt; cannot be read now.</p>") || header.Get("Content-Disposition") != "" || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v %s", status, header, body)
	}
}
