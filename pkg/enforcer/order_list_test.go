package enforcer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
)

func (r *running) orderList(method, path string, body map[string]any) (int, listed, string) {
	r.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	got := r.ask(r.overSocket(), method, path, string(text))
	var said listed
	if got.status == http.StatusOK {
		got.read(r.t, &said)
	}
	return got.status, said, got.body
}

// A list of targets is previewed, ordered once however often it is sent, and ended.
func TestAListOfTargets(t *testing.T) {
	r := start(t, list(t, ofIP("198.51.100.7"), ofIP("203.0.113.9"), shadowed("198.51.100.8"), verdict("tenant", "acme", map[string]string{"tenant": "acme"})), nil)
	r.checks("198.51.100.7")
	targets := []string{"198.51.100.0/24", "2001:db8::/32", "tenant:acme", "2001:db8::/32"}
	of := func(more map[string]any) map[string]any {
		body := map[string]any{"targets": targets, "why": "ours"}
		for name, value := range more {
			body[name] = value
		}
		return body
	}

	_, preview, _ := r.orderList("POST", "/v1/allows", of(map[string]any{"preview": true}))
	slices.Sort(preview.Keys)
	if preview.Targets != 3 || preview.Ordered != 3 || preview.Entries != 2 || preview.Refused != 1 || fmt.Sprint(preview.Keys) != "[198.51.100.7 acme]" || preview.InForce != nil || len(r.events.messages()) != 0 {
		t.Errorf("preview: %+v, %d events", preview, len(r.events.messages()))
	}
	if got := r.checks("198.51.100.7"); got.status != 429 {
		t.Errorf("after a preview: %d", got.status)
	}

	for i, want := range []listed{{Targets: 3, Ordered: 3}, {Targets: 3, Unchanged: 3}} {
		_, said, _ := r.orderList("POST", "/v1/allows", of(nil))
		if said.Ordered != want.Ordered || said.Unchanged != want.Unchanged || (said.InForce != nil) != (i == 0) || len(r.events.messages()) != 3 {
			t.Errorf("time %d: %+v, %d events", i+1, said, len(r.events.messages()))
		}
	}
	if got := r.checks("198.51.100.7"); got.status != 200 || got.Header.Get(markField) != "allowed" {
		t.Errorf("allowed: %d %v", got.status, got.Header)
	}

	// Another reason or end is another order; one of the other kind replaces it.
	if _, said, _ := r.orderList("POST", "/v1/allows", map[string]any{"targets": targets, "why": "ours", "until": "2100-01-01T00:00:00Z"}); said.Ordered != 3 {
		t.Errorf("with an end: %+v", said)
	}
	if _, said, _ := r.orderList("POST", "/v1/blocks", map[string]any{"targets": targets, "why": "no", "end": true}); said.Ordered != 0 || said.Unchanged != 3 {
		t.Errorf("blocks that there are not: %+v", said)
	}
	for i, want := range []int{3, 0} {
		if _, said, _ := r.orderList("POST", "/v1/allows", of(map[string]any{"end": true})); said.Ordered != want || said.Unchanged != 3-want {
			t.Errorf("end %d: %+v", i+1, said)
		}
	}
	if got := r.checks("198.51.100.7"); got.status != 429 {
		t.Errorf("after the end: %d", got.status)
	}
	for order := range r.config.Set.Orders(r.config.Now().UnixMilli()) {
		t.Errorf("there is still %v", order)
	}
}

// Nothing of a list is ordered when one of its targets is wrong, or wide and not confirmed.
func TestListsThatAreRefused(t *testing.T) {
	r := start(t, list(t), nil)
	many := make([]string, maxTargets+1)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
	}
	for says, body := range map[string]map[string]any{
		"target 2: ":            {"targets": []string{"192.0.2.1", "nobody"}, "why": "x"},
		"target 1: ":            {"targets": []string{"nosuch:x"}, "why": "x"},
		"why is missing":        {"targets": []string{"192.0.2.1"}},
		"leave one of them out": {"targets": []string{"192.0.2.1"}, "target": "192.0.2.1", "why": "x"},
		"are too many":          {"targets": many, "why": "x"},
		"targets is empty":      {"targets": []string{}, "why": "x"},
		"for a list of targets": {"target": "192.0.2.1", "end": true, "why": "x"},
		"end goes without":      {"targets": []string{"192.0.2.1"}, "end": true, "for": "1h", "why": "x"},
		"every address of IPv4": {"targets": []string{"192.0.2.1", "0.0.0.0/0"}, "why": "x"},
		"this machine itself":   {"targets": []string{"127.0.0.1"}, "why": "x", "confirm": false},
		"leave target out":      {"targets": []string{"192.0.2.1"}, "why": "x", "rule": "per-ip", "pause": nil},
	} {
		path := "/v1/blocks"
		if _, ok := body["pause"]; ok {
			delete(body, "pause")
			path = "/v1/pause"
		}
		if status, _, text := r.orderList("POST", path, body); status < 400 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", says, status, text)
		}
	}
	for _, body := range []string{`{"targets":[""],"why":"x"}`, `{"targets":[null],"why":"x"}`, `{"targets":["192.0.2.1",7],"why":"x"}`, `{"targets":"192.0.2.1","why":"x"}`, `{"targets":["user:\ufffd"],"why":"x"}`} {
		if got := r.ask(r.overSocket(), "POST", "/v1/blocks", body); got.status != 400 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if len(r.events.messages()) != 0 {
		t.Errorf("%d events", len(r.events.messages()))
	}
	if _, said, _ := r.orderList("POST", "/v1/blocks", map[string]any{"targets": []string{"192.0.2.1", "0.0.0.0/0"}, "why": "x", "confirm": true}); said.Ordered != 2 || len(said.Affects) == 0 {
		t.Errorf("confirmed: %+v", said)
	}
	if _, said, _ := r.orderList("POST", "/v1/blocks", map[string]any{"targets": many, "why": "x", "preview": true}); said.Ordered != len(many) {
		t.Errorf("a preview of many: %+v", said)
	}
}

// Targets that are narrow alone and wide together are confirmed as one wide target is: halves of it, but not one prefix
// twice.
func TestListsThatAreWideTogether(t *testing.T) {
	r := start(t, list(t), nil)
	for targets, says := range map[string]string{
		"16.0.0.0/8 17.0.0.0/8":                            "33554432 addresses of IPv4 together, more than a /8 has",
		"16.0.0.0/9 16.128.0.0/9 203.0.113.7":              "16777217 addresses of IPv4 together",
		"16.0.0.0/9 16.128.0.0/9 16.1.0.0/16":              "",
		"16.0.0.0/8 16.1.0.0/16":                           "",
		"2a00::/19 2a00:2000::/19 203.0.113.7":             "more addresses of IPv6 together than a /19 has",
		"2a00::/20 2a00:1000::/20 user:alice 16.0.0.0/9":   "",
		"18.0.0.0/9 18.128.0.0/9 17.0.0.0/24 ip:127.0.0.1": "more than a /8 has",
	} {
		body := map[string]any{"targets": strings.Fields(targets), "why": "x", "preview": true}
		_, preview, _ := r.orderList("POST", "/v1/allows", body)
		if got := strings.Join(preview.Affects, "; "); (got != "") != (says != "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q", targets, got)
		}
		if says == "" {
			continue
		}
		delete(body, "preview")
		if status, _, text := r.orderList("POST", "/v1/allows", body); status != http.StatusPreconditionRequired {
			t.Errorf("%s: %d %s", targets, status, text)
		}
	}
}

// A target that names a network by an address within it is the network, and the answer notes it.
func TestTargetsWithHostBits(t *testing.T) {
	r := start(t, list(t), nil)
	const says = "203.0.113.7/24 has bits after its first 24, and is taken as all of 203.0.113.0/24; for one address write 203.0.113.7"
	got := r.ask(r.overSocket(), "POST", "/v1/blocks", `{"target":"ip:203.0.113.7/24","why":"x"}`)
	if got.status != 201 || !strings.Contains(got.body, says) || !strings.Contains(got.body, `"key":"203.0.113.0/24"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for targets, want := range map[string]string{"203.0.113.7/24": says, "203.0.113.7/24 2001:db8::1/32 10.0.0.0/8": says + " (and 1 more like it)", "203.0.113.0/24 203.0.113.7/32 user:a": ""} {
		_, preview, _ := r.orderList("POST", "/v1/allows", map[string]any{"targets": strings.Fields(targets), "why": "x", "preview": true})
		if preview.Note != want {
			t.Errorf("%s: %q", targets, preview.Note)
		}
	}
}

// Entries are within a target by their address or prefix, or by a field.
func TestEntriesWithinTargets(t *testing.T) {
	var orders []*blocklist.Order
	for _, text := range []string{"10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "user:alice"} {
		scope, value, err := blocklist.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		orders = append(orders, &blocklist.Order{Scope: scope, Value: value})
	}
	within := newTargets(orders)
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"ip", "10.1.2.3", true}, {"ip", "10.0.0.0/8", true}, {"ip", "0.0.0.0/0", false}, {"ip", "192.0.2.1", true}, {"ip", "192.0.2.0/24", false},
		{"ip", "2001:db8:1::/64", true}, {"ip", "2001:db9::/64", false}, {"user", "alice", true}, {"user", "bob", false}, {"ip", "alice", false},
	} {
		if got := within.cover(&blocklist.Entry{Fields: map[string]string{c.name: c.value}}); got != c.want {
			t.Errorf("%s %s: %v", c.name, c.value, got)
		}
	}
}
