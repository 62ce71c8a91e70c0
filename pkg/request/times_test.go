package request

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	clf := func(s string) (int64, bool) { return timeCLF(s, berlin) }
	iso := func(s string) (int64, bool) { return timeISO(s, berlin) }
	guess := func(s string) (int64, bool) { return timeAny(s, berlin) }
	tests := []struct {
		read func(string) (int64, bool)
		text string
		want string // RFC 3339; empty when it is refused
	}{
		{clf, "17/Apr/2018:06:25:06 +0000", "2018-04-17T06:25:06Z"},
		{clf, "17/Apr/2018:06:25:06 -0730", "2018-04-17T13:55:06Z"},
		{clf, "17/Apr/2018:06:25:06.9999 +0000", "2018-04-17T06:25:06.999Z"},
		{clf, "06/Feb/2009:12:14:14.655", "2009-02-06T12:14:14.655+01:00"},
		{clf, "06/Jul/2009:12:14:14.655", "2009-07-06T12:14:14.655+02:00"},
		{clf, "25/Oct/2026:02:30:00", "2026-10-25T02:30:00+02:00"}, // that hour occurs twice
		{clf, "25/Oct/2026:01:59:59", "2026-10-25T01:59:59+02:00"},
		{clf, "25/Oct/2026:03:00:00", "2026-10-25T03:00:00+01:00"},
		{clf, "29/Feb/2024:00:00:00 +0000", "2024-02-29T00:00:00Z"},
		{clf, "29/Feb/2023:00:00:00 +0000", ""},
		{clf, "31/Dec/2016:23:59:60 +0000", "2017-01-01T00:00:00Z"},
		{clf, "00/Apr/2018:06:25:06 +0000", ""},
		{clf, "17/apr/2018:06:25:06 +0000", ""},
		{clf, "17/Apr/2018:24:25:06 +0000", ""},
		{clf, "17/Apr/2018:06:60:06 +0000", ""},
		{clf, "17/Apr/2018:06:25:61 +0000", ""},
		{clf, "17/Apr/2018:06:25:06 +000", ""},
		{clf, "17/Apr/2018:06:25:06 +0060", ""},
		{clf, "17/Apr/2018:06:25:06 ", ""},
		{clf, "17/Apr/2018:06:25:06+0000", ""},
		{clf, "17/Apr/2018:06-25-06 +0000", ""},
		{clf, "-", ""},
		{clf, "", ""},
		{iso, "2018-04-17T06:25:06Z", "2018-04-17T06:25:06Z"},
		{iso, "2018-04-17t06:25:06z", "2018-04-17T06:25:06Z"},
		{iso, "2018-04-17T06:25:06.186641Z", "2018-04-17T06:25:06.186Z"},
		{iso, "2018-04-17T06:25:06,186641987+02:00", "2018-04-17T06:25:06.186+02:00"},
		{iso, "2018-04-17 06:25:06 +0530", "2018-04-17T06:25:06+05:30"},
		{iso, "2018-04-17 06:25:06 UTC", "2018-04-17T06:25:06Z"},
		{iso, "2018-04-17T06:25:06+02", "2018-04-17T06:25:06+02:00"},
		{iso, "2018-04-17T06:25:06", "2018-04-17T06:25:06+02:00"},
		{iso, "2018-04-17T06:25:06.", ""},
		{iso, "2018-04-17T06:25:06.1x", ""},
		{iso, "2018-04-17T06:25:06+24:00", ""},
		{iso, "2018-04-17_06:25:06Z", ""},
		{iso, "2018-04-17T06:25", ""},
		{iso, "1969-12-31T23:59:59.999Z", ""},
		{iso, "1970-01-01T00:00:00+00:01", ""},
		{iso, "1969-12-31T23:59:59.999-00:01", "1970-01-01T00:00:59.999Z"},
		{iso, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
		{iso, "2109-05-15T07:35:11.103Z", "2109-05-15T07:35:11.103Z"},
		{iso, "2109-05-15T07:35:11.104Z", ""},
		{iso, "9999-12-31T00:00:00Z", ""},
		{timeUnix, "1700000000", "2023-11-14T22:13:20Z"},
		{timeUnix, "1700000000.123456", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1700000000.9", "2023-11-14T22:13:20.9Z"},
		{timeUnix, "1700000000123", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1700000000123.9", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1700000000123456", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1700000000123456789", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1.700000000123E9", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "1.7e+9", "2023-11-14T22:13:20Z"},
		{timeUnix, "1.700000000123456E12", "2023-11-14T22:13:20.123Z"},
		{timeUnix, "0", "1970-01-01T00:00:00Z"},
		{timeUnix, "4398046511.103", "2109-05-15T07:35:11.103Z"},
		{timeUnix, "4398046511.104", ""},
		{timeUnix, "9223372036854775807", ""},
		{timeUnix, "9223372036854775808", ""},
		{timeUnix, "-1", ""},
		{timeUnix, "1700000000.", "2023-11-14T22:13:20Z"},
		{timeUnix, "1700000000.x", ""},
		{timeUnix, "1700000000 ", ""},
		{timeUnix, "17e-1", ""},
		{timeUnix, "1.7e99", ""},
		{timeUnix, "e", ""},
		{timeUnix, "", ""},
		{guess, "17/Apr/2018:06:25:06 +0000", "2018-04-17T06:25:06Z"},
		{guess, "2018-04-17T06:25:06Z", "2018-04-17T06:25:06Z"},
		{guess, "1700000000.123", "2023-11-14T22:13:20.123Z"},
		{guess, "yesterday morning", ""},
		{guess, "", ""},
		{sumOfColumns, "2019-12-04 21:02:31", "2019-12-04T21:02:31Z"},
		{sumOfColumns, "2019-12-04 21:02:31.25", "2019-12-04T21:02:31.25Z"},
		{sumOfColumns, "2019-12-4 21:02:31", ""},
		{sumOfColumns, "2019-12-04 21:02", ""},
		{sumOfColumns, "2019-12-04 21:02:31Z", ""},
	}
	for _, test := range tests {
		got, ok := test.read(test.text)
		switch {
		case ok != (test.want != ""):
			t.Errorf("%q: read %v", test.text, ok)
		case ok && got != milli(test.want):
			t.Errorf("%q: %s, want %s", test.text, time.UnixMilli(got).UTC().Format(time.RFC3339Nano), test.want)
		}
	}
}

func sumOfColumns(s string) (int64, bool) {
	date, clock, _ := strings.Cut(s, " ")
	day, dayOK := timeDay(date)
	rest, clockOK := timeOfDay(clock)
	return day + rest, dayOK && clockOK
}

func TestCutSyslog(t *testing.T) {
	tests := []struct{ record, message string }{
		{"<190>Feb  6 12:14:14 host nginx: 1.2.3.4 - -", "1.2.3.4 - -"},
		{"<150>Apr 12 03:19:03 haproxy[31393]: 1.2.3.4:5", "1.2.3.4:5"},
		{"<34>1 2003-10-11T22:14:15.003Z host su - ID47 - message: of it", "message: of it"},
		{`<34>1 2003-10-11T22:14:15Z h a p m [x a="\]"][y] message`, "message"},
		{`<34>1 2003-10-11T22:14:15Z h a p m -`, ""},
		{`<34>1 2003-10-11T22:14:15Z h a p m [x`, `<34>1 2003-10-11T22:14:15Z h a p m [x`},
		{"1.2.3.4 - - [x] no header: here", "1.2.3.4 - - [x] no header: here"},
		{`<190>Feb  6 12:14:14 host {"a": 1}`, `{"a": 1}`},
		{`<190>2026-02-06T12:14:14.1Z host {"a": 1}`, `{"a": 1}`},
		{`<190>Feb  6 12:14:14 host 1.2.3.4 "GET /a: HTTP/1.1"`, `1.2.3.4 "GET /a: HTTP/1.1"`},
		{"<190>Feb  6 12:14:14 host  nginx[7]:  1.2.3.4 - -", " 1.2.3.4 - -"},
		{"<190>Feb  6 12:14:14 host 1.2.3.4 - x: 5.6.7.8 - - [t]", "1.2.3.4 - x: 5.6.7.8 - - [t]"},
		{"<190>Feb  6 12:14:14 host nginx 1.2.3.4 - x: 5.6.7.8 - - [t]", "nginx 1.2.3.4 - x: 5.6.7.8 - - [t]"},
		{"<190>Feb  6 12:14:14 host 2001:db8:1:2:: - - [t]", "2001:db8:1:2:: - - [t]"},
		{"<134>2026-02-06T12:14:14.1Z 1.2.3.4:5 [t] f {x: 5.6.7.8:9 [t] f", "[t] f {x: 5.6.7.8:9 [t] f"}, // CutTime finds the client
		{`Feb  6 12:14:14 host {"a": 1}`, `Feb  6 12:14:14 host {"a": 1}`},
		{`<190>Feb  6 12:14:14 host`, `<190>Feb  6 12:14:14 host`},
		{`<190>2026-02-06T12:14:14.1Z`, `<190>2026-02-06T12:14:14.1Z`},
		{"<190>1.2.3.4 - - [x] no time: here", "1.2.3.4 - - [x] no time: here"},
		{`<190>{"a": 1}`, `{"a": 1}`},
		{"<x", "<x"},
		{"<150>", ""},
		{"", ""},
	}
	for _, test := range tests {
		header, message := CutSyslog(test.record)
		if message != test.message || header+message != test.record {
			t.Errorf("%q: header %q, message %q", test.record, header, message)
		}
	}
}

func TestCutBareTag(t *testing.T) {
	tests := []struct{ record, rest string }{
		{"<190>Feb  6 12:14:14 host nginx 1.2.3.4 - -", "1.2.3.4 - -"},
		{"<190>2026-02-06T12:14:14.1Z host nginx[7] 1.2.3.4 - -", "1.2.3.4 - -"},
		{"<190>Feb  6 12:14:14 host shop.example 1.2.3.4 - -", "1.2.3.4 - -"},
		{"<190>Feb  6 12:14:14 host nginx: shop.example 1.2.3.4 - -", ""},
		{"<190>Feb  6 12:14:14 host 1.2.3.4 - -", ""},
		{"<190>Feb  6 12:14:14 host fe80::1 - -", ""},
		{`<190>Feb  6 12:14:14 host {"a": 1}`, ""},
		{"<190>nginx 1.2.3.4 - -", ""},
		{"Feb  6 12:14:14 host nginx 1.2.3.4 - -", ""},
		{"nginx 1.2.3.4 - -", ""},
		{"", ""},
	}
	for _, test := range tests {
		_, message := CutSyslog(test.record)
		if rest, ok := CutBareTag(test.record, message); rest != test.rest || ok != (rest != "") {
			t.Errorf("%q: %q %v", test.record, rest, ok)
		}
	}
}

func TestCutTime(t *testing.T) {
	for record, want := range map[string]string{
		"<134>2026-11-23T02:21:12.739645+00:00 192.0.2.1:4711 [x": "192.0.2.1:4711 [x",
		"2026-11-23T02:21:12Z [2001:db8::1]:4711 [x":              "[2001:db8::1]:4711 [x",
		"2026-11-23T02:21:12Z 192.0.2.1 1.2.3.4:5 [x":             "",
		"2026-11-23T02:21:12Z web1 192.0.2.1:4711 [x":             "",
		"<134>192.0.2.1:4711 [x":                                  "",
		"192.0.2.1:4711 [x":                                       "",
		"2026-11-23T02:21:12Z":                                    "",
		"":                                                        "",
	} {
		if rest, ok := CutTime(record); ok != (want != "") || ok && rest != want {
			t.Errorf("%q: %q %v", record, rest, ok)
		}
	}
}

// The standard library is the slow twin of our own reading.
func TestTimesAgreeWithTheStandardLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		want := random.Int64N(timeEnd)
		zone := time.FixedZone("", (random.IntN(27*4)-13*4)*15*60)
		at := time.UnixMilli(want).In(zone)
		second := want - want%1000
		texts := []struct {
			text string
			read func(string, *time.Location) (int64, bool)
			want int64
		}{
			{at.Format("02/Jan/2006:15:04:05 -0700"), timeCLF, second},
			{at.Format("02/Jan/2006:15:04:05.000"), func(s string, _ *time.Location) (int64, bool) { return timeCLF(s, zone) }, want},
			{at.Format("2006-01-02T15:04:05.000Z07:00"), timeISO, want},
			{at.Format("2006-01-02 15:04:05.000000 -0700"), timeISO, want},
			{fmt.Sprintf("%d.%03d", want/1000, want%1000), timeAny, want},
		}
		for _, text := range texts {
			got, ok := text.read(text.text, time.UTC)
			if !ok || got != text.want {
				t.Fatalf("%q: %d %v, want %d", text.text, got, ok, text.want)
			}
		}
	}
}

func TestTimesAllocateNothing(t *testing.T) {
	for _, text := range []string{"17/Apr/2018:06:25:06 +0000", "06/Feb/2009:12:14:14.655", "2018-04-17T06:25:06.123+02:00", "1.700000000123E9", "rubbish, rubbish"} {
		if n := testing.AllocsPerRun(100, func() { timeAny(text, berlin) }); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}

// A time in a custom format may be HAProxy's, which has a fraction and no zone, whatever stands before it.
func TestTimeOfHAProxyInAFormat(t *testing.T) {
	for _, c := range []struct{ format, line, want, user string }{
		{`$remote_addr [$time_local] "$request" $status`, `203.0.113.7 [25/Feb/2019:16:19:48.143] "GET / HTTP/1.1" 200`, "2019-02-25T16:19:48.143+01:00", ""},
		{`$remote_addr [$time_local] "$request" $status`, `203.0.113.7 [25/Feb/2019:16:19:48.143 +0000] "GET / HTTP/1.1" 200`, "2019-02-25T16:19:48.143Z", ""},
		{`$remote_addr [$time_local] "$request" $status`, `203.0.113.7 [25/Feb/2019:16:19:48 +0000] "GET / HTTP/1.1" 200`, "2019-02-25T16:19:48Z", ""},
		{`$remote_addr - $remote_user [$time_local] "$request" $status`, `203.0.113.7 - a [25/Feb/2019 [ [25/Feb/2019:16:19:48.143] "GET / HTTP/1.1" 200`, "2019-02-25T16:19:48.143+01:00", "a [25/Feb/2019 ["},
		{`$remote_addr $remote_user [$time_local] $scheme "$request"`, `203.0.113.7 x [ [25/Feb/2019:16:19:48.143] https "GET / HTTP/1.1"`, "2019-02-25T16:19:48.143+01:00", "x ["},
		{`$remote_addr $remote_user [$time_local] $scheme "$request"`, `203.0.113.7 x [ [25/Feb/2019:16:19:48 +0000] https "GET / HTTP/1.1"`, "2019-02-25T16:19:48Z", "x ["},
		{`%h %u %t "%r" %>s`, `203.0.113.7 - [25/Feb/2019:16:19:48.1] "GET / HTTP/1.1" 200`, "2019-02-25T16:19:48.100+01:00", ""},
	} {
		got := parsed(t, mustParser(t, c.format, Options{Zone: berlin}), c.line)
		if got.UnixMilli != milli(c.want) || got.IP.String() != "203.0.113.7" || got.User != c.user || got.Path != "/" {
			t.Errorf("%s: %+v", c.line, got)
		}
	}
	if got := reasonOf(mustParser(t, `$remote_addr [$time_local] "$request"`, Options{}), `203.0.113.7 [25/Feb/2019:16:19:48.] "GET /"`); got != "time" {
		t.Errorf("reason %q", got)
	}
}
