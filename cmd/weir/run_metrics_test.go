package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Each address of a run serves the metrics of its own part, so that a scraper of all of them counts nothing twice.
func TestNoSeriesOfARunIsOnTwoAddresses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	enforcer, flags := apart(t)
	log := filepath.Join(folder, "access.log")
	config := "data: data\nkafka: {hits: {partitions: 2, retention: 1h}}\nrules: [{name: per-ip, key: ip, limits: [10/hour]}]\n" +
		"client: {trusted_proxies: [127.0.0.1]}\ncollector: {sources: [{name: site, file: " + log + ", format: combined}]}\n"
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	const client, lines = "203.0.113.1", 20
	line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", client, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
	if err := os.WriteFile(log, []byte(strings.Repeat(line, lines)), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, append([]string{"run", "--config", filepath.Join(folder, "weir.yaml")}, flags...)...)
	awaitAnswer(t, p, enforcer, client, http.StatusTooManyRequests)

	served := map[string]string{} // the address by series
	series := map[string]bool{}   // of all of them, with values
	for _, flag := range flags[:6] {
		name, address, isAddress := strings.Cut(flag, "=")
		if !isAddress {
			continue
		}
		for _, sample := range scrape(t, address, "") {
			id, value, _ := strings.Cut(sample, " ")
			if other := served[id]; other != "" {
				t.Errorf("%s and %s both serve %s", other, name, id)
			}
			served[id] = name
			series[id+" "+value] = true
		}
	}
	for id, want := range map[string]string{
		fmt.Sprintf(`weir_collector_requests_total{source="site"} %d`, lines): "collector.listen",
		`weir_blocks_total{limit="10/hour",mode="enforce",rule="per-ip"} 1`:   "aggregator.listen",
		`weir_enforcer_list_whole 1`:                                          "enforcer.admin",
		`weir_config_last_reload_successful 1`:                                "collector.listen",
		`weir_queue_dropped_total{queue="orders"} 0`:                          "enforcer.admin",
	} {
		name, _, _ := strings.Cut(id, " ")
		if !series[id] || served[name] != want {
			t.Errorf("%s is on %q, want %s", id, served[name], want)
		}
	}
	_, address, _ := strings.Cut(flags[5], "=")
	all := map[string]bool{}
	for _, sample := range scrape(t, address, "?parts=all") {
		id, _, _ := strings.Cut(sample, " ")
		all[id] = true
	}
	for id := range served {
		if !all[id] && !strings.Contains(id, "quantile=") {
			t.Errorf("?parts=all does not have %s", id)
		}
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err, p.err)
	}
}

// scrape returns the samples of an address, one a line.
func scrape(t *testing.T, address, query string) (samples []string) {
	t.Helper()
	answer, err := http.Get("http://" + address + "/metrics" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "promhttp_") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	if len(samples) == 0 {
		t.Fatalf("%s serves nothing", address)
	}
	return samples
}
