package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/pkg/blocklist"
	"weir/pkg/blocklist/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enforcer serves a list with one address and one user.
func enforcer() *httptest.Server {
	set := blocklist.NewSet(blocklist.Limits{})
	filling := set.Fill()
	now := time.Now().UnixMilli()
	for field, key := range map[string]string{"ip": "203.0.113.7", "user": "mallory"} {
		e := &blocklist.Entry{ID: key, Rule: "per-" + field, Key: key, Fields: map[string]string{field: key}, From: now, Until: now + 600_000, Decided: now, By: "weir"}
		value, err := e.Append(nil)
		if err == nil {
			err = filling.Apply(now, blocklist.Change{Key: blocklist.RecordKey(e.Rule, key), Value: value})
		}
		if err != nil {
			panic(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "a"}, Offset: 1}, Whole: true, AsOf: now}, now)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, err := blocklist.ParseVersion(r.URL.Query().Get("after"))
		if err != nil || r.Header.Get("X-Api-Key") != "secret" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		set.Wait(r.Context(), after, "")
		if err := set.WriteAfter(w, after, now); err != nil {
			log.Print(err)
		}
	}))
}

func Example() {
	server := enforcer()
	defer server.Close()
	list, err := client.Open(client.Config{URL: server.URL, Key: "secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer list.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := list.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}

	verdict := list.Check(client.Request{IP: netip.MustParseAddr("203.0.113.7")})
	fmt.Println(verdict.Refused, verdict.Rule)
	fmt.Println(list.Check(client.Request{User: "alice"}).Refused)

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := list.Middleware(hello, client.ByAddress)
	request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	request.RemoteAddr = "203.0.113.7:1234"
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	// Output:
	// true per-ip
	// false
	// 429
}

func TestWithoutAList(t *testing.T) {
	for _, closed := range []bool{false, true} {
		list, err := client.Open(client.Config{URL: "http://127.0.0.1:1", Closed: closed})
		if err != nil {
			t.Fatal(err)
		}
		if got := list.Check(client.Request{User: "alice"}); got.Refused != closed || list.CheckKey("r", "k").Refused != closed {
			t.Errorf("closed %v: %+v", closed, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := list.Ready(ctx); err == nil || list.Status().Whole {
			t.Error("ready without a list")
		}
		cancel()
		list.Close()
	}
}

func TestTheListOutlivesTheEnforcerAndTheProcess(t *testing.T) {
	server := enforcer()
	config := client.Config{URL: server.URL, Key: "secret", File: t.TempDir() + "/list", Closed: true}
	list, err := client.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	list.Close()
	server.Close()
	list, err = client.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if got := list.CheckKey("per-ip", "203.0.113.7"); !got.Refused || got.RetryAfter < time.Second || got.RetryAfter > 10*time.Minute {
		t.Errorf("%+v", got)
	}
	if list.Check(client.Request{User: "alice"}).Refused {
		t.Error("alice is refused")
	}
	deadline := time.Now().Add(time.Minute)
	for list.Status().Trouble == "" && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if s := list.Status(); !s.Whole || s.Version != "a-0.1" || !strings.Contains(s.Trouble, "following") {
		t.Errorf("%+v", s)
	}
}

func TestRetryAfter(t *testing.T) {
	server := enforcer()
	defer server.Close()
	list, err := client.Open(client.Config{URL: server.URL, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if err := list.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	mallory := func(*http.Request) client.Request { return client.Request{User: "mallory"} }
	list.Middleware(http.NotFoundHandler(), mallory).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if after := answer.Header().Get("Retry-After"); answer.Code != 429 || after < "590" || after > "600" {
		t.Errorf("%d, Retry-After %q", answer.Code, after)
	}
}

func TestNoKafkaInIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil || strings.Contains(string(out), "kafka") {
		t.Errorf("%v\n%s", err, out)
	}
}
