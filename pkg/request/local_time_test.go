package request

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// haproxyAt is a line of HAProxy with a local time.
func haproxyAt(local string) string {
	return `203.0.113.7:333 [` + local + `] f b/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`
}

// In the night in which clocks go back, a client that asks every 12 s is read as asking every 12 s.
func TestRepeatedHour(t *testing.T) {
	for name, zone := range map[string]*time.Location{"Berlin": berlin, "Lord Howe": mustZone(t, "Australia/Lord_Howe")} {
		at := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)
		if name != "Berlin" {
			at = time.Date(2026, 4, 4, 13, 0, 0, 0, time.UTC)
		}
		d := newDecoder(t, "none", "haproxy", Options{Zone: zone})
		for end := at.Add(5 * time.Hour); at.Before(end); at = at.Add(12 * time.Second) {
			// Lines stand in the order in which requests ended: some began up to 9 minutes before.
			began := at.Add(-time.Duration(at.Unix()/12%5*at.Unix()%540) * time.Second)
			var r Request
			line := haproxyAt(began.In(zone).Format("02/Jan/2006:15:04:05.000"))
			if err := d.Decode(line, &r); err != nil || r.Began() != began.UnixMilli() {
				t.Fatalf("%s: %s of %s is %s, %v", name, line, began.UTC(), time.UnixMilli(r.Began()).UTC(), err)
			}
		}
	}
}

// In that night, a request that a client holds open for hours is read with its end, and none after it is read wrongly.
func TestRepeatedHourWithLongRequests(t *testing.T) {
	d := newDecoder(t, "none", "haproxy", Options{Zone: berlin})
	at := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)
	for end := at.Add(5 * time.Hour); at.Before(end); at = at.Add(12 * time.Second) {
		took := time.Duration(at.Unix()/12%7*at.Unix()%10_800) * time.Second
		began := at.Add(-took).In(berlin).Format("02/Jan/2006:15:04:05.000")
		line := strings.Replace(haproxyAt(began), "/10 ", fmt.Sprintf("/%d ", took.Milliseconds()), 1)
		var r Request
		if err := d.Decode(line, &r); err != nil || r.UnixMilli != at.UnixMilli() {
			t.Fatalf("%s ended at %s: read as %s, %v", line, at, time.UnixMilli(r.UnixMilli).UTC(), err)
		}
	}
}

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Without further information the time is the first of the two, unless the line's header shows the other.
func TestRepeatedHourAtTheBeginning(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{haproxyAt("25/Oct/2026:02:30:00.000"), "2026-10-25T00:30:00Z"},
		{"<134>Oct 25 02:30:00 l haproxy[1]: " + haproxyAt("25/Oct/2026:02:30:00.000"), "2026-10-25T00:30:00Z"},
		{"2026-10-25T02:30:01.5+02:00 l haproxy[1]: " + haproxyAt("25/Oct/2026:02:30:00.000"), "2026-10-25T00:30:00Z"},
		{"2026-10-25T02:30:01.5+01:00 l haproxy[1]: " + haproxyAt("25/Oct/2026:02:30:00.000"), "2026-10-25T01:30:00Z"},
		{"<134>1 2026-10-25T01:30:01Z l haproxy 1 - - " + haproxyAt("25/Oct/2026:02:30:00.000"), "2026-10-25T01:30:00Z"},
	} {
		d := newDecoder(t, "none", "haproxy", Options{Zone: berlin})
		for range 2 {
			var r Request
			if err := d.Decode(test.line, &r); err != nil || r.Began() != milli(test.want) {
				t.Errorf("%s: %s, %v; want %s", test.line, time.UnixMilli(r.Began()).UTC(), err, test.want)
			}
			d.Forget()
		}
	}
}

// A time that is far ahead is forgotten with the next line, and a time that names its zone is exact.
func TestRepeatedHourIsNoOtherHour(t *testing.T) {
	d := newDecoder(t, "none", "haproxy", Options{Zone: berlin})
	for _, test := range []struct{ local, want string }{
		{"26/Oct/2026:12:00:00.000", "2026-10-26T11:00:00Z"},
		{"25/Oct/2026:01:59:50.000", "2026-10-24T23:59:50Z"},
		{"25/Oct/2026:02:00:10.000", "2026-10-25T00:00:10Z"},
		{"25/Oct/2026:01:50:00.000", "2026-10-24T23:50:00Z"},
		{"25/Oct/2026:02:59:59.000", "2026-10-25T00:59:59Z"},
		{"25/Oct/2026:02:00:01.000", "2026-10-25T01:00:01Z"},
		{"25/Oct/2026:02:59:58.000", "2026-10-25T00:59:58Z"},
		{"25/Oct/2026:03:00:00.000", "2026-10-25T02:00:00Z"},
	} {
		var r Request
		if err := d.Decode(haproxyAt(test.local), &r); err != nil || r.Began() != milli(test.want) {
			t.Errorf("%s: %s, %v; want %s", test.local, time.UnixMilli(r.Began()).UTC(), err, test.want)
		}
	}
	combined := mustParser(t, "combined", Options{Zone: berlin})
	for _, zone := range []string{"+0200", "+0100", "+0200"} {
		line := strings.Replace(aliceLine, aliceLine[strings.Index(aliceLine, "["):strings.Index(aliceLine, "]")], "[25/Oct/2026:02:30:00 "+zone, 1)
		r := parsed(t, combined, line)
		if want := milli("2026-10-25T02:30:00" + zone[:3] + ":00"); r.UnixMilli != want {
			t.Errorf("%s: %d, want %d", line, r.UnixMilli, want)
		}
	}
}

// In the night in which clocks go back, JSON whose times have no zone is read in the right one of the two hours.
func TestRepeatedHourInJSON(t *testing.T) {
	for name, test := range map[string]struct{ line, layout string }{
		"time":       {line: `{"time":"%s","ip":"203.0.113.7","method":"GET","path":"/","status":200}`, layout: "2006-01-02 15:04:05"},
		"fraction":   {line: `{"time":"%s","ip":"203.0.113.7","method":"GET","path":"/","status":200}`, layout: "2006-01-02T15:04:05,000"},
		"time_local": {line: `{"time_local":"%s","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1","status":200}`, layout: "02/Jan/2006:15:04:05"},
		"zone":       {line: `{"time":"%s","ip":"203.0.113.7","method":"GET","path":"/","status":200}`, layout: "2006-01-02T15:04:05-07:00"},
	} {
		d := newDecoder(t, "none", "json", Options{Zone: berlin})
		at := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)
		for end := at.Add(5 * time.Hour); at.Before(end); at = at.Add(12 * time.Second) {
			late := time.Duration(at.Unix()/12%5*at.Unix()%540) * time.Second // lines slightly out of order
			logged := at.Add(-late)
			line := fmt.Sprintf(test.line, logged.In(berlin).Format(test.layout))
			var r Request
			if err := d.Decode(line, &r); err != nil || r.UnixMilli != logged.UnixMilli() {
				t.Fatalf("%s: %s of %s is %s, %v", name, line, logged.UTC(), time.UnixMilli(r.UnixMilli).UTC(), err)
			}
		}

		d.Forget()
		line := fmt.Sprintf(test.line, time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC).In(berlin).Format(test.layout))
		var r Request
		if err := d.Decode(line, &r); err != nil || r.UnixMilli != milli("2026-10-25T00:30:00Z") {
			t.Errorf("%s: at the beginning of a log, %s is %s, %v", name, line, time.UnixMilli(r.UnixMilli).UTC(), err)
		}
	}
}
