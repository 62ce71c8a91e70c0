package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/initial"
	"weir/test/port"
	"weir/test/real"
)

// An ordinarySite is a real nginx with a page, a page behind a password, and its default log.
type ordinarySite struct {
	address, log string
}

func newOrdinarySite(t *testing.T) ordinarySite {
	t.Helper()
	program := real.Program(t, "nginx", "nginx")
	folder := t.TempDir()
	s := ordinarySite{port.Reserve(t, "127.0.0.1"), filepath.Join(folder, "access.log")}
	config := fmt.Sprintf(`pid %[1]s/pid; error_log stderr crit; daemon off; worker_processes 1; user root; events {}
http {
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	access_log %[2]s;
	server {
		listen %[3]s;
		location / { return 200 "a page\n"; }
		location /private/ { auth_basic "private"; auth_basic_user_file %[1]s/users; try_files /nothing @page; }
		location @page { return 200 "a private page\n"; }
	}
}
`, folder, s.log, s.address)
	for name, text := range map[string]string{"nginx.conf": config, "users": "alice:{PLAIN}secret\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(program, "-e", "stderr", "-p", folder, "-c", filepath.Join(folder, "nginx.conf"))
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if connection, err := net.Dial("tcp", s.address); err == nil {
			connection.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal("nginx does not answer")
		}
	}
}

// ask requests a page as a user, whom nginx need not know, and returns the answer's status.
func (s ordinarySite) ask(t *testing.T, path, user string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, "x")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// runInitial runs weir as `weir init` sets it up for a log, in mode enforce.
func runInitial(t *testing.T, log string) (p process, enforcer string, weir func(args ...string) string) {
	t.Helper()
	folder := t.TempDir()
	if _, err := initial.Write(folder, initial.Find([]string{log})); err != nil {
		t.Fatal(err)
	}
	enforcer, flags := apart(t)
	of := append([]string{"--config", filepath.Join(folder, "weir.yaml")}, append(flags, "--set", "data="+filepath.Join(folder, "data"))...)
	p = start(t, append([]string{"run", "--set", "mode=enforce"}, of...)...)
	return p, enforcer, func(args ...string) string {
		var out, errs bytes.Buffer
		if run(append(append([]string{"weir"}, args...), of...), nil, &out, &errs) != exit.Done {
			t.Fatal(args, errs.String())
		}
		return out.String()
	}
}

// blocked returns the keys that a running weir refuses, by their rules.
func blocked(t *testing.T, enforcer string) map[string]string {
	t.Helper()
	answer, err := http.Get("http://" + enforcer + "/v1/blocklist")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	keys := map[string]string{}
	for lines := json.NewDecoder(answer.Body); lines.More(); {
		var entry struct{ Rule, Key string }
		if err := lines.Decode(&entry); err != nil {
			t.Fatal(err)
		}
		if entry.Key != "" {
			keys[entry.Key] = entry.Rule
		}
	}
	return keys
}

// The first test of most users: a loop of curl on the same machine is counted, and refused.
func TestALoopOnOnesOwnMachineIsCounted(t *testing.T) {
	t.Parallel()
	s := newOrdinarySite(t)
	s.ask(t, "/", "")
	p, enforcer, _ := runInitial(t, s.log)
	awaitAnswer(t, p, enforcer, "127.0.0.1", http.StatusOK)
	for range 301 {
		s.ask(t, "/", "")
	}
	awaitAnswer(t, p, enforcer, "127.0.0.1", http.StatusTooManyRequests)
}

// With the rules of init a client does not escape by using a user's name, and cannot have another user blocked.
func TestANameThatNobodyCheckedNeitherHidesNorFrames(t *testing.T) {
	t.Parallel()
	s := newOrdinarySite(t)
	s.ask(t, "/", "")
	p, enforcer, _ := runInitial(t, s.log)
	awaitAnswer(t, p, enforcer, "127.0.0.1", http.StatusOK)
	for i := range 320 {
		user := fmt.Sprint("user", i)
		if i%2 > 0 {
			user = "alice"
		}
		if i%4 == 3 {
			if status := s.ask(t, "/private/", user); status != http.StatusUnauthorized {
				t.Fatal(status)
			}
			continue
		}
		s.ask(t, "/", user)
	}
	awaitAnswer(t, p, enforcer, "127.0.0.1", http.StatusTooManyRequests)
	if got := blocked(t, enforcer); len(got) != 1 || got["127.0.0.1"] != "per-client" {
		t.Error(got)
	}
}

// The run itself and status show how many requests are not counted, and why.
func TestUncountedRequestsAreReported(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	line := fmt.Sprintf("10.0.0.1 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 30)), 0o644); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	enforcer, flags := apart(t)
	text := "data: data\nkafka: {hits: {partitions: 2, retention: 1h}}\ncollector: {sources: [{file: " + log + ", format: combined}]}\n" +
		"rules: {rules: [{name: per-ip, key: ip, limits: [10/hour]}], allow: [{ip: 10.0.0.0/8}]}\n"
	path := filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, append([]string{"run", "--config", path}, flags...)...)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusOK)
	const want = "30 of 30 requests not counted: 30 allowed by the rules"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var out, errs bytes.Buffer
		run(append([]string{"weir", "status", "--config", path}, flags...), nil, &out, &errs)
		if strings.Contains(out.String(), want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q is not in\n%s%s", want, out.String(), errs.String())
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	told.ReadFrom(p.out)
	p.Wait()
	if told.Len() > 0 && !strings.Contains(told.String(), want) {
		t.Errorf("%q is not in\n%s", want, told.String())
	}
}

// Without Kafka, status shows whose topics the enforcer follows.
func TestStatusNamesTheFollowedTopics(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	enforcer, flags := apart(t)
	flags = append(flags, "--set", "data="+data, "--set", "collector.sources=[{file: "+log+"}]", "--set", "rules=[{name: r, key: ip, limits: [1/s]}]")
	p := start(t, append([]string{"run"}, flags...)...)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusOK)
	runs(t, exit.Done, "follows the topics in "+filepath.Join(data, "store"), append([]string{"status"}, flags...)...)
}
