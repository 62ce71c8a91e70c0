package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
)

// A user who may open the enforcer's socket needs no key for the parts in its process: the status, the heaviest keys and
// the counts of a key are shown although their addresses want one. A reader's key shows no more over HTTP than before.
func TestTheSocketAnswersForTheParts(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	folder := t.TempDir()
	enforcer, flags := apart(t)
	log, config := filepath.Join(folder, "access.log"), filepath.Join(folder, "weir.yaml")
	keys := filepath.Join(folder, "keys.yaml")
	if code := run([]string{"weir", "keys", "add", "--name", "bob", "--role", "read", "--file", keys}, nil, t.Output(), t.Output()); code != exit.Done {
		t.Fatal(code)
	}
	settings := "data: data\nkafka: {hits: {partitions: 2, retention: 1h}}\nrules: [{name: per-ip, key: ip, limits: [10/hour]}]\n" +
		"client: {trusted_proxies: [127.0.0.1]}\ncollector: {keys: keys.yaml, sources: [{file: access.log, format: combined}]}\naggregator: {keys: keys.yaml}\nenforcer: {keys: keys.yaml}\n"
	const client, keeps = "203.0.113.1", "203.0.113.2"
	line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", client, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
	for name, text := range map[string]string{log: strings.Repeat(strings.Replace(line, client, keeps, 1), 5) + strings.Repeat(line, 20), config: settings} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	p := start(t, append([]string{"run", "--config", config}, flags...)...)
	awaitAnswer(t, p, enforcer, client, http.StatusTooManyRequests)
	flags = append([]string{"--config", config}, flags...)
	runs(t, exit.Done, `"caught_up":true`, append([]string{"status", "--json", "--wait", "1m"}, flags...)...)
	runs(t, exit.Done, "Healthy: ", append([]string{"status"}, flags...)...)
	runs(t, exit.Done, keeps, append([]string{"top"}, flags...)...)
	runs(t, exit.Done, "partition ", append([]string{"explain", client}, flags...)...)

	for path, want := range map[string]int{"aggregator/status": http.StatusUnauthorized, "nothing/status": http.StatusUnauthorized} {
		answer, err := http.Get("http://" + enforcer + "/v1/parts/" + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s without a key: %d, want %d", path, answer.StatusCode, want)
		}
	}
	p.Process.Kill()
	p.Wait()
}
