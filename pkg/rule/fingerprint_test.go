package rule_test

import (
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/rule"
)

const fingerprinted = `
rules:
  - name: a
    description: words
    match: 'path startsWith "/api/" and status == 200'
    key: [ip/24+56, user]
    limits: [10/min, 100/hour]
    algorithm: {name: counter, subwindows: 5}
    cost: 'bytes / 1024'
    count: all
    block: {for: 10m, then: [1h, 1d], forget: 24h, extend: false, covers: all}
    mode: enforce
  - {name: b, key: ip, limits: [5/s], algorithm: {name: token, burst: 7}}
allow:
  - {ip: [10.0.0.0/8, 192.0.2.1], user: [x, y], host: [h, i], rules: [a, b], until: 2027-03-01, match: 'agent == ""', note: words}
`

func TestFingerprintIsOfTheMeaning(t *testing.T) {
	want := mustParse(t, fingerprinted).Fingerprint()
	if len(want) != 16 {
		t.Errorf("%s", want)
	}
	same := [][2]string{
		{"description: words", "description: other words"},
		{"note: words", "note: others"},
		{"rules:\n  - name: a\n    description: words", "# comment\nrules:\n  - description: words\n    name: a"},
		{`match: 'path startsWith "/api/" and status == 200'`, `match: path  startsWith '/api/' and status==200`},
		{"    count: all\n", ""},
		{"    mode: enforce\n", "    mode:   'enforce'  # as ever\n"},
		{", extend: false, covers: all}", "}"},
		{"for: 10m", "for: 600s"},
		{"10/min", "10/60s"},
		{"100/hour", " 100 / h"},
		{"key: ip,", "key: [ip/32+64], cost: 1, "},
		{"[10.0.0.0/8, 192.0.2.1]", "[192.0.2.1, 10.0.0.0/8, 192.0.2.1/32]"},
		{"user: [x, y], host: [h, i], rules: [a, b]", "rules: [b, a], user: [y, x], host: [I, 'H:80']"},
		{"2027-03-01", "2027-03-01T01:00:00+01:00"},
	}
	for _, change := range same {
		if got := mustParse(t, changed(t, change)).Fingerprint(); got != want {
			t.Errorf("%s changes the fingerprint", change[1])
		}
	}
}

func TestFingerprintChangesWithAnyDecision(t *testing.T) {
	seen := map[string]string{mustParse(t, fingerprinted).Fingerprint(): "as it was"}
	different := [][2]string{
		{"name: a\n    d", "name: b2\n    d"}, {`"/api/"`, `"/api"`}, {`"/api/" and`, `"/api/" or`}, {"[ip/24+56, user]", "[user, ip/24+56]"},
		{"ip/24+56", "ip/24+64"}, {"[10/min, 100/hour]", "[100/hour, 10/min]"}, {"100/hour", "101/hour"}, {"100/hour", "100/2h"}, {"name: counter, subwindows: 5", "name: fixed"},
		{"subwindows: 5", "subwindows: 6"}, {"bytes / 1024", "bytes / 1025"}, {"count: all", "count: served"}, {"for: 10m", "for: 11m"},
		{"then: [1h, 1d]", "then: [1h]"}, {"forget: 24h", "forget: 25h"}, {"extend: false", "extend: true"}, {"covers: all", "covers: match"},
		{"mode: enforce", "mode: shadow"}, {"burst: 7", "burst: 8"}, {"10.0.0.0/8", "10.0.0.0/9"}, {"[x, y]", "[x, z]"}, {"[h, i]", "[h]"},
		{", rules: [a, b]", ", rules: [a]"}, {", rules: [a, b]", ""}, {", until: 2027-03-01", ""}, {"2027-03-01", "2027-03-02"}, {`agent == ""`, `agent == "x"`}, {", match: 'agent == \"\"'", ""},
		{"- {name: b, key: ip, limits: [5/s], algorithm: {name: token, burst: 7}}\n", "- {name: b, key: ip, limits: [5/s], algorithm: {name: token, burst: 7}}\n  - {name: c, key: ip, limits: [5/s]}\n"},
	}
	for _, change := range different {
		text := changed(t, change)
		if strings.Contains(change[1], "b2") {
			text = strings.Replace(text, "rules: [a, b]", "rules: [b2, b]", 1)
		}
		got := mustParse(t, text).Fingerprint()
		if other, twice := seen[got]; twice {
			t.Errorf("%s has the fingerprint of %s", change[1], other)
		}
		seen[got] = change[1]
	}
}

func changed(t *testing.T, change [2]string) string {
	t.Helper()
	if !strings.Contains(fingerprinted, change[0]) {
		t.Fatalf("there is no %s to change", change[0])
	}
	return strings.Replace(fingerprinted, change[0], change[1], 1)
}

func TestFingerprintHasFilesInIt(t *testing.T) {
	load := func(files map[string]string) string {
		set, _, err := rule.Load(filepath.Join(folder(t, files), "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return set.Fingerprint()
	}
	const a, b = "rules: [{name: a, key: ip, limits: [1/s]}]\nallow: [{ip: {file: FILE}}]\n", "rules: [{name: b, key: ip, limits: [1/s]}]\n"
	first := load(map[string]string{"1.yaml": strings.Replace(a, "FILE", "x", 1), "2.yaml": b, "x": "10.0.0.0/8 # ours\n192.0.2.1"})
	again := load(map[string]string{"8.yaml": strings.Replace(a, "FILE", "y", 1), "9.yaml": b, "y": "192.0.2.1\n\n10.0.0.0/8"})
	content := load(map[string]string{"1.yaml": strings.Replace(a, "FILE", "x", 1), "2.yaml": b, "x": "10.0.0.0/8\n192.0.2.2"})
	order := load(map[string]string{"1.yaml": b, "2.yaml": strings.Replace(a, "FILE", "x", 1), "x": "10.0.0.0/8\n192.0.2.1"})
	if first != again || first == content || first == order {
		t.Errorf("%s %s %s %s", first, again, content, order)
	}
}
