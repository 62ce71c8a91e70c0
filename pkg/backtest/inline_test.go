package backtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/pkg/window"
)

const (
	quota         = "{name: quota, key: ip, limits: [3/min], inline: true}"
	quotaIsInline = "rule quota is decided inline; it is left out here"
)

// An inline rule counts nothing of a log, and each form of the report has the sentence about it.
func TestInlineRulesAreLeftOut(t *testing.T) {
	const perIP = "{name: per-ip, key: ip, limits: [7/min]}"
	for rules, refused := range map[string]int64{quota: 0, quota + ", " + perIP: 3, "{name: quota, key: ip, limits: [3/min], inline: {also: log}}": 7} {
		r := runConfig(t, Config{
			Rules: parseRules(t, "rules: ["+rules+"]"), Inputs: []Input{fromText("log", burst("192.0.2.1", "/", noon, 10))}, Algorithms: []window.Algorithm{window.Fixed}, Timelines: true,
		})
		if r.Refused != refused {
			t.Errorf("%s: %d refused, want %d", rules, r.Refused, refused)
		}
		wanted := 0
		if strings.HasPrefix(rules, quota) {
			wanted = 1
		}

		var text, page strings.Builder
		if err := r.WriteText(&text, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteHTML(&page, HTMLOptions{}); err != nil {
			t.Fatal(err)
		}
		for form, written := range map[string]string{"text": text.String(), "page": page.String()} {
			if got := strings.Count(written, quotaIsInline); got != wanted {
				t.Errorf("%s: the %s has the sentence %d times:\n%s", rules, form, got, written)
			}
		}
		if rules == quota && (strings.Contains(text.String(), "quota  ") || strings.Contains(page.String(), "No key broke a limit")) {
			t.Errorf("the rule looks like one that never matched:\n%s", text.String())
		}

		encoded, err := json.Marshal(r.Rules[0])
		if err != nil || strings.Contains(string(encoded), `"inline":true`) != (wanted == 1) || wanted == 1 && len(r.Rules[0].Uncounted) > 0 {
			t.Errorf("%s: %s, %v", rules, encoded, err)
		}
	}
}

// A rule that becomes inline is compared with what it blocked; one that stays inline is not compared, and is no other
// name of a rule with its key.
func TestInlineRulesAgainstOthers(t *testing.T) {
	const counted = "{name: quota, key: ip, limits: [3/min]}"
	for name, test := range map[string]struct{ before, after, want string }{
		"becomes inline":  {counted, quota, "quota: 1 0"},
		"was inline":      {quota, counted, "quota: 0 1"},
		"stays inline":    {quota, quota, ""},
		"another name":    {quota, "{name: other, key: ip, limits: [3/min]}", "other (new): 0 1"},
		"only afterwards": {"{name: other, key: ip, limits: [3/min]}", quota, "other (gone): 1 0"},
	} {
		r := runConfig(t, Config{
			Rules: parseRules(t, "rules: ["+test.after+"]"), Against: parseRules(t, "rules: ["+test.before+"]"),
			Inputs: []Input{fromText("log", burst("192.0.2.1", "/", noon, 10))},
		})
		var got []string
		for _, c := range r.Against.Changes {
			got = append(got, fmt.Sprintf("%s: %d %d", c.name(), len(c.OnlyBefore), len(c.OnlyAfter)))
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, "|"), test.want)
		}
		var text strings.Builder
		if err := r.WriteText(&text, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(text.String(), quotaIsInline), strings.Count(test.before+test.after, "inline"); got != want {
			t.Errorf("%s: the sentence is there %d times, want %d:\n%s", name, got, want, text.String())
		}
	}
}

// A test of rules cannot expect anything of an inline rule: "never blocked" would always hold.
func TestATestOfAnInlineRuleIsAFault(t *testing.T) {
	const tests = "\ntests:\n  - name: one\n    requests: [{ip: 203.0.113.7, repeat: 5 every 10s}]\n    "
	const both = "rules: [" + quota + ", {name: per-user, key: user, limits: [2/min]}, {name: per-ip, key: ip, limits: [4/min]}]" + tests
	const only = "rules: [" + quota + "]" + tests
	for text, want := range map[string]string{
		both + "blocked: [{rule: quota, key: 203.0.113.7}]":                                            quotaIsInline,
		both + "never: [{rule: quota, key: 203.0.113.8}]":                                              quotaIsInline,
		only + "never: [203.0.113.7]":                                                                  quotaIsInline,
		both + "blocked: [{rule: per-ip, key: 203.0.113.7, at: 40s}]":                                  "",
		both + "blocked: [{key: 203.0.113.7, at: 40s, limit: 4/min}]":                                  "",
		only + "never: others":                                                                         "",
		strings.ReplaceAll(only, "true", "{also: log}") + "blocked: [{rule: quota, key: 203.0.113.7}]": "",
	} {
		report, err := runTests(t, text)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ":5:") {
				t.Errorf("%s\n%v, want %s", text, err, want)
			}
			continue
		}
		if err != nil || report.Failed() > 0 {
			t.Errorf("%s\n%v, %+v", text, err, report)
			continue
		}
		var written strings.Builder
		if err := report.WriteText(&written, false); err != nil || strings.Contains(written.String(), quotaIsInline) != strings.Contains(text, "inline: true") {
			t.Errorf("%s\n%s", text, written.String())
		}
	}
}

// A failure lists how far each rule was from blocking: not the rules that are left out.
func TestAFailureDoesNotListInlineRules(t *testing.T) {
	report, err := runTests(t, "rules: ["+quota+", {name: per-ip, key: ip, limits: [9/min]}]\ntests:\n  - {name: one, requests: [{ip: 203.0.113.7}], blocked: [{key: 203.0.113.7}]}")
	if err != nil || report.Failed() != 1 {
		t.Fatalf("%v, %+v", err, report)
	}
	if got := report.Cases[0].Failures[0].Got; got != "it was not blocked; per-ip counted 1 request of 1 key" {
		t.Error(got)
	}
}
