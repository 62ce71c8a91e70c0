package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/test/locked"
)

// askedAs returns the status of a check with an agent.
func askedAs(enforcer, agent string) int {
	q, _ := http.NewRequest(http.MethodGet, "http://"+enforcer+"/v1/check", nil)
	q.Header.Set("X-Forwarded-For", "203.0.113.9")
	q.Header.Set("User-Agent", agent)
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// A process never stores or shows the secret that a rule counts by. People find and end its block by the secret and by the
// hash, also after a kill. With another key of the hashes, counting begins at zero.
func TestARunKeepsNoSecret(t *testing.T) {
	const secret = "sk_live_51Hsecret"
	folder, enforcer := attemptsIn(t, "{rules: [{name: by-key, key: agent, limits: [3/min], secret: true, block: {for: 1h}}, {name: per-ip, key: ip, limits: [3/min], mode: shadow},"+
		" {name: quota, key: [ip, agent], limits: [1000/min], secret: true, inline: true}], secret_file: hash.key}", "inline: {history: 1h}\n")
	config, log, key := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "access.log"), filepath.Join(folder, "hash.key")
	write := func(path, text string, how int) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	visit := func() {
		at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
		write(log, strings.Repeat(fmt.Sprintf("203.0.113.9 - - [%s] \"GET /k/%s/x?key=%[2]s HTTP/1.1\" 200 2 \"-\" \"%[2]s\"\n", at, secret), 4), os.O_APPEND)
	}
	var p process
	await := func(agent string, status int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); askedAs(enforcer, agent) != status; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s gets %d\n%s", agent, askedAs(enforcer, agent), p.err)
			}
		}
	}
	write(key, strings.Repeat("a", 32), os.O_TRUNC)
	write(log, "", os.O_APPEND)
	p = start(t, "run", "--config", config)
	await("other", http.StatusOK)
	visit()
	await(secret, http.StatusTooManyRequests)
	await("other", http.StatusOK)

	shown := func(arguments ...string) string {
		t.Helper()
		var stdout, stderr locked.Buffer
		run(append(append([]string{"weir"}, arguments...), "--config", config), strings.NewReader(""), &stdout, &stderr)
		return stdout.String() + stderr.String()
	}
	var all strings.Builder
	for _, what := range [][]string{{"cat", "hits"}, {"cat", "blocklist"}, {"cat", "events"}, {"cat", "attempts", "--json"}, {"list", "--json"}, {"history"}, {"top", "--once"}, {"status"}} {
		all.WriteString(shown(what...))
	}
	// The evidence of both rules is about the request with the secret.
	for deadline := time.Now().Add(time.Minute); strings.Count(shown("explain", "203.0.113.9"), "/k/***/x") == 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	all.WriteString(shown("explain", "203.0.113.9") + p.err.String())
	if text := all.String(); strings.Contains(text, secret) || strings.Count(text, "#") < 8 || !strings.Contains(text, "/k/***/x?key=***") {
		t.Errorf("what is shown:\n%s", text)
	}
	explained := shown("explain", "agent:"+secret, "--rule", "by-key")
	if !strings.Contains(explained, "On the list: #") || !strings.Contains(explained, "by-key") {
		t.Error(explained)
	}

	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	err := filepath.WalkDir(filepath.Join(folder, "data"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	p = start(t, "run", "--config", config)
	await("other", http.StatusOK)
	await(secret, http.StatusTooManyRequests)
	// After a start, the index of events is not ready at once, and the topic only knows the hash.
	for deadline := time.Now().Add(time.Minute); !strings.Contains(shown("history", secret), "by-key"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the history is %s", shown("history", secret))
		}
	}
	if story := shown("history", secret, "--csv"); !strings.Contains(story, "by-key,#") || strings.Contains(story, secret) {
		t.Errorf("the history is %s", story)
	}

	// A tool that may not read the key of the hashes leaves them to the enforcer.
	if err := os.Mkdir(filepath.Join(folder, "elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(folder, "elsewhere", "weir.yaml")
	write(elsewhere, string(text), os.O_TRUNC)
	was := config
	config = elsewhere
	for _, what := range []string{"explain", "status"} {
		arguments := []string{what, "--set", "data=" + filepath.Join(folder, "data")}
		if what == "explain" {
			arguments = append(arguments, "agent:"+secret)
		}
		if got := shown(arguments...); strings.Contains(got, "cannot be read") || what == "explain" && !strings.Contains(got, "On the list: #") || strings.Contains(got, "differ") {
			t.Errorf("%s: %s", what, got)
		}
	}
	config = was
	runs(t, exit.Done, "#", "unblock", secret, "--why", "tested", "--config", config)
	await(secret, http.StatusOK)
	visit()
	await(secret, http.StatusTooManyRequests)
	write(key, strings.Repeat("b", 32), os.O_TRUNC)
	await(secret, http.StatusOK)
}
