package enforcer

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/test/wait"
)

// readLines reads a list of JSON lines to its end.
func readLines(t testing.TB, from io.Reader) (blocklist.Header, []*blocklist.Entry) {
	t.Helper()
	r, err := blocklist.NewJSONReader(from)
	if err != nil {
		t.Fatal(err)
	}
	var entries []*blocklist.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header, entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
}

func keysOf(entries []*blocklist.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Key)
	}
	return strings.Join(all, " ")
}

func TestTheListAsJSON(t *testing.T) {
	shadow := ofIP("203.0.113.9")
	shadow.Mode = blocklist.Shadow
	set := list(t, ofIP("203.0.113.7"), shadow, verdict("tenant", "acme", nil))
	r := start(t, set, nil)
	got := r.get("/v1/blocklist")
	header, entries := readLines(t, strings.NewReader(got.body))
	if !header.Snapshot || len(entries) != 3 || header.Version != set.Version() || got.Header.Get("Weir-Version") != set.Version().String() || got.Header.Get("Weir-As-Of") == "" {
		t.Errorf("%+v %d %v", header, len(entries), got.Header)
	}
	if _, entries = readLines(t, strings.NewReader(r.get("/v1/blocklist?rule=tenant").body)); keysOf(entries) != "acme" {
		t.Errorf("of a rule: %s", keysOf(entries))
	}
	if head := r.ask(r.client, "HEAD", "/v1/blocklist", ""); head.status != 200 || head.Header.Get("ETag") != got.Header.Get("ETag") {
		t.Errorf("HEAD: %d %v", head.status, head.Header)
	}
	tag := got.Header.Get("ETag")
	if again := r.get("/v1/blocklist", "If-None-Match", tag); again.status != 304 || again.body != "" {
		t.Errorf("%d %s", again.status, again.body)
	}
	if other := r.get("/v1/blocklist?rule=tenant", "If-None-Match", tag); other.status != 200 {
		t.Errorf("another list has the same tag: %d", other.status)
	}
	if err := set.Apply(time.Now().UnixMilli(), changeOf(t, 10, ofIP("203.0.113.8"))); err != nil {
		t.Fatal(err)
	}
	if again := r.get("/v1/blocklist", "If-None-Match", tag); again.status != 200 {
		t.Errorf("the list changed and its tag did not: %d", again.status)
	}
}

func TestTheListCompressed(t *testing.T) {
	r := start(t, list(t, ofIP("203.0.113.7")), nil)
	got := r.get("/v1/blocklist", "Accept-Encoding", "gzip") // an explicit header, so the client does not decompress the answer
	if got.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v", got.Header)
	}
	zip, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	if _, entries := readLines(t, zip); keysOf(entries) != "203.0.113.7" {
		t.Error(keysOf(entries))
	}
}

// A follower gets a snapshot, then the changes, and also the orders that wait for Kafka.
func TestFollowing(t *testing.T) {
	set := list(t, ofIP("203.0.113.7"))
	r := keyed(t, set)
	follower := blocklist.NewSet(blocklist.Limits{})
	local := ""
	pull := func(wait string) answer {
		got := r.get(fmt.Sprintf("/v1/blocklist?after=%s&local=%s&wait=%s", follower.Version(), local, wait), "Accept", blocklist.ContentBinary, "X-Api-Key", "read")
		local = got.Header.Get("Weir-Local")
		if got.status == 200 {
			if _, err := follower.Read(strings.NewReader(got.body), time.Now().UnixMilli()); err != nil {
				t.Fatal(err)
			}
		}
		return got
	}
	if pull("1s"); follower.Version() != set.Version() || !follower.Whole() {
		t.Fatalf("%+v", follower.State())
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { pull("30s") })
	wait.Until(t, "followed", func() bool { return r.Status().Followers == 1 })
	if n := testutil.ToFloat64(r.Enforcer.metrics.followers); n != 1 {
		t.Errorf("%v followers", n)
	}
	if err := set.Apply(time.Now().UnixMilli(), changeOf(t, 10, ofIP("203.0.113.8"))); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if follower.Version() != set.Version() || len(slices.Collect(follower.Find("203.0.113.8", time.Now().UnixMilli()))) != 1 {
		t.Errorf("%+v", follower.State())
	}
	r.blocklist.set(true)
	waiting.Go(func() { pull("30s") })
	wait.Until(t, "followed", func() bool { return r.Status().Followers == 1 })
	r.order("POST", "/v1/blocks", `{"target":"198.51.100.1","why":"w"}`)
	waiting.Wait()
	if len(slices.Collect(follower.Find("198.51.100.1", time.Now().UnixMilli()))) != 1 {
		t.Error("an order that waits for Kafka has not reached who follows")
	}
	if got := pull("10ms"); got.status != 200 {
		t.Errorf("%d when nothing happened", got.status)
	}
	ahead := set.Version()
	ahead.Offset += 1000
	if got := r.get("/v1/blocklist?after="+ahead.String(), "X-Api-Key", "read"); got.status != http.StatusTooEarly || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d", got.status)
	}
}

func TestTheWorstComeFirst(t *testing.T) {
	worse, worst := ofIP("203.0.113.2"), ofIP("203.0.113.3")
	worse.Count, worst.Level = 500, 3
	set := list(t, ofIP("203.0.113.1"), worse, worst, ofIP("203.0.113.4"))
	r := keyed(t, set)
	r.order("POST", "/v1/blocks", `{"target":"198.51.100.0/24","why":"w"}`)
	got := r.get("/v1/blocklist?top=3", "X-Api-Key", "read")
	_, entries := readLines(t, strings.NewReader(got.body))
	if keysOf(entries) != "198.51.100.0/24 203.0.113.3 203.0.113.2" || got.Header.Get("Weir-Cut") != "2" {
		t.Errorf("%s, cut %s", keysOf(entries), got.Header.Get("Weir-Cut"))
	}
	if got := r.get("/v1/blocklist?top=9", "X-Api-Key", "read"); got.Header.Get("Weir-Cut") != "0" {
		t.Errorf("cut %s", got.Header.Get("Weir-Cut"))
	}
}

func TestWrongListRequests(t *testing.T) {
	r := keyed(t, list(t))
	for path, want := range map[string]int{
		"?after=nonsense": 400, "?top=0": 400, "?top=x": 400, "?top=1&after=": 400, "?wait=soon": 400, "?nonsense=1": 400,
		"?rule=": 400, "?rule=%zz": 400, "?top=5;rule=x": 400, "?rule=a&rule=b": 400,
	} {
		if got := r.get("/v1/blocklist"+path, "X-Api-Key", "read"); got.status != want {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := r.get("/v1/blocklist?top=1", "X-Api-Key", "read", "Accept", blocklist.ContentBinary); got.status != 400 {
		t.Errorf("%d", got.status)
	}
	for key, want := range map[string]int{"": 401, "send": 403} {
		if got := r.get("/v1/blocklist", "X-Api-Key", key); got.status != want {
			t.Errorf("with %q: %d", key, got.status)
		}
	}
	bare := start(t, blocklist.NewSet(blocklist.Limits{}), nil)
	if got := bare.get("/v1/blocklist"); got.status != 503 || got.Header.Get("Retry-After") == "" || got.Header.Get("ETag") != "" {
		t.Errorf("%d %v", got.status, got.Header)
	}
}

// A brokenPipe is a client that reads a little and goes.
type brokenPipe struct {
	http.ResponseWriter
	left int
}

func (b *brokenPipe) Header() http.Header { return http.Header{} }
func (b *brokenPipe) WriteHeader(int)     {}
func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// A list that cannot be written to its end is cut off, so that no reader accepts it as complete.
func TestAListIsCompleteOrCutOff(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 3000 {
		entries = append(entries, ofIP(fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	r := start(t, list(t, entries...), nil)
	request, _ := http.NewRequest(http.MethodGet, "http://localhost/v1/blocklist", nil)
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the connection goes on")
		}
	}()
	r.ServeHTTP(&brokenPipe{left: 100_000}, request)
}

// watch reads events until wanted reports that it has enough.
func (r *running) watch(path string, headers ...string) (next func() (event, data string), leave func()) {
	r.t.Helper()
	q, _ := http.NewRequest(http.MethodGet, "http://"+r.Address()+path, nil)
	q.Header.Set("Accept", eventStream)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	next = func() (event, data string) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				event = value
			case "data":
				data = value
			case "":
				if event != "" {
					return event, data
				}
			}
		}
		return "", ""
	}
	return next, func() { response.Body.Close() }
}

func TestWatching(t *testing.T) {
	set := list(t, ofIP("203.0.113.7"))
	first := set.Version()
	r := keyed(t, set)
	next, leave := r.watch("/v1/blocklist", "X-Api-Key", "read")
	defer leave()
	wait.Until(t, "watched", func() bool { return r.Status().Followers == 1 })
	if err := set.Apply(time.Now().UnixMilli(), changeOf(t, 10, ofIP("203.0.113.8"))); err != nil {
		t.Fatal(err)
	}
	if event, data := next(); event != "entry" || !strings.Contains(data, `"key":"203.0.113.8"`) {
		t.Errorf("%s %s", event, data)
	}
	r.blocklist.set(true)
	r.order("POST", "/v1/blocks", `{"target":"198.51.100.1","why":"w"}`)
	if event, data := next(); event != "entry" || !strings.Contains(data, `"key":"198.51.100.1"`) {
		t.Errorf("%s %s", event, data)
	}
	r.blocklist.set(false)
	sent := r.blocklist.messages()[0]
	if err := set.Apply(time.Now().UnixMilli(), blocklist.Change{Offset: 11, Key: sent.Key, Value: sent.Value}, changeOf(t, 12, ofIP("203.0.113.9"))); err != nil {
		t.Fatal(err)
	}
	if event, data := next(); event != "entry" || !strings.Contains(data, `"key":"203.0.113.9"`) {
		t.Errorf("an order is told twice, or not at all what follows it: %s %s", event, data)
	}
	again, leaveAgain := r.watch("/v1/blocklist?rule=per-ip", "X-Api-Key", "read", "Last-Event-ID", first.String())
	defer leaveAgain()
	for _, key := range []string{"203.0.113.8", "203.0.113.9"} {
		if event, data := again(); event != "entry" || !strings.Contains(data, key) {
			t.Errorf("%s %s, want %s", event, data, key)
		}
	}
	first.List.Epoch = 77
	reset, leaveReset := r.watch("/v1/blocklist?after="+first.String(), "X-Api-Key", "read")
	defer leaveReset()
	var seen []string
	for event, _ := reset(); event != ""; event, _ = reset() {
		if seen = append(seen, event); event == "whole" {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "reset entry entry entry entry whole" {
		t.Error(got)
	}
	leave()
	leaveAgain()
	leaveReset()
	wait.Until(t, "left", func() bool { return r.Status().Followers == 0 })
}

// A client whose key is removed gets no more events, even on an existing connection.
func TestConnectionsOfARemovedKeyEnd(t *testing.T) {
	set := list(t, ofIP("203.0.113.7"))
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("keys: [{name: temp, role: read, sha256: %x}]", sha256.Sum256([]byte("temp"))))
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, set, func(c *Config) { c.Keys = file })
	next, leave := r.watch("/v1/blocklist", "X-Api-Key", "temp")
	defer leave()
	polled := make(chan answer)
	go func() {
		polled <- r.get("/v1/blocklist?wait=1m&after="+set.Version().String(), "X-Api-Key", "temp")
	}()
	wait.Until(t, "followed", func() bool { return r.Status().Followers == 2 })
	write("keys: []")
	if _, err := file.Reread(); err != nil {
		t.Fatal(err)
	}
	if err := set.Apply(time.Now().UnixMilli(), changeOf(t, 10, ofIP("203.0.113.8"))); err != nil {
		t.Fatal(err)
	}
	if event, data := next(); event != "" {
		t.Errorf("%s %s", event, data)
	}
	if got := <-polled; got.status != 401 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestFollowersAreReleasedAtTheEnd(t *testing.T) {
	r := start(t, list(t), nil)
	next, leave := r.watch("/v1/blocklist")
	defer leave()
	wait.Until(t, "watched", func() bool { return r.Status().Followers == 1 })
	began := time.Now()
	r.stop()
	if event, _ := next(); event != "" || time.Since(began) >= drainPatience { // it was cut off
		t.Errorf("%s, after %s", event, time.Since(began))
	}
}

func TestDelayIsMeasured(t *testing.T) {
	set := list(t)
	r := start(t, set, nil)
	old := ofIP("203.0.113.9")
	old.Decided -= time.Hour.Milliseconds()
	if err := set.Apply(time.Now().UnixMilli(), changeOf(t, 10, ofIP("203.0.113.8")), changeOf(t, 11, old)); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "measured", func() bool {
		all, err := r.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range all {
			if family.GetName() == "weir_enforcer_enforce_delay_seconds" {
				return family.GetMetric()[0].GetHistogram().GetSampleCount() == 1
			}
		}
		return false
	})
	if problems, err := testutil.GatherAndLint(r.metrics); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// Equal requests get the same stored answer, and a new one as soon as anything has changed.
func TestADeltaIsKeptWhileNothingChanges(t *testing.T) {
	set := list(t, ofIP("203.0.113.7"))
	after, now := set.Version(), time.Now().UnixMilli()
	var d delta
	seen := map[string]bool{}
	answered := func() string {
		answer, err := d.of(set, after, now, manyChanges)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(answer)] = true
		return string(answer)
	}
	if answered() != answered() || len(seen) != 1 {
		t.Error("it changes by itself")
	}
	if err := set.Order(&blocklist.Order{ID: "1", Kind: blocklist.OrderBlock, Scope: "ip", Value: "198.51.100.1", From: 1, Until: blocklist.Never, By: "b", Why: "w"}, now); err != nil {
		t.Fatal(err)
	}
	answered()
	if err := set.Apply(now, changeOf(t, 10, ofIP("203.0.113.8"))); err != nil {
		t.Fatal(err)
	}
	answered()
	if len(seen) != 3 {
		t.Errorf("%d answers to three lists", len(seen))
	}
}

// After the clock went back the list is as old as nothing, and not younger.
func TestTheAgeOfAListIsNeverNegative(t *testing.T) {
	set := blocklist.NewSet(blocklist.Limits{})
	r := open(t, set, nil)
	now := time.Now().UnixMilli()
	set.Fill().Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "a"}}, Whole: true, AsOf: now + 3600_000}, now)
	if s := r.Status(); s.Age != "0s" {
		t.Errorf("its age is %s", s.Age)
	}
}

// A list that cannot be saved is in the status.
func TestTheStatusOfAListThatIsNotSaved(t *testing.T) {
	why := "read-only file system"
	r := open(t, list(t), func(c *Config) { c.Unsaved = func() string { return why } })
	if got := r.Status().Trouble; !strings.HasSuffix(got, "an older one: "+why) {
		t.Errorf("the status says %q", got)
	}
	why = ""
	if got := r.Status().Trouble; got != "" {
		t.Errorf("the status says %q", got)
	}
}
