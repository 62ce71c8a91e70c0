package console

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/test/locked"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A process is a real `weir run` in a folder, with what it prints.
type process struct {
	folder, program string
	out             locked.Buffer
}

// startWeir builds and runs weir with a log in which two clients send too much, and one file that does not exist.
func startWeir(t *testing.T, listen string) *process {
	t.Helper()
	w := &process{folder: t.TempDir()}
	w.program = filepath.Join(w.folder, "weir")
	if out, err := exec.Command("go", "build", "-o", w.program, "weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	lines := "this is no line of a log\n"
	for second := 25; second > 0; second-- { // 25 seconds ago until now
		for _, who := range []struct {
			ip   string
			from int
		}{{"203.0.113.66", 25}, {"203.0.113.7", 12}, {"192.0.2.1", 5}} {
			if second <= who.from {
				lines += fmt.Sprintf("%s - - [%s] \"GET /search?q=secret HTTP/1.1\" 200 1 \"-\" \"scraper/1.0\"\n", who.ip, time.Now().Add(-time.Duration(second)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
			}
		}
	}
	configuration := fmt.Sprintf(`data: data
rules: {rules: [{name: per-ip, key: ip, limits: [10/min], block: {for: 2h}}]}
client: {trusted_proxies: [127.0.0.0/8]}
collector: {listen: %q, sources: [{file: access.log}, {file: gone.log}]}
aggregator: {listen: %q}
enforcer: {listen: %q, admin: %q}
`, port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1"), listen, port.Reserve(t, "127.0.0.1"))
	for name, text := range map[string]string{"access.log": lines, "weir.yaml": configuration} {
		if err := os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	run := w.command("run")
	run.Stdout, run.Stderr = &w.out, &w.out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt)
		_ = run.Wait()
		if t.Failed() {
			t.Log(w.out.String())
		}
	})
	return w
}

func (w *process) command(arguments ...string) *exec.Cmd {
	c := exec.Command(w.program, arguments...)
	c.Dir = w.folder
	return c
}

// check asks the enforcer as an edge does.
func check(listen, client string) int {
	r, _ := http.NewRequest(http.MethodGet, "http://"+listen+"/v1/check", http.NoBody)
	r.Header.Set("X-Forwarded-For", client)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// Five questions of someone who is woken up are answered from the console alone, each with one or two clicks.
func TestFiveQuestionsAreAnsweredByTheConsole(t *testing.T) {
	browser := real.Program(t, "chromium", "chromium")
	listen := port.Reserve(t, "127.0.0.1")
	w := startWeir(t, listen)
	for client, times := range map[string]int{"203.0.113.66": 40, "203.0.113.7": 3} {
		wait.Until(t, client+" is refused", func() bool {
			return check(listen, client) == http.StatusTooManyRequests || check(listen, client) == http.StatusForbidden
		})
		for range times {
			check(listen, client)
		}
	}
	var link string
	wait.Until(t, "there is a link", func() bool {
		out, _ := w.command("console").Output()
		link = string(regexp.MustCompile(`http://\S+`).Find(bytes.TrimSpace(out)))
		return link != ""
	})

	s := &stand{t: t, url: "http://" + listen + "/console/"}
	s.browse(browser)
	s.do("the link", chromedp.Navigate(link))
	s.until("the page that the link leads to", `document.querySelector("form button") !== null && document.readyState === "complete"`)
	if value[bool](s, `document.querySelector("#list") === null`) {
		s.do("logging in", click("main form button"))
	}
	s.until("the list", `document.querySelector("#list") !== null && document.readyState === "complete"`)

	clicks, began := 0, time.Now()
	press := func(what, path string) { clicks++; s.do(what, clickPath(path)) }
	answered := func(question, expression string, most int) {
		t.Helper()
		s.until(question, `document.readyState === "complete" && (`+expression+`)`)
		t.Logf("%s: %d clicks, %.1f s", question, clicks, time.Since(began).Seconds())
		if clicks > most {
			t.Errorf("%s: %d clicks, at most %d", question, clicks, most)
		}
		clicks, began = 0, time.Now()
	}
	onPage := func(texts ...string) string {
		var all []string
		for _, text := range texts {
			all = append(all, fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
		}
		return strings.Join(all, " && ")
	}

	press("the column Refused", `//th/a[text()="Refused"]`)
	answered("who is blocked most", `document.querySelector("main table tbody tr td.key")?.innerText === "203.0.113.66"`, 1)

	press("the key", `//td/a[text()="203.0.113.66"]`)
	answered("why is 203.0.113.66 blocked", onPage("11 hits broke 10/min", "requests that counted", "/search?q=***", "scraper/1.0", "requests refused"), 1)

	const form = `//form[.//input[@value="unblock"]]`
	s.do("the reason", keysInto(form+`//input[@name="why"]`, "a customer"))
	press("the preview", form+`//button`)
	s.until("the preview", onPage("ends at once"))
	press("the action", `//form[contains(@class, "row")]//button`)
	answered("let it in for an hour", onPage("203.0.113.66 is let in", "It is allowed for 1h"), 2)
	if got := check(listen, "203.0.113.66"); got >= 300 {
		t.Errorf("it is let in, and refused with %d", got)
	}

	me, _ := exec.Command("id", "-un").Output()
	press("Audit", `//nav//a[text()="Audit"]`)
	answered("who did that", onPage("203.0.113.66", "a customer", strings.TrimSpace(string(me))), 1)

	press("Parts", `//nav//a[text()="Parts"]`)
	answered("what is not read and why", onPage("gone.log does not exist", "1 of 43 requests not counted", "not in the format"), 1)
}
