package notify

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// hostile are keys as clients may choose them.
var hostile = []string{
	`<script>alert(1)</script>`, "<!channel> <@U123>", "@channel @all `@here`", "a\r\nBcc: everyone@example.com", "\u202Egnp.exe\u2066", `","admin":true,"x":"`,
	"[link](https://evil.example) **bold**", strings.Repeat("k", 900), "=cmd|' /C calc'!A0", "\x00\x1b[31m",
}

func event(key string) *Event {
	e := entry("per-ip", key)
	e.From, e.Until, e.By, e.Why = 1_795_000_000_000, 1_795_000_600_000, "weir", ""
	line, err := blocklist.AppendEvent(nil, blocklist.EventBlocked, e.From, e)
	if err != nil {
		panic(err)
	}
	parsed, err := parseEvent(line)
	if err != nil {
		panic(err)
	}
	return parsed
}

func messageOf(events ...*Event) *Message {
	r := to("ops", nil)
	return r.message("per-ip", events, &round{at: time.UnixMilli(1_795_000_001_000)})
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHostileKeysStayTextInEachForm(t *testing.T) {
	t.Parallel()
	in := newInbox(t, nil)
	template, err := ParseTemplate(`{"text":"{{.Title}}","keys":[{{range $i, $e := .Events}}{{if $i}},{{end}}"{{.Key}}"{{end}}],"whole":{{json .Events}}}`, "application/json")
	if err != nil {
		t.Fatal(err)
	}
	plainTemplate, err := ParseTemplate("{{range .Events}}{{.Key}}\n{{end}}", "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	server := Server{URL: in.URL}
	for _, key := range hostile {
		m := messageOf(event(key))
		for _, target := range []Target{&Webhook{Server: server}, &Webhook{Server: server, Template: template, ContentType: "application/json"},
			&Webhook{Server: server, Template: plainTemplate, ContentType: "text/plain"},
			&Chat{Server: server}, &Chat{Server: server, Mattermost: true}, &Alertmanager{server},
			&PagerDuty{server, secretFile(t, "routing")}} {
			if _, err := target.Send(t.Context(), m); err != nil {
				t.Fatalf("%s: %q: %v", target.Kind(), key, err)
			}
			all := in.all()
			text := all[len(all)-1].text
			if target.Kind() == "webhook" && !strings.HasPrefix(text, "{") {
				if strings.Count(text, "\n") != 1 {
					t.Errorf("in plain text: %q", text)
				}
				continue
			}
			var read any
			if err := json.Unmarshal([]byte(text), &read); err != nil {
				t.Errorf("%s: %q: %v", target.Kind(), key, err)
			}
			if object, ok := read.(map[string]any); ok && object["admin"] != nil {
				t.Errorf("%s: %q has set a member: %s", target.Kind(), key, text)
			}
			if chat, ok := target.(*Chat); ok {
				line := chat.text(m)
				if strings.ContainsAny(line, "<>\x00\x1b\u202E\r") || strings.Count(line, "\n") != 1 || strings.Count(line, "`")%2 != 0 || strings.Contains(strings.Split(line, "`")[0], "@") {
					t.Errorf("%s: %q is shown as %q", target.Kind(), key, line)
				}
			}
		}

		mail, err := (&Mail{Server: "127.0.0.1:25", From: "Weir <weir@example.com>", To: []string{"ops@example.com"}}).message(m)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if _, err := mail.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(b.String(), "\r\n\r\n")
		if strings.Contains(head, "Bcc") || !strings.Contains(head, "Message-ID: <"+m.ID+"@example.com>") {
			t.Errorf("%q: %s", key, head)
		}
	}
}

func TestPagerDutysForm(t *testing.T) {
	e := event("203.0.113.7")
	text := string(encode(pagerDuty(messageOf(e), "routing")))
	for _, want := range []string{`"routing_key":"routing"`, `"event_action":"trigger"`, `"dedup_key":"` + e.ID + `"`, `"severity":"warning"`, `"source":"weir"`,
		`"summary":"per-ip: 203.0.113.7 blocked until 2026-11-18 11:16:40 UTC: 11 requests broke 10/min"`, `"custom_details":{"v":1,`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
	m := messageOf(e)
	m.resolve = true
	if text := string(encode(pagerDuty(m, "routing"))); text != `{"routing_key":"routing","event_action":"resolve","dedup_key":"`+e.ID+`","client":"Weir"}` {
		t.Error(text)
	}
}

func TestPagerDutyGetsOneEventAnEntry(t *testing.T) {
	a, b := event("a"), event("b")
	lifted := *a
	lifted.Event = blocklist.EventLifted
	longer := *b
	longer.Event = blocklist.EventExtended
	r := to("pager", &PagerDuty{})
	all := r.messages(&round{kept: []*Event{a, b, &longer, &lifted}, room: 10})
	if len(all) != 2 || all[0].Events[0].Event != blocklist.EventExtended || all[0].resolve || all[1].Events[0] != &lifted || !all[1].resolve {
		t.Errorf("%+v", all)
	}
	all = r.messages(&round{kept: []*Event{b, &lifted}, room: 1, more: Counts{{Rule: "per-ip", Event: "blocked"}: 7}})
	if len(all) != 2 || all[0].Reason != reasonMany || all[0].Counts.Sum() != 8 || !all[1].resolve {
		t.Errorf("with little room: %+v", all)
	}
}

func TestAlertmanagersForm(t *testing.T) {
	e := event("203.0.113.7")
	got := alerts(messageOf(e))[0]
	if got.Labels["alertname"] != "WeirBlocked" || got.Labels["key"] != "203.0.113.7" || got.Labels["severity"] != "warning" || got.EndsAt.Sub(got.StartsAt) != 10*time.Minute {
		t.Errorf("%+v", got)
	}
	lifted := *e
	lifted.Event, lifted.Ended = blocklist.EventLifted, e.From+60_000
	if over := alerts(messageOf(&lifted))[0]; over.EndsAt.Sub(over.StartsAt) != time.Minute {
		t.Errorf("%+v", over)
	}
}

func TestSecretsAreInNoError(t *testing.T) {
	t.Parallel()
	to := ""
	in := newInbox(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	})
	other := newInbox(t, nil)
	to = other.URL + "/T0P/SECRET"
	closed := newInbox(t, nil)
	closed.Close()
	const path = "/services/T0P/SECRET?token=SECRET"
	for _, url := range []string{in.URL + path, closed.URL + path, "https://host.invalid" + path, "http://[::1%SECRET" + path, "SECRET", "ftp://SECRET/x"} {
		target := &Chat{Server: Server{URLFile: secretFile(t, url), AuthorizationFile: secretFile(t, "Bearer SECRET")}}
		answer, err := target.Send(t.Context(), messageOf(event("a")))
		if err == nil || strings.Contains(err.Error()+answer, "SECRET") {
			t.Errorf("%s: %q, %v", url, answer, err)
		}
	}
	if len(other.all()) > 0 {
		t.Error("a redirect was followed")
	}
}

// A server that answers with what it got, as Express does where there is no such path, brings no secret into logs.
func TestAnswersWithSecrets(t *testing.T) {
	t.Parallel()
	token := "SECRET" + strings.Repeat("0123456789abcdef", 100)
	in := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "Cannot POST ", r.URL.Path, " ", r.RequestURI, " ", r.Header.Get("Authorization"), " ", r.URL.Query()["sig"], " ", string(body))
	}))
	t.Cleanup(in.Close)
	server := Server{URLFile: secretFile(t, in.URL+"/services/T0SECRET/SECRET%2Ftoken?sig=SECRET%2F1+2"), AuthorizationFile: secretFile(t, "Bearer "+token)}
	for _, target := range []Target{&Chat{Server: server}, &Webhook{Server: server}, &PagerDuty{Server: Server{URL: in.URL}, RoutingKeyFile: secretFile(t, `a"SECRETkey`)}} {
		answer, err := target.Send(t.Context(), messageOf(event("a")))
		if err == nil || strings.Contains(err.Error()+answer, "SECRET") || !strings.Contains(answer, "404 Not Found Cannot POST /") {
			t.Errorf("%s: %q, %v", target.Kind(), answer, err)
		}
	}
}

func TestTemplatesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":`:        "not JSON",
		`{{.Nothing}}`: "template",
		`{{`:           "cannot be read",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`:                       "template",
		`{{range .Events}}{{.Key}}{{end}}`:                                            "not JSON",
		`{{range .Events}}{{printf "%1000000s%1000000s%1000000s" "" "" ""}}{{end}}[]`: "more than",
		strings.Repeat("x", maxTemplate+1):                                            "65537 bytes",
	} {
		if _, err := ParseTemplate(text, "application/json"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	template, err := ParseTemplate(`{"t":"{{.Title}}","l":[{{range $i, $l := .Lines}}{{if $i}},{{end}}"{{$l}}"{{end}}]{{if eq .Rule "per-ip"}},"ours":1{{end}}}`, "application/json")
	if err != nil {
		t.Fatal(err)
	}
	body, err := template.execute(messageOf(event("a")), "application/json")
	if err != nil || !strings.Contains(string(body), `"ours":1`) {
		t.Errorf("%s %v", body, err)
	}
}

func TestMessagesInWords(t *testing.T) {
	order := func(kind blocklist.Kind, key string) *Event {
		e := event(key)
		e.Source, e.Order, e.Rule, e.Event, e.By, e.Why, e.Limit = blocklist.Manual, kind, blocklist.ManualRule, blocklist.EventOrdered, "bob", "a reason", ""
		return e
	}
	shadow := event("a")
	shadow.Mode = blocklist.Shadow
	group, ended := event("203.0.113.0/24"), event("203.0.113.0/24")
	group.Limit, group.Why = "1 blocked address within an hour", "2 blocked addresses: 203.0.113.1, 203.0.113.2"
	ended.Event, ended.Why = blocklist.EventLifted, "too many of its addresses were unblocked"
	var got []string
	for _, e := range []*Event{group, ended, event("a"), shadow, order(blocklist.OrderBlock, "alice"), order(blocklist.OrderPardon, "per-ip/a"), order(blocklist.OrderPause, "*")} {
		got = append(got, e.line(unquoted))
	}
	want := []string{
		"203.0.113.0/24 blocked until 2026-11-18 11:16:40 UTC: more than 1 blocked address within an hour; 2 blocked addresses: 203.0.113.1, 203.0.113.2",
		"203.0.113.0/24 no longer blocked: too many of its addresses were unblocked",
		"a blocked until 2026-11-18 11:16:40 UTC: 11 requests broke 10/min",
		"a would be blocked until 2026-11-18 11:16:40 UTC: 11 requests broke 10/min",
		"alice blocked until 2026-11-18 11:16:40 UTC by bob, because: a reason",
		"per-ip/a let in by bob, because: a reason",
		"all rules paused until 2026-11-18 11:16:40 UTC by bob, because: a reason",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A round that is made again leads to the same messages.
func TestRoundsAreRepeatable(t *testing.T) {
	var kept []*Event
	for _, key := range hostile {
		kept = append(kept, event(key))
	}
	for _, target := range []Target{&Webhook{}, &Chat{}, &PagerDuty{}, &Alertmanager{}, &Mail{}} {
		r := to("ops", target)
		ids := func() (ids []string) {
			for _, m := range r.messages(&round{kept: kept, room: 4, more: Counts{{Rule: "per-ip", Event: "blocked"}: 3}}) {
				ids = append(ids, m.ID)
			}
			return ids
		}
		first := ids()
		if again := ids(); !slices.Equal(first, again) || len(first) == 0 {
			t.Errorf("%s: %q, then %q", target.Kind(), first, again)
		}
	}
	b := &begun{End: 9, Room: 1}
	for i := range 2 * maxSent {
		b.done(&Message{ID: digest(string(rune(i)))})
	}
	text := b.metadata(1_795_000_000_000)
	again, resolved := readBegun(text, 5)
	if len(text) > 4096 || !again.has(&Message{ID: digest(string(rune(2*maxSent - 1)))}) || resolved != 1_795_000_000_000 {
		t.Errorf("%d bytes: %.100s", len(text), text)
	}
	if over, resolved := readBegun(text, 9); over != nil || resolved == 0 {
		t.Errorf("%+v", over)
	}
	if none, resolved := readBegun("x", 0); none != nil || resolved != 0 || (*begun)(nil).metadata(0) != "" {
		t.Errorf("%+v", none)
	}
}

func TestWhoGetsWhat(t *testing.T) {
	order := event("alice")
	order.Source, order.Order, order.Rule, order.Event = blocklist.Manual, blocklist.OrderAllow, blocklist.ManualRule, blocklist.EventLifted
	shadow := event("a")
	shadow.Mode = blocklist.Shadow
	guarded := event("a")
	guarded.Mode, guarded.Guarded = blocklist.Shadow, true
	all := to("all", &Chat{})
	blocks, rules, kinds, enforced := all, all, all, all
	blocks.Events = []string{blocklist.EventBlocked, blocklist.EventLifted}
	rules.Rules = []string{"login", "api-*"}
	kinds.Orders = []blocklist.Kind{blocklist.OrderPause}
	enforced.Modes = []blocklist.Mode{blocklist.Enforce}
	for _, test := range []struct {
		r    Receiver
		e    *Event
		want bool
	}{
		{all, event("a"), true}, {all, order, true}, {all, shadow, true},
		{blocks, event("a"), true}, {blocks, order, false},
		{rules, event("a"), false}, {rules, order, true},
		{kinds, event("a"), true}, {kinds, order, false},
		{enforced, shadow, false}, {enforced, guarded, true}, {rules, guarded, false}, {enforced, event("a"), true},
	} {
		if got := test.r.wants(test.e); got != test.want {
			t.Errorf("%v %v %v: %s of %s: %v", test.r.Events, test.r.Rules, test.r.Orders, test.e.Event, test.e.Rule, got)
		}
	}
}

// A title does not call a block in shadow mode one that refuses.
func TestBlocksInShadowModeAreCounted(t *testing.T) {
	inShadow := event("b")
	inShadow.Mode = blocklist.Shadow
	m := &Message{Counts: Counts{}}
	m.Counts.add(event("a").counted(), 2)
	m.Counts.add(inShadow.counted(), 1)
	if got := m.Title(); got != "per-ip: 2 blocked, 1 blocked (shadow: not refused)" {
		t.Errorf("the title is %s", got)
	}
	if got := string(webhookBody(m)); !strings.Contains(got, `{"rule":"per-ip","event":"blocked","shadow":true,"count":1}`) || !strings.Contains(got, `{"rule":"per-ip","event":"blocked","count":2}`) {
		t.Errorf("the webhook has %s", got)
	}
	inShadow.Event = blocklist.EventEnded
	if inShadow.counted().Shadow {
		t.Error("the end of an entry counts as one that refuses no one")
	}
}

// Blocks that a guard holds back are counted for themselves, so no one reads that they are refused.
func TestGuardedBlocksAreCounted(t *testing.T) {
	guarded := event("b")
	guarded.Mode, guarded.Guarded = blocklist.Shadow, true
	lifted := *guarded
	lifted.Event = blocklist.EventLifted
	r := to("ops", &Chat{})
	m := r.messages(&round{kept: []*Event{event("a"), guarded, &lifted}, room: 1})[0]
	if got := m.Title(); got != "per-ip: 1 blocked, 1 blocked (guarded by most_new: not refused), 1 lifted" {
		t.Error(got)
	}
	if got := strings.Join(m.lines(9, unquoted), "\n"); !strings.Contains(got, "b would be blocked ") || strings.Count(got, "refused only while a person has confirmed the rule") != 1 {
		t.Error(got)
	}
	if got := string(webhookBody(m)); !strings.Contains(got, `{"rule":"per-ip","event":"blocked","guarded":true,"guarded_by":"most_new","count":1}`) || !strings.Contains(got, `{"rule":"per-ip","event":"blocked","count":1}`) {
		t.Error(got)
	}
	more := Counts{}
	guarded.ByShare = true
	more.add(guarded.counted(), 7)
	sum := r.messages(&round{more: more, room: 1})[0]
	if got := sum.Title() + strings.Join(sum.lines(9, unquoted), "\n"); !strings.Contains(got, "per-ip: 7 blocked (guarded by most_share: not refused)") {
		t.Error(got)
	}
}

// The text of a receiver's answer is shown to people: nothing of it is invisible, or changes what is around it.
func TestAnswersAreShownAsText(t *testing.T) {
	for _, test := range []struct{ answer, begins string }{
		{"HTTP/1.1 500 no\x1b[31m\u202e\r\nContent-Length: 9\r\n\r\nx\u202ey\x1bz\r\n", "it answered 500 no\ufffd[31m\ufffd x\ufffdy\ufffdz"},
		{"HTTP/1.1 302 no\r\nLocation: http://%zz/" + strings.Repeat("x", 50<<10) + "\r\nContent-Length: 0\r\n\r\n", "asking 127.0.0.1:"},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_, _ = conn.Read(make([]byte, 4096))
				fmt.Fprint(conn, test.answer)
				conn.Close()
			}
		}()
		_, err = hook("http://"+listener.Addr().String()).Send(t.Context(), messageOf(event("a")))
		if err == nil || !strings.HasPrefix(err.Error(), test.begins) || len(err.Error()) > 2*maxAnswer {
			t.Errorf("%.100q…, want %q", err, test.begins)
		}
	}
}
