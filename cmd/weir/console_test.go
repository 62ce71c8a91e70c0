package main

import (
	"bytes"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A user of this machine gets a link to the console of a run, without any API key, and may act there under that name.
func TestALinkToTheConsole(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: per-ip, key: ip, limits: [10/min]}]", "")
	config := filepath.Join(folder, "weir.yaml")
	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", http.StatusOK)
	tool := start(t, "console", "--config", config, "-o", "plain")
	var out bytes.Buffer
	_, _ = out.ReadFrom(tool.out)
	if err := tool.Wait(); err != nil || !strings.HasPrefix(out.String(), "http://"+enforcer+"/console/login?once=") {
		t.Fatal(err, out.String(), tool.err)
	}
	link, err := url.Parse(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(path, cookie string, form url.Values) (header http.Header, body string) {
		t.Helper()
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		r, err := http.NewRequest(method, "http://"+enforcer+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+enforcer)
		r.Header.Set("Cookie", cookie)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var text bytes.Buffer
		_, _ = text.ReadFrom(answer.Body)
		return answer.Header, text.String()
	}
	if _, body := send("/console/once", "", url.Values{"a": {"b"}}); !strings.Contains(body, "only over the enforcer's socket") {
		t.Error(body)
	}
	header, body := send("/console/login", "", url.Values{"once": link.Query()["once"]})
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if cookie == "" {
		t.Fatal(body)
	}
	_, body = send("/console/key?key=203.0.113.9", cookie, nil)
	token := regexp.MustCompile(`name="token" value="([0-9a-f]+)"`).FindStringSubmatch(body)
	if token == nil {
		t.Fatal(body)
	}
	send("/console/act", cookie, url.Values{"token": token[1:], "action": {"block"}, "target": {"203.0.113.9"}, "for": {"1h"}, "why": {"a try"}, "step": {"do"}})
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusTooManyRequests)
}
