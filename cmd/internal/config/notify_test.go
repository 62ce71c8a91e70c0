package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
	"weir/pkg/notify"
)

func readNotify(receivers, mode string) (*config.Config, yamlfile.Faults, error) {
	return config.Read([]byte("mode: "+mode+"\nnotify:\n"+receivers+"rules:\n  rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"),
		config.Options{File: "/etc/weir/weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}})
}

func TestFaultsOfReceivers(t *testing.T) {
	for receivers, want := range map[string]string{
		"- {name: a}": "this one has 0",
		"- {name: a, slack: {url_file: x}, mail: {server: 'a:25', from: a@b, to: c@d}}": "this one has 2",
		"- {slack: {url_file: x}}":                                                                          "cannot be the name",
		"- {name: a b, slack: {url_file: x}}":                                                               "cannot be the name",
		"- {name: a, slack: {}}":                                                                            "there is no URL",
		"- {name: a, slack: {url: 'https://hooks/SECRET'}}":                                                 "unknown key url",
		"- {name: a, webhook: {url: 'https://user:SECRET@host/'}}":                                          "authorization_file",
		"- {name: a, webhook: {url: 'SECRET'}}":                                                             "not a URL",
		"- {name: a, webhook: {url: 'https://a', url_file: b}}":                                             "one URL",
		"- {name: a, webhook: {url: 'https://a', template: '{{.Nothing}}'}}":                                "template",
		"- {name: a, webhook: {url: 'https://a', template: 'x'}}":                                           "not JSON",
		"- {name: a, webhook: {url: 'https://a', content_type: \"a\\r\\nb\"}}":                              "not a content type",
		"- {name: a, pagerduty: {}}":                                                                        "there is no key",
		"- {name: a, alertmanager: {}}":                                                                     "there is no URL",
		"- {name: a, mail: {server: mail, from: a@b, to: c@d}}":                                             "no port",
		"- {name: a, mail: {server: 'mail:25', from: 'a', to: c@d}}":                                        "not an address",
		"- {name: a, mail: {server: 'mail:25', from: a@b, to: \"c@d\\r\\nBcc: e@f\"}}":                      "not an address",
		"- {name: a, mail: {server: 'mail:25', from: a@b}}":                                                 "no recipients",
		"- {name: a, mail: {server: 'mail:25', from: a@b, to: c@d, user: x}}":                               "only one of user and password_file",
		"- {name: a, mail: {server: 'mail:25', from: a@b, to: c@d, tls: some}}":                             "not a way to encrypt",
		"- {name: a, mail: {server: 'mail:25', from: a@b, to: c@d, tls: never, user: x, password_file: y}}": "without encryption",
		"- {name: a, slack: {url_file: x}, events: [block]}":                                                "write some of blocked",
		"- {name: a, slack: {url_file: x}, modes: [shade]}":                                                 "\"shade\" is not known",
		"- {name: a, slack: {url_file: x}, orders: [unblock]}":                                              "\"unblock\" is not known",
		"- {name: a, slack: {url_file: x}, severity: high}":                                                 "\"high\" is not known",
		"- {name: a, slack: {url_file: x}, rules: ['[']}":                                                   "not a pattern",
		"- {name: a, slack: {url_file: x}, per_minute: 0}":                                                  "0 messages a minute",
		"- {name: a, slack: {url_file: x}, group: 2h}":                                                      "2h is not possible",
		"- {name: a, slack: {url_file: x}, timeout: 1ms}":                                                   "1ms is not possible",
		"- {name: a, slack: {url_file: x}}\n- {name: a, slack: {url_file: x}}":                              "two receivers have the name a",
	} {
		_, _, err := readNotify(receivers+"\n", "enforce")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET") && !strings.Contains(receivers, "hooks") {
			t.Errorf("%s:\n%v\nnot %s", receivers, err, want)
		}
	}
}

func TestWarningsOfReceivers(t *testing.T) {
	for receivers, want := range map[string]string{
		"- {name: a, slack: {url_file: x}, rules: [login]}":                                     "no rule has the name login",
		"- {name: a, alertmanager: {url: 'http://a:9093', authorization_file: x}}":              "a secret is sent without encryption",
		"- {name: a, pagerduty: {routing_key_file: x, url: 'http://a'}}":                        "a secret is sent without encryption",
		"- {name: a, slack: {url_file: x}, rules: ['per-*']}":                                   "",
		"- {name: a, alertmanager: {url: 'http://127.0.0.1:9093', authorization_file: x}}":      "",
		"- {name: a, mail: {server: 'localhost:25', from: Weir <a@b>, to: c@d}, modes: shadow}": "",
	} {
		_, warnings, err := readNotify(receivers+"\n", "enforce")
		if err != nil || want == "" && len(warnings) > 0 || want != "" && !strings.Contains(warnings.Error(), want) {
			t.Errorf("%s:\n%v %v\nnot %s", receivers, warnings, err, want)
		}
	}
	if _, warnings, err := readNotify("- {name: a, slack: {url_file: x}}\n", "shadow"); err != nil || !strings.Contains(warnings.Error(), "gets only blocks that are enforced") {
		t.Errorf("%v %v", warnings, err)
	}
}

func TestReceiversAreResolved(t *testing.T) {
	c, _, err := readNotify("- {name: a, slack: {url_file: x}}\n- {name: b, mail: {server: 'mail:465', from: a@b, to: [c@d, e@f]}}\n- {name: c, mail: {server: '[::1]:25', from: a@b, to: c@d}}\n", "enforce")
	if err != nil {
		t.Fatal(err)
	}
	if c.Notify[0].Slack.URLFile != "/etc/weir/x" || c.Notify[1].Mail.Encryption() != notify.MailImplicit || c.Notify[2].Mail.Encryption() != notify.MailOffered || len(c.Notify[1].Mail.To) != 2 {
		t.Errorf("%+v", c.Notify)
	}
	if named := c.NamedFiles(); len(named) != 1 || named[0].Key != "notify.0.slack.url_file" {
		t.Errorf("%+v", named)
	}
}

// A mail server may look at a mail for a while before it accepts it.
func TestMailHasMoreTime(t *testing.T) {
	for receiver, want := range map[string]time.Duration{
		"- {name: a, slack: {url_file: x}}":                                             10 * time.Second,
		"- {name: a, mail: {server: '127.0.0.1:25', from: a@b, to: c@d}}":               time.Minute,
		"- {name: a, mail: {server: '127.0.0.1:25', from: a@b, to: c@d}, timeout: 20s}": 20 * time.Second,
	} {
		c, _, err := readNotify(receiver+"\n", "enforce")
		if err != nil || time.Duration(c.Notify[0].Timeout) != want {
			t.Errorf("%s: %v %v", receiver, c.Notify[0].Timeout, err)
		}
	}
}

// The page has an event's row for each event.
func TestDocumentedEvents(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("../../../docs", "notifications.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range notify.Events {
		if !strings.Contains(string(page), "| `"+event+"` |") {
			t.Errorf("docs/notifications.md does not have %s", event)
		}
	}
}
