package replay

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
)

const later = 1798761599_987 // 2026-12-31T23:59:59.987Z

// movable has lines of all forms with the moved lines.
var movable = []struct{ envelope, format, zone, line, want string }{
	{"none", "combined", "UTC",
		`203.0.113.7 - - [03/Mar/2026:08:00:00 +0100] "GET /?at=03/Mar/2026:08:00:00+0100 HTTP/1.1" 200 512 "-" "curl 1772524800"`,
		`203.0.113.7 - - [01/Jan/2027:00:59:59 +0100] "GET /?at=03/Mar/2026:08:00:00+0100 HTTP/1.1" 200 512 "-" "curl 1772524800"`},
	{"none", "haproxy", "Europe/Berlin",
		`203.0.113.7:4711 [03/Mar/2026:08:00:00.123] front back/s1 0/0/1/2/3 200 512 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`,
		`203.0.113.7:4711 [01/Jan/2027:00:59:59.984] front back/s1 0/0/1/2/3 200 512 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"`},
	{"none", "traefik-json", "UTC",
		`{"ClientHost":"203.0.113.7","DownstreamStatus":200,"Duration":600000000000,"RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-03-03T08:00:00.1234567Z","time":"2026-03-03T08:10:00Z"}`,
		`{"ClientHost":"203.0.113.7","DownstreamStatus":200,"Duration":600000000000,"RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-12-31T23:49:59.9870000Z","time":"2026-03-03T08:10:00Z"}`},
	{"none", "iis", "Europe/Berlin",
		`2026-03-03 08:00:00 10.0.0.1 GET / - 80 - 203.0.113.7 curl - 200 0 0 15`,
		`2026-12-31 23:59:59 10.0.0.1 GET / - 80 - 203.0.113.7 curl - 200 0 0 15`},
	{"none", "cloudfront", "UTC",
		"2026-03-03\t08:00:00\tFRA2\t512\t203.0.113.7\tGET\td.cloudfront.net\t/\t200\t-\tcurl\t-\t-\tHit\tid==\tshop.example\thttps\t100\t0.001\t-\tTLSv1.3\tX\tHit\tHTTP/2.0\t-\t-",
		"2026-12-31\t23:59:59\tFRA2\t512\t203.0.113.7\tGET\td.cloudfront.net\t/\t200\t-\tcurl\t-\t-\tHit\tid==\tshop.example\thttps\t100\t0.001\t-\tTLSv1.3\tX\tHit\tHTTP/2.0\t-\t-"},
	{"none", `$remote_addr $msec "$request"`, "UTC", `203.0.113.7 1772524800.12 "GET / HTTP/1.1"`, `203.0.113.7 1798761599.98 "GET / HTTP/1.1"`},
	{"none", `%h %{msec}t "%r"`, "UTC", `203.0.113.7 1772524800123 "GET / HTTP/1.1"`, `203.0.113.7 1798761599987 "GET / HTTP/1.1"`},
	{"none", `%h %{usec}t "%r"`, "UTC", `203.0.113.7 1772524800123456 "GET / HTTP/1.1"`, `203.0.113.7 1798761599987000 "GET / HTTP/1.1"`},
	{"none", "json", "UTC",
		`{"time":"2026-03-03T08:00:00.1234567+02","ip":"203.0.113.7","path":"/"}`,
		`{"time":"2027-01-01T01:59:59.9870000+02","ip":"203.0.113.7","path":"/"}`},
	{"docker", "common", "UTC",
		`{"log":"203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n","stream":"stdout","time":"2026-03-03T08:00:00.1Z"}`,
		`{"log":"203.0.113.7 - - [31/Dec/2026:23:59:59 +0000] \"GET / HTTP/1.1\" 200 1\n","stream":"stdout","time":"2026-03-03T08:00:00.1Z"}`},
	// Not in one piece, or in a form that is not known.
	{"none", `%h %{%H:%M:%S %d.%m.%Y}t "%r"`, "UTC", `203.0.113.7 08:00:00 03.03.2026 "GET / HTTP/1.1"`, ""},
}

func moverOf(t *testing.T, envelope, format, zone string) (*request.Decoder, *timeMover) {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	o := request.Options{Zone: in}
	decoder, err := request.NewDecoder(envelope, format, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newTimeMover(request.Choice{Envelope: envelope, Format: format}, o)
	if err != nil {
		t.Fatal(err)
	}
	return decoder, m
}

func TestTimesAreMovedExactly(t *testing.T) {
	for _, test := range movable {
		decoder, m := moverOf(t, test.envelope, test.format, test.zone)
		var r request.Request
		if err := decoder.Decode(test.line, &r); err != nil {
			t.Errorf("%s: %v", test.format, err)
			continue
		}
		got, ok := m.move(test.line, &r, later)
		if !ok {
			got = nil
		}
		if string(got) != test.want {
			t.Errorf("%s in %s\ngot  %s\nwant %s", test.format, test.zone, got, test.want)
		}
	}
}

// A text of the client is never taken for the time, even when it looks like one and stands before it.
func TestOnlyTheTimeIsMoved(t *testing.T) {
	decoder, m := moverOf(t, "none", `"$request" [$time_local] $remote_addr`, "UTC")
	line := `"GET /03/Mar/2026:08:00:00 HTTP/1.1" [03/Mar/2026:08:00:00 +0000] 203.0.113.7`
	var r request.Request
	if err := decoder.Decode(line, &r); err != nil {
		t.Fatal(err)
	}
	got, ok := m.move(line, &r, later)
	if want := strings.Replace(line, "[03/Mar/2026:08:00:00", "[31/Dec/2026:23:59:59", 1); !ok || string(got) != want {
		t.Errorf("got %s", got)
	}
	if got, ok := m.move(line, &r, r.UnixMilli); !ok || string(got) != line {
		t.Errorf("to where it was: %s", got)
	}
}

func TestTimesOfOTLPStay(t *testing.T) {
	if _, err := newTimeMover(request.Choice{Envelope: "otlp", Format: "json"}, request.Options{}); err == nil {
		t.Error("no fault")
	}
}

// FuzzMove: for every line and time, a moved line has the new time, to the precision of its form, and all other fields are
// unchanged.
func FuzzMove(f *testing.F) {
	for i, m := range movable {
		f.Add(i, m.line, int64(later))
	}
	f.Fuzz(func(t *testing.T, form int, line string, to int64) {
		if form < 0 || form >= len(movable) || to < 0 || to >= 1<<42 || movable[form].envelope == "docker" {
			return
		}
		decoder, m := moverOf(t, movable[form].envelope, movable[form].format, movable[form].zone)
		var old, got request.Request
		if decoder.Decode(line, &old) != nil {
			return
		}
		moved, ok := m.move(line, &old, to)
		if !ok {
			return
		}
		if err := decoder.Decode(string(moved), &got); err != nil || got.UnixMilli > to || got.UnixMilli <= to-1000 {
			t.Fatalf("%d: %v\n%s\n%s", got.UnixMilli-to, err, line, moved)
		}
		if got.IP != old.IP || got.Path != old.Path || got.Agent != old.Agent || got.User != old.User {
			t.Fatalf("%s\n%s", line, moved)
		}
	})
}

func BenchmarkMove(b *testing.B) {
	line := movable[0].line
	decoder, err := request.NewDecoder("none", "combined", request.Options{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := newTimeMover(request.Choice{Envelope: "none", Format: "combined"}, request.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var r request.Request
	for b.Loop() {
		if err := decoder.Decode(line, &r); err != nil {
			b.Fatal(err)
		}
		if _, ok := m.move(line, &r, later); !ok {
			b.Fatal("not moved")
		}
	}
}
