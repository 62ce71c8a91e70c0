package kafka

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/topic"
)

// An error is logged at once, then once a minute with its count; each is counted.
func TestErrorsOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	f := newErrorLog(slog.New(slog.NewTextHandler(&log, nil)), registry)
	now := time.Unix(1_000_000, 0)
	f.now = func() time.Time { return now }
	away := topic.Errorf(topic.ErrUnreachable, "away")
	for range 180 { // three minutes
		f.note("fetch", away)
		now = now.Add(time.Second)
	}
	f.note("produce", away)
	f.note("fetch", topic.Errorf(topic.ErrNoTopic, "missing"))
	f.note("fetch", errors.New("of no kind"))
	f.over("fetch", "it can be read", now.Add(-3*time.Minute))
	f.over("fetch", "it can be read", now.Add(-3*time.Minute))
	want := []string{
		`level=WARN msg="Kafka: away" operation=fetch times=1`,
		`level=WARN msg="Kafka: away" operation=fetch times=60`,
		`level=WARN msg="Kafka: away" operation=fetch times=60`,
		`level=WARN msg="Kafka: away" operation=produce times=1`,
		`level=WARN msg="Kafka: missing" operation=fetch times=1`,
		`level=WARN msg="Kafka: of no kind" operation=fetch times=1`,
		`level=INFO msg="Kafka: it can be read again" operation=fetch after=3m0s`,
	}
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("the log is\n%s", log.String())
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("line %d is %s", i, got[i])
		}
	}
	another := newErrorLog(slog.New(slog.DiscardHandler), registry) // of a second client
	another.note("fetch", away)
	expected := `
# HELP weir_kafka_faults_total Failed calls to Kafka, by operation and kind of error.
# TYPE weir_kafka_faults_total counter
weir_kafka_faults_total{cause="no topic",operation="fetch"} 1
weir_kafka_faults_total{cause="other",operation="fetch"} 1
weir_kafka_faults_total{cause="unreachable",operation="fetch"} 181
weir_kafka_faults_total{cause="unreachable",operation="produce"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(expected)); err != nil {
		t.Error(err)
	}
}

// Pauses double from 50 ms to 2 s, less up to a half.
func TestTroublePauses(t *testing.T) {
	var trouble trouble
	now := time.Unix(1_000_000, 0)
	for i, most := range []time.Duration{50, 100, 200, 400, 800, 1600, 2000, 2000} {
		most *= time.Millisecond
		if pause := trouble.another(now.Add(time.Duration(i))); pause < most/2 || pause > most {
			t.Errorf("pause %d is %s", i, pause)
		}
	}
	if !trouble.since.Equal(now) || trouble.times != 8 {
		t.Errorf("%+v", trouble)
	}
}

// Each code has one kind, and an error of one line.
func TestEveryKindIsOneOfOurs(t *testing.T) {
	seen := map[error]bool{}
	for kind, codes := range kinds {
		for _, code := range codes {
			if seen[code] {
				t.Errorf("%v has two kinds", code)
			}
			seen[code] = true
			if err := (&Client{}).explained(code, code); !errors.Is(err, kind) || !errors.Is(err, code) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v is told as %v", code, err)
			}
		}
	}
}
