package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/test/locked"
	"weir/test/port"
)

// aggregated runs a collector on a log in which a client breaks the limit, and an aggregator that counts it.
func aggregated(t *testing.T) *place {
	t.Helper()
	collecting := newPlace(t, "")
	counting := &place{t: t, part: Aggregator, folder: collecting.folder, address: port.Reserve(t, "127.0.0.1")}
	configured, err := os.ReadFile(filepath.Join(counting.folder, "weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	counting.write("weir.yaml", fmt.Sprintf("%saggregator: {listen: %s}\n", configured, counting.address))
	line := fmt.Sprintf("203.0.113.7 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
	counting.write("access.log", strings.Repeat(line, 11))
	collecting.start()
	counting.start()
	return counting
}

func TestAnAggregatorCountsACollectorsHits(t *testing.T) {
	t.Parallel()
	p := aggregated(t)
	p.await("blocked", func() bool {
		_, text := p.get("/v1/keys?rule=per-ip&key=203.0.113.7")
		return strings.Contains(text, `"where":"hot"`) && strings.Contains(text, `"blocked":true`) && strings.Contains(text, `"limit":"10/min"`)
	})
	p.await("every partition", func() bool {
		_, text := p.get("/v1/partitions")
		return strings.Count(text, `"partition":`) == 16
	})
	for path, want := range map[string]string{
		"/v1/keys?rule=per-ip&key=203.0.113.8": `"where":"none"`,
		"/v1/top?rule=per-ip":                  `[`,
		"/v1/partitions":                       `"partition":15`,
	} {
		if code, text := p.get(path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s", path, code, text)
		}
	}
	for path, want := range map[string]int{
		"/v1/keys?rule=other&key=1":       http.StatusNotFound,
		"/v1/keys?rule=per-ip&key=nobody": http.StatusBadRequest,
		"/v1/top?rule=per-ip&n=0":         http.StatusBadRequest,
		"/v1/top?rule=other":              http.StatusNotFound,
	} {
		if code, text := p.get(path); code != want {
			t.Errorf("%s: %d, %s", path, code, text)
		}
	}
	p.await("caught up", func() bool {
		_, text := p.get("/status")
		return strings.Contains(text, `"caught_up": true`)
	})
}

func TestAnotherNumberOfPartitionsIsAWrongConfiguration(t *testing.T) {
	p := aggregated(t)
	p.stop()
	settings := p.process.Config
	settings.Kafka.Prefix, settings.Kafka.Hits.Partitions = "other.", 3
	if _, err := Aggregator.Open(t.Context(), p.process); !exit.IsWrong(err) || !strings.Contains(err.Error(), "16") {
		t.Error(err)
	}
}

// A topic whose number of partitions is not the configured one is a configuration error for every part.
func TestAnotherNumberOfPartitionsEndsWithItsExitCode(t *testing.T) {
	t.Parallel()
	p := aggregated(t)
	p.stop()
	for _, part := range []Part{Collector, Aggregator} {
		options := p.options()
		options.Set = []string{"kafka.hits.partitions=3", "data=other", "collector.listen=" + port.Reserve(t, "127.0.0.1"), "aggregator.listen=" + port.Reserve(t, "127.0.0.1")}
		var said locked.Buffer
		if code := Run(t.Context(), part, options, &said); code != exit.WrongUse || !strings.Contains(said.String(), "has 16 partitions and not 3") {
			t.Errorf("%s: exit code %d: %s", part.Name, code, said.String())
		}
	}
}

func TestATopicThatIsGivenMorePartitionsEndsTheAggregatorWithItsExitCode(t *testing.T) {
	t.Parallel()
	p := aggregated(t)
	p.stop()
	options := p.options()
	options.Set = []string{"aggregator.listen=" + port.Reserve(t, "127.0.0.1")}
	p.address = strings.TrimPrefix(options.Set[0], "aggregator.listen=")
	var said locked.Buffer
	code := make(chan int, 1)
	go func() { code <- Run(t.Context(), Aggregator, options, &said) }()
	p.await("every partition", func() bool {
		_, text := p.get("/v1/partitions")
		return strings.Count(text, `"partition":`) == 16
	})
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	admin := kafkago.Client{Addr: kafkago.TCP(p.process.Config.Kafka.Brokers...), Transport: transport}
	more := kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: HitsTopic(p.process.Config).Name, Count: 17}}}
	answer, err := admin.CreatePartitions(t.Context(), &more)
	if err = errors.Join(err, answer.Errors[more.Topics[0].Name]); err != nil {
		t.Fatal(err)
	}
	if code := <-code; code != exit.WrongUse || !strings.Contains(said.String(), "has 17 partitions and not 16") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRedisForgetsWhenNothingMattersAnyMore(t *testing.T) {
	for rules, want := range map[string]time.Duration{
		"rules: [{name: a, key: ip, limits: [10/min], block: {for: 1h, then: [2h], forget: 3h}}]": 2*(5*time.Hour+20*time.Minute) + 48*time.Hour,
		"rules: [{name: a, key: ip, limits: [10/w], block: {for: 1h}}]":                           2*(7*24*time.Hour+20*time.Minute) + 48*time.Hour,
		"rules: [{name: a, key: ip, limits: [10/min], block: {for: forever}}]":                    0,
		// Aggregators keep nothing of inline rules.
		"rules: [{name: a, key: ip, limits: [10/min], inline: true}]":                                                     2*(20*time.Minute) + 48*time.Hour,
		"rules: [{name: a, key: ip, limits: [10/min], block: {for: 1h}}, {name: b, key: ip, limits: [10/w], inline: {}}]": 2*(25*time.Hour+20*time.Minute) + 48*time.Hour,
	} {
		folder := t.TempDir()
		p := &place{t: t, folder: folder}
		p.write("rules.yaml", rules)
		p.write("weir.yaml", "data: data\n")
		c, _, err := config.Load(p.options())
		if err != nil {
			t.Fatal(err)
		}
		if got := expiry(c); got != want {
			t.Errorf("%s: %v, want %v", rules, got, want)
		}
	}
}

// aggregatorMetrics returns the metrics of an aggregator that has decided something.
func aggregatorMetrics(t *testing.T) (metrics string) {
	t.Helper()
	p := aggregated(t)
	defer p.stop()
	p.await("blocked", func() bool {
		_, metrics = p.get("/metrics")
		return strings.Contains(metrics, `weir_blocks_total{limit="10/min",mode="enforce",rule="per-ip"} 1`) &&
			strings.Contains(metrics, `weir_aggregator_detection_delay_seconds_count{rule="per-ip"}`) && strings.Contains(metrics, "weir_aggregator_lag_records{")
	})
	return metrics
}
