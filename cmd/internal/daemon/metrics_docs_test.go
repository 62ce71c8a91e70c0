package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/test/port"
	"weir/test/real"
)

// docs/metrics.md has every metric that a collector with all kinds of sources, an aggregator and an enforcer with all agents serve,
// with its type and labels, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	documented, served := documentedMetrics(t), servedMetrics(collectorMetrics(t))
	maps.Copy(served, servedMetrics(aggregatorMetrics(t)))
	maps.Copy(served, servedMetrics(enforcerMetrics(t)))
	for name, metric := range served {
		if row, ok := documented[name]; !ok {
			t.Errorf("docs/metrics.md does not have %s", name)
		} else if row != metric {
			t.Errorf("%s is a %s, and documented as a %s", name, metric, row)
		}
	}
	for name := range documented {
		if served[name] == "" && name != "weir_kafka_faults_total" { // there was no fault
			t.Errorf("docs/metrics.md has %s, which is not served", name)
		}
	}
}

// The row of a metric lists all values of its labels that are words of ours.
func TestValuesOfLabelsAreDocumented(t *testing.T) {
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\|.*$").FindAllStringSubmatch(page(t, "metrics.md"), -1) {
		rows[row[1]] = row[0]
	}
	checked := map[string]bool{}
	sample := regexp.MustCompile(`(?m)^(weir_[a-z_]+?)(?:_bucket|_sum|_count)?\{(.*)\} \S+$`)
	word := regexp.MustCompile(`\b(outcome|verdict|answer|where|op|why|kind)="([^"]*)"`)
	for _, one := range sample.FindAllStringSubmatch(aggregatorMetrics(t)+enforcerMetrics(t), -1) {
		for _, label := range word.FindAllStringSubmatch(one[2], -1) {
			checked[label[1]] = true
			if row, ok := rows[one[1]]; ok && !strings.Contains(row, "`"+label[2]+"`") {
				t.Errorf("docs/metrics.md does not say what %s{%s} is", one[1], label[0])
			}
		}
	}
	if len(checked) < 7 {
		t.Errorf("only %v were served", slices.Sorted(maps.Keys(checked)))
	}
}

// docs/collecting.md explains every reason for which a request is not counted, and no others.
func TestReasonsAreDocumented(t *testing.T) {
	_, section, _ := strings.Cut(page(t, "collecting.md"), "\n## Requests that are not counted\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told, counted := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(section, -1) {
		told[row[1]] = true
	}
	for _, sample := range regexp.MustCompile(`weir_collector_uncounted_total\{reason="([a-z]+)"`).FindAllStringSubmatch(collectorMetrics(t), -1) {
		counted[sample[1]] = true
	}
	if !maps.Equal(told, counted) || len(counted) == 0 {
		t.Errorf("documented: %v; counted: %v", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(counted)))
	}
}

// Prometheus's own tool finds no fault with the metrics.
func TestPromtoolFindsNoError(t *testing.T) {
	check := exec.Command(real.Program(t, "promtool", "prometheus"), "check", "metrics")
	check.Stdin = strings.NewReader(collectorMetrics(t))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documentedMetrics returns the type and the labels of each metric of the page: "counter source reason".
func documentedMetrics(t *testing.T) map[string]string {
	t.Helper()
	metrics := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(page(t, "metrics.md"), -1) {
		metrics[row[1]] = described(row[2], regexp.MustCompile("[a-z_]+").FindAllString(row[3], -1))
	}
	return metrics
}

// servedMetrics returns our metrics from an answer of /metrics.
func servedMetrics(text string) map[string]string {
	metrics := map[string]string{}
	for _, kind := range regexp.MustCompile(`(?m)^# TYPE (weir_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		var labels []string
		sample := regexp.MustCompile(`(?m)^` + kind[1] + `(?:_count)?(?:\{(.*)\})? \S+$`).FindStringSubmatch(text)
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(sample[1], -1) {
			labels = append(labels, label[1])
		}
		metrics[kind[1]] = described(kind[2], labels)
	}
	return metrics
}

func described(kind string, labels []string) string {
	slices.Sort(labels)
	return strings.Join(append([]string{kind}, labels...), " ")
}

// collectorMetrics returns the metrics of a collector with a source of each kind.
func collectorMetrics(t *testing.T) string {
	t.Helper()
	p := newPlace(t, "  settle: {enforcers: 'http://127.0.0.1:1'}\n")
	configured, err := os.ReadFile(filepath.Join(p.folder, "weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("weir.yaml", strings.Replace(string(configured), "[{file: access.log}]", fmt.Sprintf(
		`[{file: access.log, dedupe: {by: request_id}}, {kafka: elsewhere}, {http: %q}, {syslog: "udp://%s", format: combined}]`, port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1")), 1))
	settings, _, err := config.Load(p.options())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kafka.Open(kafka.Config{Brokers: settings.Kafka.Brokers, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "elsewhere", Partitions: 1}); err != nil {
		t.Fatal(err)
	}

	p.start()
	p.write("access.log", `203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`+"\n")
	defer p.stop()
	var metrics string
	p.await("counted", func() bool {
		p.get("/status") // this measures the lags too
		_, metrics = p.get("/metrics")
		return strings.Contains(metrics, `weir_collector_hits_total{rule="per-ip",source="file-1"} 1`) && strings.Contains(metrics, "\nweir_collector_lag_records{")
	})
	return metrics
}

// enforcerMetrics returns the metrics of an enforcer that has a list, was asked, and runs all agents.
func enforcerMetrics(t *testing.T) (metrics string) {
	t.Helper()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "  grpc: "+port.Reserve(t, "127.0.0.1")+"\n  nftables: {on: true}\n  haproxy: {socket: haproxy.sock, map: blocked.map}\nnotify: [{name: ops, webhook: {url: 'http://127.0.0.1:1'}}]\n")
	e.write("rules.yaml", "rules:\n  - {name: per-ip, key: ip, limits: [10/min]}\n  - {name: at-once, key: ip, limits: [10/min], inline: true}\n")
	e.change = func(c *config.Config) {
		c.Enforcer.DryRun = true
		c.Inline.Store.Redis = "redis://127.0.0.1:1" // its metrics are there before it is
	}
	e.start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	p.block("203.0.113.7")
	p.marks()
	e.await("blocked", func() bool { return e.check("203.0.113.7") == http.StatusTooManyRequests })
	e.ask("GET", e.listen, "/v1/decisions?ip=203.0.113.7", "", "X-Api-Key", "reader")
	e.await("counted", func() bool {
		_, metrics = e.ask("GET", e.admin, "/metrics", "")
		return strings.Contains(metrics, "weir_enforcer_crowdsec_requests_total{") && strings.Contains(metrics, `answer="refused"`)
	})
	return metrics
}
