package rule_test

import (
	"fmt"
	"testing"

	"weir/pkg/rule"
)

func TestReads(t *testing.T) {
	rule := func(words string) string { return "rules: [{name: a, limits: [1/s], " + words + "}]\n" }
	for text, want := range map[string]string{
		rule(`key: ip`): "[ip]",
		rule(`key: [ip/24, path]}, {name: b, limits: [1/s], key: tenant`):          "[ip path tenant]",
		rule(`key: ip, count: served`):                                             "[ip status weir]",
		rule(`key: ip, match: 'agent matches "x" and lower(host) == "h"'`):         "[agent host ip]",
		rule(`key: ip, cost: 'bytes / 1024 + int(fields["a-b"])'`):                 "[a-b bytes ip]",
		rule(`key: ip, match: 'let q = query; q == fields.x + fields?.y'`):         "[ip q query x y]",
		rule(`key: user, match: 'inNetwork(ip, "10.0.0.0/8")'`):                    "[inNetwork ip user]",
		rule(`key: ip, match: 'fields[user] == ""'`):                               "all",
		rule(`key: ip, match: 'len(fields) > 0 and fields.x == ""'`):               "all",
		rule(`key: ip, match: 'fields.x == "" and "y" in fields'`):                 "all",
		rule(`key: ip, match: 'any(["x"], fields[#] == "1")'`):                     "all",
		rule(`key: ip, match: 'let f = fields; f.x == "1"'`):                       "all",
		rule(`key: path`) + "allow:\n- {ip: 10.0.0.0/8}\n- {user: u}\n- {host: h}": "[host ip path user]",
		rule(`key: path`) + `allow: [{match: 'fields.k == referrer', rules: a}]`:   "[k path referrer]",
		rule(`key: path`) + `allow: [{match: 'fields[method] == "x"'}]`:            "all",
	} {
		got := "all"
		if names := mustParse(t, text).Reads(); names != nil {
			got = fmt.Sprint(names)
		}
		if got != want {
			t.Errorf("%s: reads %s, want %s", text, got, want)
		}
	}
}

func TestAsks(t *testing.T) {
	text := `rules:
- {name: a, limits: [1/s], key: [ip, host], count: served, match: 'let q = query; q contains "x" and inNetwork(ip, "10.0.0.0/8")'}
- {name: b, limits: [1/s], key: tenant, match: 'host == "h" and fields["x-y"] != "" and raw_path != ""', cost: 'max(1, bytes)'}
allow: [{host: h, match: 'agent == "a"'}]
`
	want := "[{ip [a]} {host [a b allow]} {query [a]} {tenant [b]} {x-y [b]} {path [b]} {bytes [b]} {agent [allow]}]"
	if got := fmt.Sprint(mustParse(t, text).Asks()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A field of a request can only be read by its name, since otherwise Reads would be incomplete.
func TestFieldsAreReadByTheirNamesOnly(t *testing.T) {
	for _, match := range []string{
		`$env["user"] == "u"`, `$env.fields.x == "1"`, `"user" in $env`, `get($env, "user") == "u"`, `let e = $env; e.user == "u"`,
		`any([1], $env.user == "u")`, `let fields = {"x": user}; fields.x == "u"`,
	} {
		text := "rules: [{name: a, key: ip, limits: [1/s], match: '" + match + "'}]\n"
		if _, _, err := rule.Parse("rules.yaml", []byte(text)); err == nil {
			t.Errorf("%s is taken", match)
		}
	}
}
