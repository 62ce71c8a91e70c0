package enforcer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/user"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
	"weir/test/wait"
)

// shown is an entry as programs read it.
type shown struct {
	ID, Rule, Key, Order, By, Why string
	Fields                        map[string]string
	Until                         time.Time
	Ended                         *time.Time
}

type orderAnswer struct {
	Order   shown
	Lifted  []shown
	Allowed *shown
	InForce inForce `json:"in_force"`
	Sending *sending
	Note    string
}

// keyed starts an enforcer that has keys.
func keyed(t testing.TB, set *blocklist.Set) *running {
	t.Helper()
	return start(t, set, func(c *Config) { c.Keys = keysFile(t) })
}

// patient waits for Kafka for as long as it takes.
func patient(t testing.TB, set *blocklist.Set) *running {
	t.Helper()
	r := open(t, set, func(c *Config) { c.Keys = keysFile(t) })
	r.patience = time.Minute
	r.run()
	return r
}

func (r *running) order(method, path, body string) answer {
	r.t.Helper()
	return r.ask(r.client, method, path, body, "X-Api-Key", "write")
}

func TestABlockIsActiveBeforeTheAnswer(t *testing.T) {
	r := patient(t, list(t))
	for target, ip := range map[string]string{"203.0.113.7": "203.0.113.7", "198.51.100.0/24": "198.51.100.9", "2001:db8::/32": "2001:db8:5::1"} {
		got := r.order("POST", "/v1/blocks", fmt.Sprintf(`{"target":%q,"for":"1h","why":"scraper"}`, target))
		var said orderAnswer
		got.read(t, &said)
		if got.status != 201 || said.Order.Order != "block" || said.Order.By != "the-write" || said.Order.Why != "scraper" || !said.InForce.Here || !said.InForce.Kafka || said.Note != "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		if left := time.Until(said.Order.Until); left > time.Hour || left < time.Hour-time.Minute {
			t.Errorf("it lasts for %s", left)
		}
		if check := r.checks(ip); check.status != 429 || check.Header.Get(markField) != "refused manual" {
			t.Errorf("%s: %d", ip, check.status)
		}
	}
	r.order("POST", "/v1/blocks", `{"target":"user:alice","why":"stolen"}`)
	if check := r.checks("203.0.113.8", "X-User", "alice"); check.status != 429 {
		t.Errorf("alice: %d", check.status)
	}
	records, events := r.blocklist.messages(), r.events.messages()
	if len(records) != 4 || len(events) != 4 {
		t.Fatalf("%d records, %d events", len(records), len(events))
	}
	for i, m := range records {
		record, err := blocklist.DecodeRecord(m.Key, m.Value)
		if err != nil || record.Order == nil || m.Partition != 0 {
			t.Errorf("%v %+v", err, record)
		}
		var event struct {
			shown
			Event string
		}
		if err := json.Unmarshal(events[i].Value, &event); err != nil || event.Event != "ordered" || event.ID != record.Order.ID ||
			events[i].Partition != hit.Partition("manual", []byte(event.Key), 4) {
			t.Errorf("%v %s", err, events[i].Value)
		}
	}
}

func TestAnAllowBeatsABlockUntilItIsLifted(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7")))
	if got := r.order("POST", "/v1/allows", `{"target":"203.0.113.0/24","until":"2099-01-01T00:00:00Z","why":"pentest"}`); got.status != 201 {
		t.Fatal(got.body)
	}
	if check := r.checks("203.0.113.7"); check.status != 200 || check.Header.Get(markField) != "allowed" {
		t.Errorf("%d %v", check.status, check.Header)
	}
	var said orderAnswer
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.7","why":"again"}`).read(t, &said)
	if !strings.Contains(said.Note, "allowed by the-write (pentest)") {
		t.Errorf("note: %q", said.Note)
	}
	var all struct{ Allows []shown }
	r.get("/v1/allows", "X-Api-Key", "read").read(t, &all)
	if len(all.Allows) != 1 || all.Allows[0].Key != "203.0.113.0/24" || all.Allows[0].Why != "pentest" {
		t.Errorf("%+v", all)
	}
	if got := r.order("DELETE", "/v1/allows?target=203.0.113.7&why=over", ""); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
	got := r.order("DELETE", "/v1/allows?target=203.0.113.0/24&why=over", "")
	said = orderAnswer{}
	if got.read(t, &said); got.status != 200 || said.Order.Ended == nil || said.Order.Why != "over" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if check := r.checks("203.0.113.7"); check.status != 429 {
		t.Errorf("%d", check.status)
	}
}

func TestPauseAndResume(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7"), verdict("tenant", "acme", map[string]string{"tenant": "acme"})))
	status := func() (ip, tenant int) {
		return r.checks("203.0.113.7").status, r.checks("203.0.113.8", "Tenant", "acme").status
	}
	for _, test := range []struct {
		method, path, body string
		want, ip, tenant   int
	}{
		{"POST", "/v1/pause", `{"rule":"per-ip","for":"1h","why":"false alarms"}`, 201, 200, 429},
		{"POST", "/v1/pause", `{"why":"all of it"}`, 201, 200, 200},
		{"DELETE", "/v1/pause?why=done", "", 200, 200, 429},
		{"DELETE", "/v1/pause?why=done", "", 404, 200, 429},
		{"DELETE", "/v1/pause?rule=per-ip&why=done", "", 200, 429, 429},
		{"POST", "/v1/pause", `{"rule":"nonsense","why":"x"}`, 400, 429, 429},
	} {
		got := r.order(test.method, test.path, test.body)
		if ip, tenant := status(); got.status != test.want || ip != test.ip || tenant != test.tenant {
			t.Errorf("%+v: %d, %d, %d: %s", test, got.status, ip, tenant, got.body)
		}
	}
	r.order("POST", "/v1/pause", `{"rule":"per-ip","why":"x"}`)
	if mark := r.checks("203.0.113.7").Header.Get(markField); mark != "paused" {
		t.Errorf("the mark is %q", mark)
	}
	r.order("DELETE", "/v1/pause?rule=per-ip&why=done", "")
	var all struct{ Pauses []shown }
	if r.get("/v1/pause", "X-Api-Key", "read").read(t, &all); len(all.Pauses) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestUnblockFindsEverythingThatHoldsTheKey(t *testing.T) {
	e := ofIP("2001:db8::/64")
	r := patient(t, list(t, e, ofIP("2001:db8:1::/64")))
	r.order("POST", "/v1/blocks", `{"target":"2001:db8::5","why":"scraper"}`)
	r.order("POST", "/v1/pause", `{"rule":"tenant","why":"x"}`)
	if check := r.checks("2001:db8::5"); check.status != 429 {
		t.Fatal(check.status)
	}
	got := r.order("DELETE", "/v1/blocks?key=2001:db8::5&why=customer", "")
	var said orderAnswer
	got.read(t, &said)
	if got.status != 200 || len(said.Lifted) != 2 || said.Lifted[0].Ended == nil || said.Lifted[1].Ended == nil || !said.InForce.Kafka {
		t.Errorf("%d %s", got.status, got.body)
	}
	if said.Sending == nil || time.Since(said.Sending.Last) > time.Minute || !strings.Contains(said.Note, "blocked again") {
		t.Errorf("sending: %+v, note %q", said.Sending, said.Note)
	}
	for ip, want := range map[string]int{"2001:db8::5": 200, "2001:db8::6": 200, "2001:db8:1::5": 429} {
		if check := r.checks(ip); check.status != want {
			t.Errorf("%s: %d", ip, check.status)
		}
	}
	commands := r.hits.messages()
	if len(commands) != 1 {
		t.Fatalf("%d batches of commands", len(commands))
	}
	var batch hit.Reader
	if err := batch.Reset(commands[0].Value); err != nil {
		t.Fatal(err)
	}
	id, ok := batch.Unblock(batch.Items()[0])
	if !ok || string(id) != e.ID || batch.Rules()[0] != "per-ip" || string(batch.Pairs()[0].Key) != "2001:db8::/64" || !strings.HasPrefix(batch.Header().Source, "enforcer/") ||
		commands[0].Partition != hit.Partition("per-ip", []byte("2001:db8::/64"), 16) {
		t.Errorf("%+v %s %v", batch.Header(), id, ok)
	}
	if got := r.order("DELETE", "/v1/blocks?key=2001:db8::5&why=customer", ""); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestUnblockNarrowsAndAllows(t *testing.T) {
	pair := verdict("login", "alice /login", map[string]string{"user": "alice", "path": "/login"})
	r := keyed(t, list(t, ofIP("203.0.113.7"), pair, verdict("per-user", "bob", map[string]string{"user": "bob"})))
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.7","why":"scraper"}`)
	for _, test := range []struct {
		query   string
		status  int
		lifted  int
		allowed string
	}{
		{"key=203.0.113.7&rule=manual&why=w", 200, 1, ""},
		{"key=203.0.113.7&rule=login&why=w", 404, 0, ""},
		{"key=203.0.113.7&rule=per-ip&why=w&allow=4h", 200, 1, "203.0.113.7"},
		{"key=bob&why=w&allow=4h", 200, 1, "bob"},
		{"key=198.51.100.1&why=w&allow=4h", 200, 0, "198.51.100.1"},
		{"key=alice+/login&why=w&allow=4h", 400, 0, ""},
		{"key=alice+/login&why=w", 200, 1, ""},
		{"key=203.0.113.7", 400, 0, ""},
		{"why=w", 400, 0, ""},
	} {
		got := r.order("DELETE", "/v1/blocks?"+test.query, "")
		var said orderAnswer
		got.read(t, &said)
		if got.status != test.status || len(said.Lifted) != test.lifted || (said.Allowed != nil) != (test.allowed != "") {
			t.Errorf("%s: %d %s", test.query, got.status, got.body)
		}
		if said.Allowed != nil && (said.Allowed.Key != test.allowed || said.Allowed.Order != "allow") {
			t.Errorf("%s: %+v", test.query, said.Allowed)
		}
	}
}

func TestFind(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7")))
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.0/24","why":"scraper"}`)
	r.order("POST", "/v1/allows", `{"target":"203.0.0.0/16","why":"ours"}`)
	var said struct {
		Key             string
		Entries, Orders []shown
	}
	r.get("/v1/find?key=203.0.113.7", "X-Api-Key", "read").read(t, &said)
	if said.Key != "203.0.113.7" || len(said.Entries) != 2 || len(said.Orders) != 1 || said.Orders[0].Order != "allow" {
		t.Errorf("%+v", said)
	}
	r.get("/v1/find?key=203.0.113.7&rule=per-ip", "X-Api-Key", "read").read(t, &said)
	if len(said.Entries) != 1 || said.Entries[0].Rule != "per-ip" {
		t.Errorf("%+v", said)
	}
	if got := r.get("/v1/find?key=nobody", "X-Api-Key", "read"); got.status != 200 || !strings.Contains(got.body, `"entries":[],"orders":[]`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWithKafkaAwayAnOrderIsKeptAndSentLater(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7")))
	for _, sink := range []*gathering{r.blocklist, r.events, r.hits} {
		sink.set(true)
	}
	var said orderAnswer
	r.order("DELETE", "/v1/blocks?key=203.0.113.7&why=w", "").read(t, &said)
	if said.InForce.Kafka || !said.InForce.Here || !strings.Contains(said.Note, "kept on disk") {
		t.Errorf("%+v", said)
	}
	if check := r.checks("203.0.113.7"); check.status != 200 {
		t.Errorf("%d", check.status)
	}
	if s := r.Status(); s.Waiting != 1 || s.CaughtUp {
		t.Errorf("%+v", s)
	}
	r.blocklist.set(false)
	r.hits.set(false)
	if s := r.Status(); s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	r.events.set(false)
	if s := r.Status(); s.Waiting != 0 || !s.CaughtUp || len(r.events.messages()) != 1 {
		t.Errorf("%+v", s)
	}
}

// A process that ends with orders that Kafka does not have applies them at the next start and sends them, the same
// bytes.
func TestWaitingOrdersOutlastTheProcess(t *testing.T) {
	r := keyed(t, list(t))
	r.blocklist.set(true)
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.7","why":"one"}`)
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.8","why":"two"}`)
	r.stop()
	held := r.blocklist.held
	for _, m := range held {
		m.Done(0, fmt.Errorf("%w", topic.ErrClosed))
	}
	again := start(t, list(t), func(c *Config) { c.Folder = r.config.Folder })
	for _, ip := range []string{"203.0.113.7", "203.0.113.8"} {
		if check := again.checks(ip); check.status != 429 {
			t.Errorf("%s: %d", ip, check.status)
		}
	}
	wait.Until(t, "sent", func() bool { return again.Status().Waiting == 0 })
	sent := again.blocklist.messages()
	if len(sent) != 2 || string(sent[0].Value) != string(held[0].Value) || string(sent[1].Value) != string(held[1].Value) {
		t.Errorf("%d were sent", len(sent))
	}
}

func TestThoseWhoMayOpenTheSocketMayGiveOrders(t *testing.T) {
	r := start(t, list(t), nil)
	person := r.overSocket()
	got := r.ask(person, "POST", "/v1/blocks", `{"target":"203.0.113.7","why":"scraper"}`)
	var said orderAnswer
	got.read(t, &said)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got.status != 201 || said.Order.By != me.Username {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Only keys change the list, and no key does more than its role may.
func TestPermissionsOfEachKey(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7")))
	bare := start(t, list(t, ofIP("203.0.113.7")), nil)
	changes := [][3]string{
		{"POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`}, {"DELETE", "/v1/blocks?key=203.0.113.7&why=w", ""},
		{"POST", "/v1/allows", `{"target":"203.0.113.7","why":"w"}`}, {"DELETE", "/v1/allows?target=203.0.113.7&why=w", ""},
		{"POST", "/v1/pause", `{"why":"w"}`}, {"DELETE", "/v1/pause?why=w", ""},
	}
	for _, c := range changes {
		for key, want := range map[string]int{"": 401, "wrong": 401, "read": 403, "send": 403} {
			got := r.ask(r.client, c[0], c[1], c[2], "X-Api-Key", key)
			if got.status != want || got.Header.Get("Content-Type") != "application/problem+json" || want == 401 && got.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %q: %d %s", c[0], c[1], key, got.status, got.body)
			}
		}
		if got := bare.ask(bare.client, c[0], c[1], c[2]); got.status != 401 {
			t.Errorf("%s %s without a file of keys: %d", c[0], c[1], got.status)
		}
	}
	for _, path := range []string{"/v1/find?key=x", "/v1/allows", "/v1/pause"} {
		for key, want := range map[string]int{"": 401, "send": 403, "read": 200, "write": 200, "admin": 200} {
			if got := r.get(path, "Authorization", "Bearer "+key); got.status != want {
				t.Errorf("%s with %q: %d", path, key, got.status)
			}
		}
		if got := bare.get(path); got.status != 200 {
			t.Errorf("%s without a file of keys: %d", path, got.status)
		}
	}
	if r.checks("203.0.113.7").status != 429 || r.checks("203.0.113.8").status != 200 || len(r.blocklist.messages())+len(bare.blocklist.messages()) != 0 {
		t.Error("the list was changed")
	}
}

func TestAFollowerWithoutKafkaSaysWhereOrdersAreGiven(t *testing.T) {
	r := start(t, list(t), func(c *Config) { c.Sinks, c.Follows = nil, "https://enforcer.example:7421" })
	got := r.ask(r.overSocket(), "POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`)
	if got.status != http.StatusConflict || !strings.Contains(got.body, "https://enforcer.example:7421") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWrongOrders(t *testing.T) {
	r := keyed(t, list(t))
	long := strings.Repeat("x", maxBody)
	for body, want := range map[string]int{
		``: 400, `[]`: 400, `{`: 400, `{"target":"203.0.113.8"}`: 400, `{"why":"w"}`: 400, `{"target":"nobody","why":"w"}`: 400,
		`{"target":"203.0.113.8","why":"w","fro":"1h"}`: 400, `{"target":"203.0.113.8","why":"w","for":"soon"}`: 400, `{"target":"203.0.113.8","why":"w","for":"0"}`: 400,
		`{"target":"203.0.113.8","why":"w","for":"1h","until":"2099-01-01T00:00:00Z"}`: 400, `{"target":"203.0.113.8","why":"w","until":"1999-01-01T00:00:00Z"}`: 400,
		`{"target":"203.0.113.8","why":"w","until":"9998-01-01T00:00:00Z"}`: 400, `{"target":"203.0.113.8","why":" "}`: 400,
		`{"target":"203.0.113.8","why":"w","for":""}`: 400, `{"target":"203.0.113.8","why":"w","until":""}`: 400,
		`{"target":"user:\ud800","why":"w"}`: 400, "{\"target\":\"user:\xff\",\"why\":\"w\"}": 400, `{"target":"host:shop.example:8080","why":"w"}`: 400,
		`{"target":"203.0.113.8","why":"w"}]`: 400, `{"target":"203.0.113.8","why":"w"} {}`: 400, `{"target":"203.0.113.8","why":"w","rule":"per-ip"}`: 400,
		`{"target":"203.0.113.8","why":"` + long[:maxWhy+1] + `"}`: 400, `{"target":"user:` + long[:2000] + `","why":"w"}`: 400, `{"why":"` + long + `"}`: 413,
	} {
		if got := r.order("POST", "/v1/blocks", body); got.status != want || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.80s: %d %s", body, got.status, got.body)
		}
	}
	for path, want := range map[string]int{
		"/v1/blocks?key=x&why=w&rule=": 400, "/v1/blocks?key=x&why=w&allow=": 400, "/v1/pause?rule=&why=w": 400,
		"/v1/blocks?key=x&why=w&why=v": 400, "/v1/blocks?key=x&why=w&target=y": 400, "/v1/blocks?key=x&why=%zz": 400, "/v1/blocks?key=x&why=w&allow=soon": 400,
		"/v1/allows?why=w": 400, "/v1/allows?target=203.0.113.8": 400, "/v1/pause": 400, "/v1/find?key=x": 405, "/v1/nonsense": 404,
	} {
		if got := r.order("DELETE", path, ""); got.status != want || want == 405 && got.Header.Get("Allow") != "GET" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := r.order("POST", "/v1/pause", `{"rule":"","why":"w"}`); got.status != 400 {
		t.Errorf("a pause of an empty rule: %d %s", got.status, got.body)
	}
	if n := len(r.blocklist.messages()); n != 0 {
		t.Errorf("%d orders", n)
	}
}

// The answer to an order that Kafka refuses permanently does not report it as being in Kafka.
func TestAnOrderThatKafkaRefusesIsReportedAsLocal(t *testing.T) {
	r := start(t, list(t), func(c *Config) {
		c.Keys = keysFile(t)
		c.Sinks = &Sinks{Blocklist: refusing{topic.ErrPermanent}, Events: &gathering{}, Hits: &gathering{}}
	})
	var said orderAnswer
	r.order("POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`).read(t, &said)
	if !said.InForce.Here || said.InForce.Kafka || !strings.Contains(said.Note, "refuse it") {
		t.Errorf("%+v", said)
	}
}
