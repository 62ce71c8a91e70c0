package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/internal/kafka/kafkatest"
	"weir/pkg/attempts"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/running"
)

// attemptsIn writes a configuration with these rules and further lines, and returns the folder and the enforcer's address.
func attemptsIn(t *testing.T, rules, more string) (folder, enforcer string) {
	t.Helper()
	folder, enforcer = running.Folder(t), port.Reserve(t, "127.0.0.1")
	text := fmt.Sprintf("data: data\nenforcer: {listen: %q, admin: %q}\ncollector: {listen: %q, sources: [{file: access.log, format: combined}]}\naggregator: {listen: %q}\nrules: %s\n%s", enforcer, port.Reserve(t, "127.0.0.1"),
		port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), rules, more)
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder, enforcer
}

// recordsOf returns the records that weir cat attempts prints.
func recordsOf(t *testing.T, config string) (all []attempts.Record) {
	t.Helper()
	p := start(t, "cat", "attempts", "--json", "--config", config)
	var out bytes.Buffer
	_, _ = out.ReadFrom(p.out)
	if err := p.Wait(); err != nil && strings.Contains(p.err.String(), "there is no topic") {
		return nil
	} else if err != nil {
		t.Fatalf("%v: %s", err, p.err)
	}
	for line := range bytes.Lines(out.Bytes()) {
		var r attempts.Record
		if err := attempts.Parse(bytes.TrimSpace(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// A process without Kafka keeps the attempts at inline rules, also over a restart.
func TestARunKeepsAttempts(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: quota, key: ip, limits: [2/min], inline: true}]", "inline: {history: 1h}\n")
	config := filepath.Join(folder, "weir.yaml")
	for round := range 2 {
		p := start(t, "run", "--config", config)
		awaitAnswer(t, p, enforcer, "203.0.113.1", 200)
		for range 3 {
			answers(enforcer, "203.0.113.9")
		}
		// Those before are there while the process runs.
		for deadline := time.Now().Add(time.Minute); len(recordsOf(t, config)) < 4*(round+1); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d records\n%s", len(recordsOf(t, config)), p.err)
			}
		}
		runs(t, exit.Done, "The last attempts:\n", "explain", "203.0.113.9", "--config", config)
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_, _ = p.out.WriteTo(&bytes.Buffer{})
		if err := p.Wait(); err != nil {
			t.Fatal(err, p.err)
		}
	}

	var shown []string
	from := map[string]bool{}
	for _, r := range recordsOf(t, config) {
		from[r.From] = true
		shown = append(shown, fmt.Sprintf("%s %s", r.Takes[0].Key, r.Takes[0].Verdict))
	}
	round := "203.0.113.1 admitted, 203.0.113.9 admitted, 203.0.113.9 admitted, 203.0.113.9 refused"
	if got := strings.Join(shown, ", "); got != round+", "+round || len(from) != 2 {
		t.Errorf("%s, from %d", got, len(from))
	}
	runs(t, exit.Done, "  refused  quota 203.0.113.9: refused, 0 of 2/min remain", "cat", "attempts", "--config", config)

	// They are decided again as they were.
	p := start(t, "cat", "attempts", "--json", "--config", config)
	var recorded bytes.Buffer
	_, _ = recorded.ReadFrom(p.out)
	_ = p.Wait()
	for name, text := range map[string]string{"attempts.json": recorded.String(), "rules.yaml": "rules: [{name: quota, key: ip, limits: [2/min], inline: true}]"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, rules := filepath.Join(folder, "attempts.json"), filepath.Join(folder, "rules.yaml")
	runs(t, exit.Done, "  6 admitted, 2 refused, as given\n", "backtest", "--rules", rules, file)
	runs(t, exit.WrongUse, "", "backtest", "--rules", rules, "--html", filepath.Join(folder, "x.html"), file)

	compareRuns(t, folder, config)

	// The newest comes first.
	var history locked.Buffer
	if code := run([]string{"weir", "history", "203.0.113.9", "--attempts", "--config", config}, strings.NewReader(""), &history, &history); code != exit.Done {
		t.Errorf("%d %s", code, history.String())
	}
	lines := strings.Split(strings.TrimSpace(history.String()), "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[1], "admitted, 0 of") || !strings.Contains(lines[3], "refused") {
		t.Errorf("%s", history.String())
	}
	runs(t, exit.Done, `{"weir":"attempt","time":`, "history", "203.0.113.0/24", "--attempts", "--rule", "quota", "--json", "--config", config)
	runs(t, exit.NotMet, "", "history", "203.0.113.8", "--attempts", "--config", config)
	runs(t, exit.NotMet, "", "history", "203.0.113.9", "--attempts", "--rule", "other", "--config", config)
}

// compareRuns compares algorithms on the attempts of TestARunKeepsAttempts: 2 and 2 admitted, 1 and 1 refused of one key.
func compareRuns(t *testing.T, folder, config string) {
	t.Helper()
	page := filepath.Join(folder, "quota.html")
	runs(t, exit.Done, "  8 attempts of 2 keys, ", "compare", "quota", "--config", config, "--html", page)
	runs(t, exit.Done, "given were 6 admitted, 2 refused", "compare", "quota", "--config", config)
	runs(t, exit.Done, "uniform          4        4  50.0%             1            1", "compare", "quota", "--config", config, "--algorithms", "uniform")
	runs(t, exit.Done, `"strategies":[{"algorithm":"sliding","own":true,"admitted":6,"refused":2,`, "compare", "quota", "--config", config, "--json")
	runs(t, exit.Done, `"203.0.113.9","attempts":6,"refused":2}`, "compare", "quota", "--config", config, "--from", "1h", "--json")
	runs(t, exit.NotMet, "", "compare", "quota", "--config", config, "--until", "1h")
	runs(t, exit.WrongUse, "", "compare", "nothing", "--config", config)
	runs(t, exit.WrongUse, "", "compare", "quota", "--config", config, "--from", "yesterday")
	runs(t, exit.WrongUse, "", "compare", "--config", config)
	text, err := os.ReadFile(page)
	if err != nil || strings.Count(string(text), `class="edge"`) != 6 {
		t.Errorf("%v, %d curves", err, strings.Count(string(text), `class="edge"`))
	}
}

// A key whose attempts are refused too often is blocked everywhere, also after a kill, until the block is over.
func TestRefusedAttemptsBlock(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: sign-in, key: ip, limits: [5/min], inline: true, block: {after: 3, within: 1m, for: 10s}}]", "")
	config := filepath.Join(folder, "weir.yaml")
	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", 200)
	for range 5 + 2 {
		answers(enforcer, "203.0.113.9")
	}
	// Two were refused. Without the process's end nothing is lost, and a kill loses none that is in the topic.
	for deadline := time.Now().Add(time.Minute); len(recordsOf(t, config)) < 8; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d records\n%s", len(recordsOf(t, config)), p.err)
		}
	}
	_ = p.Process.Kill()
	_ = p.Wait()

	p = start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", 200)
	if got := listed(t, config); strings.Contains(got, "203.0.113.9") {
		t.Errorf("two refusals are too few: %s", got)
	}
	for range 5 + 1 {
		answers(enforcer, "203.0.113.9")
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(listed(t, config), "3 refused in 1m"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no block: %s\n%s", listed(t, config), p.err)
		}
	}
	awaitAnswer(t, p, enforcer, "203.0.113.9", 429)
	if got := listed(t, config); !strings.Contains(got, "203.0.113.9") || strings.Contains(got, "203.0.113.1 ") {
		t.Error(got)
	}
	for deadline := time.Now().Add(time.Minute); strings.Contains(listed(t, config), "203.0.113.9"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the block never ends: %s", listed(t, config))
		}
	}
}

func listed(t *testing.T, config string) string {
	t.Helper()
	p := start(t, "list", "--config", config)
	var out bytes.Buffer
	_, _ = out.ReadFrom(p.out)
	_ = p.Wait()
	return out.String()
}

// On Kafka a key that one enforcer refuses too often is blocked at the others. The enforcer that refused it is killed, and
// so is its collector.
func TestRefusedAttemptsBlockOnKafka(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Shared(t).Addresses()
	more := fmt.Sprintf("kafka: {brokers: [%s], prefix: \"a%d.\", hits: {partitions: 2}, attempts: {partitions: 3, retention: 1h}}\n", strings.Join(brokers, ", "), time.Now().UnixNano())
	rules := "[{name: sign-in, key: ip, limits: [5/min], inline: true, block: {after: 3, within: 10m, for: 1h}}]"
	one, first := attemptsIn(t, rules, more)
	two, second := attemptsIn(t, rules, more)
	p := start(t, "run", "--config", filepath.Join(one, "weir.yaml"))
	awaitAnswer(t, p, first, "203.0.113.1", 200)
	for range 5 + 2 {
		answers(first, "203.0.113.9")
	}
	awaitRecords := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); len(recordsOf(t, filepath.Join(one, "weir.yaml"))) < n; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("fewer than %d records\n%s", n, p.err)
			}
		}
	}
	awaitRecords(8)
	_ = p.Process.Kill()
	_ = p.Wait()

	p = start(t, "run", "--config", filepath.Join(one, "weir.yaml"))
	awaitAnswer(t, p, first, "203.0.113.1", 200)
	for range 5 {
		answers(first, "203.0.113.9")
	}
	if got := answers(first, "203.0.113.9"); got != 429 {
		t.Fatalf("the sixth after a restart gets %d", got)
	}
	awaitRecords(15)
	runs(t, exit.Done, "  15 attempts of 2 keys, ", "compare", "sign-in", "--from", "1h", "--algorithms", "token", "--config", filepath.Join(one, "weir.yaml"))
	_ = p.Process.Kill()
	_ = p.Wait()

	other := start(t, "run", "--config", filepath.Join(two, "weir.yaml"))
	awaitAnswer(t, other, second, "203.0.113.1", 200)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(listed(t, filepath.Join(two, "weir.yaml")), "203.0.113.9"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no block: %s\n%s", listed(t, filepath.Join(two, "weir.yaml")), other.err)
		}
	}
	// This enforcer has seen nothing of the client before.
	if blocked, free := answers(second, "203.0.113.9"), answers(second, "203.0.113.8"); blocked != 429 || free != 200 {
		t.Errorf("the client gets %d, and another %d", blocked, free)
	}
	runs(t, exit.Done, "3 hits broke 3 refused in 10m", "list", "203.0.113.9", "--config", filepath.Join(two, "weir.yaml"))
}

// In a process without Kafka the topic of attempts is a source as any other, whose form is found out. Rules that do not ask
// for verdicts leave attempts alone.
func TestRulesCountAttempts(t *testing.T) {
	rules := `[{name: quota, key: ip, limits: [2/min], inline: true}, {name: per-ip, key: ip, limits: [1/min]},
  {name: many-refusals, key: ip, limits: [2/min], match: 'verdict == "refused"', block: {for: 1h}}]`
	folder, enforcer := attemptsIn(t, rules, "inline: {history: 1h}\n")
	config := filepath.Join(folder, "weir.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("{file: access.log, format: combined}"), []byte("{file: access.log, format: combined}, {kafka: [weir.attempts]}"), 1)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", 200)
	for range 2 + 3 {
		answers(enforcer, "203.0.113.9")
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(listed(t, config), "many-refusals"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no block: %s\n%s", listed(t, config), p.err)
		}
	}
	if got := listed(t, config); !strings.Contains(got, "203.0.113.9") || strings.Contains(got, "per-ip") {
		t.Error(got)
	}
}
