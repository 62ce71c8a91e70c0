package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
)

// settingsOf returns a configuration with one rule and the given settings.
func settingsOf(t *testing.T, text string) *config.Config {
	t.Helper()
	text += "\nrules: [{name: per-ip, key: ip, limits: [10/min]}]\n"
	settings, _, err := config.Read([]byte(text), config.Options{File: filepath.Join(t.TempDir(), "weir.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// A fakePart answers /status as a collector does.
type fakePart struct {
	*httptest.Server
	says atomic.Pointer[string]
}

func newFakePart(t *testing.T, says string) *fakePart {
	p := &fakePart{}
	p.says.Store(&says)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if text := *p.says.Load(); text != "" {
			io.WriteString(w, text)
			return
		}
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *fakePart) address() string { return strings.TrimPrefix(p.URL, "http://") }

const behind = `{"rules": "f00d", "caught_up": false, "sources": [{"source": "file-1", "kind": "file", "error": "no permission",
	"logs": [{"log": "/var/log/access.log", "position": 10, "lag": 1, "newest": "2026-03-03T08:00:00Z", "holding": true}]}]}`

// All have caught up when the groups have, and the parts that can be reached; then waiting ends.
func lookedAt(t *testing.T, settings *config.Config) *watched {
	t.Helper()
	w := &watched{settings: settings, places: placesOf(t, settings), stderr: io.Discard}
	t.Cleanup(w.close)
	return w
}

func placesOf(t *testing.T, settings *config.Config) []partPlace {
	t.Helper()
	places, err := (&partFlags{}).places(settings)
	if err != nil {
		t.Fatal(err)
	}
	return places
}

func TestStatusShowsItsKey(t *testing.T) {
	part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"rules": "abc", "caught_up": true}`)
	}))
	defer part.Close()
	settings := settingsOf(t, "collector: {listen: "+part.Listener.Addr().String()+"}\naggregator: {listen: ''}\nenforcer: {admin: ''}")
	for key, reached := range map[string]string{"secret": "", "": "401"} {
		parts := askParts(t.Context(), placesOf(t, settings), key)
		if len(parts) != 1 || !strings.Contains(parts[0].Error, reached) || (parts[0].Error == "") != (reached == "") {
			t.Errorf("with the key %q: %+v", key, parts)
		}
	}
}

func TestStatusWaitsForGroupsAndParts(t *testing.T) {
	folder := liveFolder(t)
	b, err := startBroker(filepath.Join(folder, "broker"), filepath.Join(folder, "broker", "kafka.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := fillSamples(b.Client); err != nil {
		t.Fatal(err)
	}
	part := newFakePart(t, behind)
	settings := settingsOf(t, fmt.Sprintf("data: %s\ncollector: {listen: %q}\naggregator: {listen: \"\"}\nenforcer: {admin: \"\"}", folder, part.address()))
	ctx := within(t, 2*time.Minute)
	shows(t, ctx, settings, []string{"Not caught up: 4 records wait for weir.aggregator; the collector has not read or sent everything.",
		"weir.aggregator 0 2 4 records", "weir.hits/0 none of 3 3 records", "weir.hits/1 none of 1 1 record ",
		"f00d (here " + settings.RuleSet.Fingerprint() + ") behind",
		"file-1 /var/log/access.log lag 1 byte, read up to 2026-03-03T08:00:00Z, waits for slower logs", "file-1 no permission"})

	commit(t, b.Client, "weir.aggregator", "weir.hits", 2, map[int]int64{0: 2, 1: 1})
	shows(t, ctx, settings, []string{"1 record waits for weir.aggregator;", "weir.hits/0 2 of 3 1 record "})
	commit(t, b.Client, "weir.aggregator", "weir.hits", 2, map[int]int64{0: 3})
	shows(t, ctx, settings, []string{"Not caught up: the collector has not read or sent everything.", "weir.aggregator 0 2 0 records -"})
	starting := ""
	part.says.Store(&starting)
	shows(t, ctx, settings, []string{"All have caught up.", "it answers 503 Service Unavailable: starting"})

	part.says.Store(new(behind))
	done := make(chan *status)
	go func() {
		report, err := lookedAt(t, settings).until(ctx, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- report
	}()
	part.says.Store(new(`{"caught_up": true}`))
	if report := <-done; !report.CaughtUp || report.outcome(time.Second, "1s") != nil {
		t.Errorf("%+v", report)
	}
}

// Each part's state is in the table, a difference has a line of its own, and a part in order has a short row.
func TestStatusShowsEachPart(t *testing.T) {
	s := status{CaughtUp: true, Rules: "f00d", Groups: []groupStatus{}, Parts: []partStatus{
		{Part: "aggregator", Address: "a:1", Reached: true, Rules: "f00d", Status: []byte(`{"partitions": [
			{"partition": 0, "lag": 0, "reached": "2026-03-03T08:00:00Z", "hot": 3, "dirty": 1, "waiting": 0, "unsent": 0},
			{"partition": 1, "lag": 7, "reached": "2026-03-03T09:00:00Z", "hot": 4, "dirty": 1, "waiting": 5, "unsent": 1, "error": "written by a newer version"},
			{"partition": 2, "lag": 0, "lag_unknown_since": "2026-03-03T09:00:01Z"}]}`)},
		{Part: "enforcer", Address: "e:1", Reached: true, Rules: "beef", Status: []byte(`{"whole": true, "version": "l-1.7", "age": "2s", "follows": "kafka",
			"followers": 1, "paused": ["*"], "waiting": 2, "trouble": "partition 1 has not marked", "unread": 0}`)},
		{Part: "collector", Address: "c:1", Reached: true, Status: fmt.Appendf(nil, `{"sources": [
			{"source": "now", "kind": "file", "logs": [], "ahead": {"requests": 2, "last": %q}},
			{"source": "then", "kind": "file", "logs": [], "ahead": {"requests": 3, "last": %q}}]}`,
			time.Now().Add(-9*time.Minute).Format(time.RFC3339), time.Now().Add(-11*time.Minute).Format(time.RFC3339))},
		{Part: "enforcer", Address: "e:2", Reached: true, Status: []byte(`{"whole": false, "version": "", "follows": "kafka"}`)},
	}}
	s.RulesDiffer = s.differ()
	var text strings.Builder
	if err := s.writeText(&text); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"All have caught up. Rules differ: aggregator f00d, enforcer beef, the configuration here f00d.",
		"3 partitions counted up to 2026-03-03T09:00:00Z, 7 keys in memory, 2 keys not written yet, 5 hits waiting for the store, 1 verdict waiting for Kafka",
		"partition 1 lag 7 records, written by a newer version", "partition 2 lag unknown since 2026-03-03T09:00:01Z, before that 0 records", "enforcer e:1 beef (here f00d)",
		"list l-1.7 complete, 2s old, follows kafka, 1 follower, 2 manual entries waiting for Kafka", "paused all rules", "trouble partition 1 has not marked",
		"list no complete list, follows kafka", "now 2 requests ahead of the clock since the start, not counted:",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(words, "partition 0") || strings.Contains(words, "3 requests") || s.Parts[0].Rules == "" {
		t.Errorf("what is in order is told\n%s", text.String())
	}
	s.Parts[1].Rules = "f00d"
	if s.differ() {
		t.Error("the same rules differ")
	}
}

// shows looks once and requires these pieces in the text for people; a run of spaces counts as one.
func shows(t *testing.T, ctx context.Context, settings *config.Config, want []string) {
	t.Helper()
	report, err := lookedAt(t, settings).until(ctx, 0)
	var text strings.Builder
	if err != nil || report.writeText(&text) != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, piece := range want {
		if !strings.Contains(words+" ", piece) {
			t.Errorf("no %q in\n%s", piece, text.String())
		}
	}
}

func within(t *testing.T, patience time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// commit commits offsets as a member of the group, and leaves the group.
func commit(t *testing.T, client *kafka.Client, group, topic string, partitions int, offsets map[int]int64) {
	t.Helper()
	ctx, leave := context.WithCancel(within(t, 2*time.Minute))
	defer leave()
	left := atomic.Int64{}
	left.Store(int64(partitions))
	err := client.RunGroup(ctx, kafka.Group{Name: group, Topics: map[string]int{topic: partitions}}, func(ctx context.Context, claim *kafka.Claim) error {
		if offset, ok := offsets[claim.Partition]; ok {
			if err := claim.Commit(ctx, kafka.Commit{Offset: offset}); err != nil {
				return err
			}
		}
		if left.Add(-1) == 0 {
			leave()
		}
		<-ctx.Done()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The tool's commands show the same of a real Kafka as of the embedded broker.
func TestOnKafka(t *testing.T) {
	brokers := kafkatest.Shared(t).Addresses()
	prefix := fmt.Sprintf("t%d.", time.Now().UnixNano())
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	ctx := within(t, 2*time.Minute)
	hits, err := makeLog(ctx, client, prefix+"hits", 2)
	if err == nil {
		err = hits.put(ctx, kafka.Message{Value: sampleBatch(0)}, kafka.Message{Partition: 1, Value: sampleBatch(1000)})
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--set", "kafka.prefix=" + prefix, "--set", "rules=[{name: r, key: ip, limits: [1/s]}]",
		"--set", "kafka.brokers=[" + strings.Join(brokers, ",") + "]", "--set", "collector.listen=127.0.0.1:1", "--set", "aggregator.listen=127.0.0.1:1", "--set", "enforcer.admin=127.0.0.1:1"}
	runs(t, exit.Done, `{"partition":0,"offset":0,"source":"access.log/5f0c","from":0`, append([]string{"cat", "hits", "--json"}, flags...)...)
	runs(t, exit.NotMet, `"committed":-1,"end":1,"lag":1`, append([]string{"status", "--json", "--wait", "1s"}, flags...)...)
	commit(t, client, prefix+"aggregator", prefix+"hits", 2, map[int]int64{0: 1, 1: 1})
	runs(t, exit.NotMet, `"nothing_runs":true`, append([]string{"status", "--json"}, flags...)...) // the consumer has left
	part := newFakePart(t, `{"caught_up": true}`)
	flags = append(flags, "--aggregator", part.URL)
	runs(t, exit.Done, `{"caught_up":true`, append([]string{"status", "--json", "--wait", "2m"}, flags...)...)
}

// runs runs the tool, command first, and requires an exit code and a piece of the output.
func runs(t *testing.T, code int, piece string, args ...string) {
	t.Helper()
	var stdout, stderr lockedBuffer
	if got := run(append([]string{"weir"}, args...), strings.NewReader(""), &stdout, &stderr); got != code || !strings.Contains(stdout.String(), piece) {
		t.Errorf("exit code %d, want %d; stdout %s\nwant %s\nstderr %s", got, code, stdout.String(), piece, stderr.String())
	}
}

// When Kafka cannot be asked the table says why, as JSON does.
func TestStatusSaysWhyKafkaCouldNotBeAsked(t *testing.T) {
	var text strings.Builder
	s := status{Faults: []string{"broker 127.0.0.1:1 cannot be reached: connection refused"}}
	if err := s.writeText(&text); err != nil || !strings.Contains(text.String(), "Kafka could not be asked: broker 127.0.0.1:1 cannot be reached") {
		t.Errorf("%s %v", text.String(), err)
	}
}

// A line that a part answers with is shown in the table, where a line break in it would split the row.
func TestAPartsAnswerIsOneLine(t *testing.T) {
	part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	defer part.Close()
	_, err := ask.Status(t.Context(), part.URL, "")
	if want := "it answers 503 Service Unavailable: starting"; err == nil || err.Error() != want {
		t.Errorf("%q; want %q", err, want)
	}
}

// While Kafka hangs, --wait ends a few seconds late at most; without it, one look has the full statusPatience.
func TestHowLongALookAtKafkaMayTake(t *testing.T) {
	for _, test := range []struct{ wait, left, want time.Duration }{
		{0, 0, statusPatience},
		{time.Minute, time.Minute, statusPatience},
		{time.Minute, 10 * time.Second, 10 * time.Second},
		{time.Minute, time.Second, leastPatience},
		{time.Minute, -time.Second, leastPatience},
		{time.Second, time.Second, leastPatience},
	} {
		if got := patience(test.wait, test.left); got != test.want {
			t.Errorf("--wait %s with %s left: %s, want %s", test.wait, test.left, got, test.want)
		}
	}
}
