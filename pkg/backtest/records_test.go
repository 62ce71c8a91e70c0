package backtest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
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
		lines = AppendRecord(lines, []byte(record))
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

// A record may have any bytes, as protobuf has.
func TestRecordsOfAnyBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7))
	for range 2000 {
		record := make([]byte, random.IntN(40))
		for i := range record {
			record[i] = "\n\v\r\x00nva\xff"[random.IntN(8)]
		}
		line := AppendRecord([]byte("x\n"), record)[2:]
		if end := len(line) - 1; bytes.IndexByte(line, '\n') != end || !bytes.Equal(recordOf(line[:end]), record) {
			t.Fatalf("%q as a line is %q, and back %q", record, line, recordOf(line[:end]))
		}
	}
}

// Records of OpenTelemetry's default encoding are read, whatever lengths they have and however they end.
func TestRecordsOfProtobuf(t *testing.T) {
	field := func(number byte, value []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(value))), value...)
	}
	var lines []byte
	want := 0
	for n := 1; n <= 40; n++ {
		var scope []byte
		for i := range n {
			line := evidenceLine("192.0.2.1", "/"+strings.Repeat("x", i), "x", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			body := field(5, field(1, []byte(strings.TrimSpace(line))))
			severity := []byte{2 << 3, "\n\v\r"[n%3]}
			scope = append(scope, field(2, append(body, severity...))...)
			want++
		}
		lines = AppendRecord(lines, field(1, field(2, scope)))
	}
	in := Input{Path: "logs/0", Reader: bytes.NewReader(lines), Records: true}
	r := runConfig(t, Config{Rules: parseRules(t, "rules: [{name: a, key: ip, limits: [9/s]}]"), Inputs: []Input{in}})
	if r.Requests != int64(want) || len(r.Unread) > 0 {
		t.Errorf("%d requests of %d, unread %v", r.Requests, want, r.Unread)
	}
}
