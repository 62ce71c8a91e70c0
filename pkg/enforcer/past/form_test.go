package past

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"weir/pkg/blocklist"
)

// Hostile text stays one cell, one line and one value in every form, and no spreadsheet takes it for a formula.
func TestHostileTextInForms(t *testing.T) {
	for _, text := range []string{"=1+1", "+1", "-1", "@x", "\tx", "\rx", "a,\"b\"\nc", `<script>`, "x|y\\z=1\nact=forged", "\u202egnp.exe", "\x1b[31m", strings.Repeat("a", 10_000)} {
		o := blocklist.Order{ID: "one", Kind: blocklist.OrderBlock, Scope: "user", Value: text, From: 1000, Until: blocklist.Never, By: text, Why: text}
		e := event(t, "ordered", 1000, *o.Entry())
		write := func(form string) string {
			var b strings.Builder
			w, err := NewWriter(&b, form)
			if err == nil {
				err = w.Write(e)
			}
			if err != nil {
				t.Fatal(err)
			}
			return b.String()
		}

		rows, err := csv.NewReader(strings.NewReader(write("csv"))).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != len(columns) {
			t.Fatalf("%q: %v, %v", text, rows, err)
		}
		key := rows[1][3]
		if first := key[0]; strings.IndexByte("=+-@\t\r", first) >= 0 || strings.TrimPrefix(key, "'") != text {
			t.Errorf("%q is the cell %q", text, key)
		}
		for _, form := range []string{"json", "ecs"} {
			line := write(form)
			if strings.Count(line, "\n") != 1 || !json.Valid([]byte(line)) {
				t.Errorf("%s: %q", form, line)
			}
		}
		line := write("cef")
		head, extension, _ := strings.Cut(line, "|4|")
		if strings.Count(line, "\n") != 1 || strings.Contains(line, "\r") || strings.Count(head, "|") != 5 || strings.Contains(extension, " act=forged") {
			t.Errorf("cef: %q", line)
		}
		if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("cef: %q has characters that cannot be printed", line)
		}
	}
}

// Where a semicolon ends a cell, none begins a formula either.
func TestCellsThatEndElsewhere(t *testing.T) {
	for text, want := range map[string]string{
		"a;=1+1;b": "a;'=1+1;b", "a\n=1": "a\n'=1", "a\t@x": "a\t'@x", "; -1": "; '-1", " =1": " '=1",
		"Mozilla/5.0 (X11; Linux x86_64) a=b;c=-d": "Mozilla/5.0 (X11; Linux x86_64) a=b;c=-d", "a\xff": "a\xff",
	} {
		if got := guarded(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// A row of CSV and a line of CEF tell a guarded block from one in shadow mode.
func TestGuardedBlocksInExports(t *testing.T) {
	for want, e := range map[string]blocklist.Entry{
		"":           {Mode: blocklist.Shadow},
		"most_new":   {Mode: blocklist.Shadow, Guarded: true},
		"most_share": {Mode: blocklist.Shadow, Guarded: true, ByShare: true},
	} {
		row := cells(event(t, "blocked", 1000, e))
		if len(row) != len(columns) || row[len(row)-1] != want || columns[len(row)-1] != "guarded_by" {
			t.Errorf("%s: %q", want, row)
		}
		line := asCEF(event(t, "blocked", 1000, e))
		if by := " flexString1Label=guarded_by flexString1=" + want; strings.HasSuffix(line, by) != (want != "") {
			t.Errorf("%s: %s", want, line)
		}
	}
}

// The names of ECS are those of docs/siem.md.
func TestECS(t *testing.T) {
	o := blocklist.Order{ID: "one", Kind: blocklist.OrderBlock, Scope: "user", Value: "alice", From: 1000, Until: blocklist.Never, By: "bob", Why: "stolen"}
	ended := o
	ended.Ended = 2000
	shadow := blocklist.Entry{ID: "two", Rule: "per-ip", Key: "2001:db8::/64", Fields: map[string]string{"ip": "2001:db8::/64", "path": "/a", "host": "h", "country": "x"},
		From: 1000, Until: 2000, Decided: 1500, Limit: "10/min", Count: 11, Level: 2, By: "weir", Mode: blocklist.Shadow}
	for want, e := range map[string]*Event{
		`{"@timestamp":"1970-01-01T00:00:01Z","ecs":{"version":"8.11.0"},"event":{"action":"ordered","category":["configuration"],"created":"1970-01-01T00:00:01Z","kind":"event","provider":"weir",` +
			`"reason":"stolen","start":"1970-01-01T00:00:01Z","type":["creation"]},"related":{"user":["bob","alice"]},"rule":{"name":"manual","ruleset":"weir"},"user":{"name":"bob","target":{"name":"alice"}},` +
			`"weir":{"count":0,"id":"one","key":"alice","level":0,"mode":"enforce","order":"block","source":"manual","v":1}}`: event(t, "ordered", 1000, *o.Entry()),
		`{"@timestamp":"1970-01-01T00:00:02Z","ecs":{"version":"8.11.0"},"event":{"action":"lifted","category":["configuration"],"created":"1970-01-01T00:00:01Z","kind":"event","provider":"weir",` +
			`"reason":"stolen","start":"1970-01-01T00:00:01Z","type":["deletion"]},"related":{"user":["bob","alice"]},"rule":{"name":"manual","ruleset":"weir"},"user":{"name":"bob","target":{"name":"alice"}},` +
			`"weir":{"count":0,"ended":"1970-01-01T00:00:02Z","id":"one","key":"alice","level":0,"mode":"enforce","order":"block","source":"manual","v":1}}`: event(t, "lifted", 2000, *ended.Entry()),
		`{"@timestamp":"1970-01-01T00:00:01.500Z","ecs":{"version":"8.11.0"},"event":{"action":"blocked","category":["intrusion_detection"],"created":"1970-01-01T00:00:01.500Z","end":"1970-01-01T00:00:02Z",` +
			`"kind":"alert","provider":"weir","start":"1970-01-01T00:00:01Z","type":["info"]},"rule":{"description":"10/min","name":"per-ip","ruleset":"weir"},"source":{"address":"2001:db8::/64"},` +
			`"url":{"domain":"h","path":"/a"},"weir":{"count":11,"fields":{"country":"x"},"id":"two","key":"2001:db8::/64","level":2,"mode":"shadow","source":"verdict","v":1}}`: event(t, "blocked", 1500, shadow),
	} {
		if got, err := json.Marshal(asECS(e)); err != nil || string(got) != want {
			t.Errorf("%s\nnot\n%s", got, want)
		}
	}
}
