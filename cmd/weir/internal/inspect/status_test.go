package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/weir/internal/ask"
	"weir/test/running"
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
	folder := running.Folder(t)
	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := running.FillSamples(b.Log); err != nil {
		t.Fatal(err)
	}
	part := running.NewPart(t, behind)
	settings := settingsOf(t, fmt.Sprintf("data: %s\ncollector: {listen: %q}\naggregator: {listen: \"\"}\nenforcer: {admin: \"\"}", folder, part.Address()))
	ctx := running.Within(t, 2*time.Minute)
	shows(t, ctx, settings, []string{"Not caught up: 4 records wait for weir.aggregator; the collector has not read or sent everything.",
		"weir.aggregator 0 2 4 records", "weir.hits/0 none of 3 3 records", "weir.hits/1 none of 1 1 record ",
		"f00d (here " + settings.RuleSet.Fingerprint() + ") behind",
		"file-1 /var/log/access.log lag 1 byte, read up to 2026-03-03T08:00:00Z, waits for slower logs", "file-1 no permission"})

	// A receiver of notifications that is behind holds nothing up.
	running.Commit(t, b.Log, "weir.notify.ops", "weir.hits", 2, map[int]int64{0: 0, 1: 0})
	running.Commit(t, b.Log, "weir.aggregator", "weir.hits", 2, map[int]int64{0: 2, 1: 1})
	shows(t, ctx, settings, []string{"1 record waits for weir.aggregator;", "weir.hits/0 2 of 3 1 record "})
	running.Commit(t, b.Log, "weir.aggregator", "weir.hits", 2, map[int]int64{0: 3})
	shows(t, ctx, settings, []string{"Not caught up: the collector has not read or sent everything.", "weir.aggregator 0 2 0 records -"})
	starting := ""
	part.Says.Store(&starting)
	shows(t, ctx, settings, []string{"Not caught up: the collector starts, and does not report its state yet.", "it answers 503 Service Unavailable: starting"})

	part.Says.Store(new(behind))
	done := make(chan *status)
	go func() {
		report, err := lookedAt(t, settings).until(ctx, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- report
	}()
	part.Says.Store(new(`{"caught_up": true}`))
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
			"followers": 1, "paused": ["*"], "guarded": {"per-ip": 340}, "waiting": 2, "trouble": "partition 1 has not marked", "unread": 0,
			"events": {"ready": true, "behind": 3}}`)},
		{Part: "collector", Address: "c:1", Reached: true, Status: fmt.Appendf(nil, `{"sources": [
			{"source": "now", "kind": "file", "logs": [], "error": "an earlier collector has one", "ahead": {"requests": 2, "last": %q}},
			{"source": "bad", "kind": "file", "logs": [], "error": "a is damaged", "errors": ["a is damaged", "b cannot be read"]},
			{"source": "then", "kind": "file", "logs": [], "ahead": {"requests": 3, "last": %q}}]}`,
			time.Now().Add(-9*time.Minute).Format(time.RFC3339), time.Now().Add(-11*time.Minute).Format(time.RFC3339))},
		{Part: "enforcer", Address: "e:2", Reached: true, Status: []byte(`{"whole": false, "version": "", "follows": "kafka", "events": {"ready": false}}`)},
	}}
	s.RulesDiffer = s.differ()
	var text strings.Builder
	if err := s.writeText(&text); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"Needs attention: the parts have different rules; partition 1: written by a newer version; the aggregator has read nothing of 1 partition since 2026-03-03T09:00:01Z; partition 1 has not marked; paused, so not refused: all rules; guarded, so not refused: per-ip: 340 clients beyond most_new (weir guard); now: an earlier collector has one; bad: a is damaged; bad: b cannot be read; the enforcer has no complete list.",
		"now an earlier collector has one", "bad a is damaged bad b cannot be read",
		"All have caught up. Rules differ: aggregator f00d, enforcer beef, the configuration here f00d.",
		"3 partitions counted up to 2026-03-03T09:00:00Z, 7 keys in memory, 2 keys not written yet, 5 hits waiting for the store, 1 verdict not sent yet",
		"partition 1 lag 7 records, written by a newer version", "partition 2 lag unknown since 2026-03-03T09:00:01Z, before that 0 records", "enforcer e:1 beef (here f00d)",
		"list l-1.7 complete, 2s old, follows kafka, 1 follower, 2 manual entries not sent yet", "paused all rules", "trouble partition 1 has not marked", "history 3 events not in its index yet", "history its index cannot be asked now",
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

// The summary does not hide behind "all" that requests do not count. Those that the rules leave out on purpose are no
// reason for that, unless no request counts at all.
func TestCaughtUpDoesNotMeanThatRequestsCount(t *testing.T) {
	for uncounted, want := range map[string]string{
		`{}`:                            "Healthy: all have caught up.\n",
		`{"match": 200, "allowed": 7}`:  "Healthy: all have caught up.\n",
		`{"match": 200, "format": 3}`:   "Everything is read, but not all requests count: 3 of 310 requests of file-1: 3 not in the format.\n",
		`{"ahead": 310}`:                "Everything is read, but not all requests count: 310 of 310 requests of file-1: 310 ahead of the clock.\n",
		`{"inline": 310}`:               "Healthy: all have caught up.\n",
		`{"inline": 300, "format": 10}`: "Everything is read, but not all requests count: 10 of 310 requests of file-1: 10 not in the format.\n",
		`{"match": 300, "allowed": 10}`: "Everything is read, but not all requests count: 310 of 310 requests of file-1: 300 matched by no rule, 10 allowed by the rules.\n",
	} {
		s := status{CaughtUp: true, Parts: []partStatus{{Part: "collector", Reached: true,
			Status: fmt.Appendf(nil, `{"caught_up": true, "sources": [{"source": "file-1", "kind": "file", "requests": 310, "uncounted": %s}]}`, uncounted)}}}
		var text strings.Builder
		if err := s.writeText(&text); err != nil || !strings.HasPrefix(text.String(), want) {
			t.Errorf("%s: %v\n%s\nwant %s", uncounted, err, text.String(), want)
		}
	}
}

// Files that were read to their end are listed, some by name and the others by their number.
func TestStatusListsReadFiles(t *testing.T) {
	p := partStatus{Part: "collector", Status: []byte(`{"sources": [{"source": "file-1", "kind": "file", "requests": 3, "logs": [],
		"read": {"files": 9, "names": ["/a.1.gz", "/a.2.gz", "/a.3.gz", "/a.4.gz", "/a.5.gz", "/a.6.gz"]}}]}`)}
	rows := p.sourceRows()
	if len(rows) != 6 || rows[0] != "  file-1\t/a.1.gz\t\tread to its end" || rows[5] != "  file-1\t\t\t4 more files read to the end" {
		t.Errorf("%q", rows)
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

// When Kafka cannot be asked the table says why, as JSON does.
func TestStatusSaysWhyKafkaCouldNotBeAsked(t *testing.T) {
	var text strings.Builder
	s := status{Faults: []string{"broker 127.0.0.1:1 cannot be reached: connection refused"}}
	if err := s.writeText(&text); err != nil || !strings.Contains(text.String(), "the topics could not be asked: broker 127.0.0.1:1 cannot be reached") {
		t.Errorf("%s %v", text.String(), err)
	}
}

// A line that a part answers with is shown in the table, where a line break in it would split the row.
func TestAPartsAnswerIsOneLine(t *testing.T) {
	part := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	defer part.Close()
	_, _, err := ask.Status(t.Context(), part.URL, "")
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

// Where no process runs on the topics, a part that answers is another installation's: nothing has caught up.
func TestAPartOfAnotherInstallationHasNotCaughtUp(t *testing.T) {
	folder := running.Folder(t)
	b, err := running.StartTopics(folder, false)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	part := running.NewPart(t, `{"rules": "f00d", "caught_up": true}`)
	settings := settingsOf(t, fmt.Sprintf("data: %s\ncollector: {listen: \"\"}\naggregator: {listen: \"\"}\nenforcer: {admin: %q}", folder, part.Address()))
	report, err := lookedAt(t, settings).until(running.Within(t, time.Minute), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.outcome(0, ""); err == nil || report.CaughtUp || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("%v, %+v", err, report)
	}
}

// While --wait waits, the topics of a folder without a process are not asked. Before they are, nothing has caught up,
// whichever part answers.
func TestTopicsThatAreNotAskedHaveNotCaughtUp(t *testing.T) {
	part := running.NewPart(t, `{"rules": "f00d", "caught_up": true}`)
	settings := settingsOf(t, fmt.Sprintf("data: %s\ncollector: {listen: \"\"}\naggregator: {listen: \"\"}\nenforcer: {admin: %q}", running.Folder(t), part.Address()))
	if report := lookedAt(t, settings).look(running.Within(t, time.Minute), false, time.Second); report.CaughtUp {
		t.Errorf("%+v", report)
	}
}
