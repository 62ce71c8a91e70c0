package backtest

import (
	"strings"
	"testing"
	"time"
)

// A record of several lines is read as a collector reads it: a client may have written all lines behind the first one
// of a program's message. In a file the same lines are lines.
func TestRecordsOfSeveralLines(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	line := func(client string) string { return evidenceLine(client, "/", "x", at) }
	records := []string{
		line("192.0.2.1"), line("192.0.2.2") + line("192.0.2.2"), "a message\n" + line("203.0.113.66"), "a message of " + line("203.0.113.67"), line("192.0.2.3") + "\r\n\n",
	}
	var lines []byte
	for _, record := range records {
		line := strings.ReplaceAll(strings.TrimRight(record, "\r\n"), "\n", string(RecordNewline))
		lines = append(append(lines, line...), '\n')
	}

	rules := parseRules(t, "rules: [{name: a, key: ip, limits: [9/s]}]")
	in := Input{Path: "logs/0", Reader: strings.NewReader(string(lines)), Records: true}
	r := runConfig(t, Config{Rules: rules, Inputs: []Input{in}, Format: "combined", Envelope: "none"})
	if r.Requests != 4 || r.Unread["address"] != 2 || r.Rules[0].Keys != 3 {
		t.Errorf("%d requests of %d keys, unread %v", r.Requests, r.Rules[0].Keys, r.Unread)
	}
	r = runConfig(t, Config{Rules: rules, Inputs: []Input{fromText("log", strings.Join(records, ""))}, Format: "combined", Envelope: "none"})
	if r.Requests != 5 || r.Rules[0].Keys != 4 {
		t.Errorf("as a file: %d requests of %d keys, unread %v", r.Requests, r.Rules[0].Keys, r.Unread)
	}
}
