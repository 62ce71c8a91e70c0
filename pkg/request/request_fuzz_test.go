package request

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkParse checks the properties of every parser and every line:
//
//   - it does not panic;
//   - the error is nil, ErrNoRequest or an Unread with one of Reasons, and allocated nowhere;
//   - the time fits in 42 bits, the address is not an IPv4-mapped one and has no zone, numbers are in their ranges;
//   - no text is the dash that stands for nothing, the path has no query, no further field is without a value;
//   - a text is a part of the line, unless the line has an escape;
//   - the request does not depend on the lines before.
func checkParse(t *testing.T, parser Parser, line string) (Request, bool) {
	t.Helper()
	var r Request
	err := parser.Parse(line, &r)
	var again = Request{User: "old", Path: "/old", Fields: []Field{{"old", "old"}, {"older", "old"}}}
	if _, other := parser.(*columns); !other {
		_ = parser.Parse(`{"garbage`, &again)
		if errAgain := parser.Parse(line, &again); errAgain != err {
			t.Fatalf("%v first, %v then", err, errAgain)
		}
	} else {
		again = r
	}
	if err != nil {
		if !errors.Is(err, ErrNoRequest) && !slices.Contains(Reasons(), Reason(err)) {
			t.Fatalf("error %v", err)
		}
		return r, false
	}
	if len(r.Fields)+len(again.Fields) > 0 && !reflect.DeepEqual(r, again) {
		t.Fatalf("%+v first, %+v then", r, again)
	}
	if r.UnixMilli < 0 || r.UnixMilli >= timeEnd || r.TookMilli < 0 || r.TookMilli > maxTook || r.Began() < 0 || r.IP.Is4In6() || r.IP.Zone() != "" || r.Status < 0 || r.Status > 999 || r.Bytes < -1 {
		t.Fatalf("out of range: %+v", r)
	}
	if strings.Contains(r.Path, "?") {
		t.Fatalf("path %q has a query", r.Path)
	}
	plain := !strings.ContainsAny(line, `\#%+`)
	texts := []string{r.User, r.Method, r.Host, r.Path, r.Query, r.Agent, r.Referrer, r.Forwarded}
	for _, field := range r.Fields {
		if field.Value == "" || field.Name == "" {
			t.Fatalf("an empty field: %+v", field)
		}
		texts = append(texts, field.Value)
	}
	for _, text := range texts {
		if text == "-" && plain && !strings.Contains(line, "?-") && !strings.Contains(line, "-?") {
			t.Fatalf("a dash in %+v", r)
		}
		if plain && !strings.Contains(line, text) && text != "/" {
			t.Fatalf("%q is not in the line, of %+v", text, r)
		}
	}
	return r, true
}

func fuzzPreset(f *testing.F, format string, seeds ...string) {
	parser := mustParser(f, format, Options{Zone: berlin})
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) { checkParse(t, parser, line) })
}

// FuzzCombined: besides checkParse, the parser agrees with its slow twin, and a request written as nginx would write it
// is read as the same one. A line that was cut off has no twin.
func FuzzCombined(f *testing.F) {
	parser := mustParser(f, "combined", Options{})
	traffic := newBenchTraffic()
	for range 5 {
		f.Add(traffic.combined())
	}
	f.Add(`1.2.3.4 - "" [17/Apr/2018:06:25:06 +0000] "GET /\x22 HTTP/1.1" 200 - "-" "\"a\"`)
	f.Add(`::1 - a [b [17/Apr/2018:06:25:06 -0730] "-" 400 0 "-" "-"`)
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := checkParse(t, parser, line)
		if r.cut {
			return
		}
		if comparableToTwin(line) {
			compareWithTwin(t, parser, line)
		}
		if !ok || r.Host != "" || !strings.HasPrefix(r.Path, "/") || r.Method == "" || len(r.Fields) > 0 || r.User == `""` {
			return
		}
		again, ok := checkParse(t, parser, asCombined(r))
		r.UnixMilli -= r.UnixMilli % 1000
		if again.Fields = nil; !ok || !reflect.DeepEqual(again, r) {
			t.Fatalf("%s\nread  %+v\nagain %+v", asCombined(r), r, again)
		}
	})
}

// comparableToTwin is false for lines that the twin is too simple for: absolute targets, and times and addresses that
// the standard library reads differently.
func comparableToTwin(line string) bool {
	first, rest, _ := strings.Cut(line, " ")
	_, rest, _ = strings.Cut(rest, " [")
	return !strings.Contains(line, "://") && !strings.Contains(line, "CONNECT ") && !strings.ContainsAny(first, `[%\`) &&
		(strings.Count(first, ":") != 1) && !strings.Contains(line, ":60 ") && !strings.Contains(line, `\u`) &&
		len(rest) > 26 && strings.Count(rest[:20], ":") == 3 && !strings.ContainsAny(rest[:26], `\.,`) && month(rest[3:6]) != 0
}

// asCombined writes a request as nginx would.
func asCombined(r Request) string {
	escaped := func(s string) string {
		if s == "" {
			return "-"
		}
		var b strings.Builder
		for i := range len(s) {
			if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
				fmt.Fprintf(&b, `\x%02X`, c)
			} else {
				b.WriteByte(c)
			}
		}
		return b.String()
	}
	address, status, target := "-", "-", r.Path
	if r.IP.IsValid() {
		address = r.IP.String()
	}
	if r.Status != 0 {
		status = fmt.Sprint(r.Status)
	}
	if r.Query != "" {
		target += "?" + r.Query
	}
	bytes := fmt.Sprint(r.Bytes)
	if r.Bytes < 0 {
		bytes = ""
	}
	return fmt.Sprintf(`%s - %s [%s] "%s HTTP/1.1" %s %s "%s" "%s"`, address, escaped(r.User), time.UnixMilli(r.UnixMilli).UTC().Format("02/Jan/2006:15:04:05 -0700"),
		escaped(r.Method+" "+target), status, bytes, escaped(r.Referrer), escaped(r.Agent))
}

// FuzzLogFormat: making a parser of any format fails with an error that names the format, or gives a parser that
// satisfies checkParse.
func FuzzLogFormat(f *testing.F) {
	f.Add(nginxMain, `10.0.0.1 - - [04/May/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8.5.0" "192.0.2.1, 10.9.9.9"`)
	f.Add(nginxIngress, newBenchTraffic().ingress())
	f.Add("log_format m '$msec '\n '\"$request_uri\" ${upstream_addr}';", `1777875906.789 "/a?b" 10.0.0.1:80, 10.0.0.2:80 : x`)
	f.Add("%v:%p "+apacheCombined, "h:80 "+newBenchTraffic().combined())
	f.Add(`LogFormat "%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t %a \"%{X-Weir}o\"" x`, `04/May/2026:08:25:06.789 +0200 192.0.2.1 "refused"`)
	f.Add(`escape=json '{"t":"$time_iso8601","u":"$uri"}'`, `{"t":"2026-05-04T06:25:06Z","u":"\u0001\"x"}`)
	f.Add("#Fields: date time c-ip cs(User-Agent)", "2026-05-04 06:25:06 192.0.2.1 a+b")
	f.Fuzz(func(t *testing.T, format, line string) {
		parser, err := NewParser(format, Options{Zone: berlin})
		if err != nil {
			if !strings.Contains(err.Error(), "format") && !strings.Contains(err.Error(), "Fields") {
				t.Fatalf("error %v", err)
			}
			return
		}
		checkParse(t, parser, line)
	})
}

// FuzzALB, FuzzHAProxy, FuzzIngress: checkParse.
func FuzzALB(f *testing.F) { fuzzPreset(f, "alb", newBenchTraffic().alb()) }

func FuzzHAProxy(f *testing.F) {
	fuzzPreset(f, "haproxy", `<150>Feb  6 12:14:14 l haproxy[1]: 10.0.1.2:333 [06/Feb/2009:12:14:14.655] f b/s 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {x} "GET /#22 HTTP/1.1"`,
		`<150>1 2009-02-06T12:14:14.656Z l h 1 - [a b="\]"] 2001:db8::1:333 [06/Feb/2009:12:14:14.655] f b/<NOSRV> -1 400 0 - - PR-- 1 0/0 "<BADREQ>"`)
}

func FuzzIngress(f *testing.F) { fuzzPreset(f, "ingress-nginx", newBenchTraffic().ingress()) }

// FuzzIIS and FuzzCloudFront: checkParse, for two lines of one file. The first may name columns.
func FuzzIIS(f *testing.F) {
	f.Add("#Fields: date time c-ip cs-uri-stem sc-status", "2026-05-04 06:25:06 192.0.2.1 /a 200")
	f.Add("#Fields: time c-ip", "06:25:06 192.0.2.1")
	f.Add("", `2022-01-22 00:00:01 10.0.0.2 POST /a pid=1 443 CORP\d 172.69.69.207 a+b https://example.com/a+b 200 0 0 31`)
	fuzzColumns(f, "iis")
}

func FuzzCloudFront(f *testing.F) {
	f.Add("", "2013-10-07\t23:35:30\tLHR3\t828\t192.0.2.100\tGET\td1.cloudfront.net\t/i%2520\t200\t-\tMozilla/5.0%2520(compatible)\t-")
	fuzzColumns(f, "cloudfront")
}

func fuzzColumns(f *testing.F, preset string) {
	f.Fuzz(func(t *testing.T, first, second string) {
		parser := mustParser(t, preset, Options{})
		checkParse(t, parser, first)
		checkParse(t, parser, second)
	})
}

// FuzzTime: a time that was read fits in 42 bits; written in full it is read as the same; the standard library, if it
// reads the text too, reads the same.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{"17/Apr/2018:06:25:06 +0000", "06/Feb/2009:12:14:14.655", "2018-04-17T06:25:06.186641Z", "2018-04-17 06:25:06 +0530",
		"1700000000.123", "1.7e9", "1700000000123456789", "Feb  6 12:14:14", "Feb 29 12:14:14"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, zone := range []*time.Location{time.UTC, berlin} {
			at, ok := timeAny(text, zone)
			if !ok {
				continue
			}
			if at < 0 || at >= timeEnd {
				t.Fatalf("%q is %d", text, at)
			}
			for _, layout := range []string{"02/Jan/2006:15:04:05.000 -0700", time.RFC3339Nano, "2006-01-02 15:04:05.000"} {
				if again, ok := timeAny(time.UnixMilli(at).UTC().Format(layout), time.UTC); !ok || again != at {
					t.Fatalf("%q is %d, and then %d %v", text, at, again, ok)
				}
			}
			if want, err := time.ParseInLocation("02/Jan/2006:15:04:05 -0700", text, zone); err == nil && want.UnixMilli() != at {
				t.Fatalf("%q is %d, want %d", text, at, want.UnixMilli())
			}
			if want, err := time.Parse(time.RFC3339Nano, text); err == nil && want.UnixMilli() != at {
				t.Fatalf("%q is %d, want %d", text, at, want.UnixMilli())
			}
		}
	})
}

// FuzzClient: the address that is found stands in the list or is the peer; a trusted one is never the client.
func FuzzClient(f *testing.F) {
	f.Add("192.0.2.1, 10.0.0.2", true)
	f.Add(`for=9.9.9.9, For="[2001:db8:cafe::17]:4711"; proto=https`, false)
	f.Add("unknown,10.0.0.1:80", true)
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	client := NewClient([]netip.Prefix{trusted})
	f.Fuzz(func(t *testing.T, forwarded string, peer bool) {
		r := Request{Forwarded: forwarded}
		if peer {
			r.IP = netip.MustParseAddr("10.0.0.1")
		}
		proxy := client.Resolve(&r)
		if proxy != (r.IP.IsValid() && trusted.Contains(r.IP)) {
			t.Fatalf("%v is a proxy: %v", r.IP, proxy)
		}
		if r.IP.Is4In6() || r.IP.Zone() != "" {
			t.Fatalf("address %v", r.IP)
		}
	})
}

// FuzzForwarded: whatever a client sends as Forwarded and as Host, the client is the one that the proxy adds to the
// header, as in RFC 7239, before or after the host.
func FuzzForwarded(f *testing.F) {
	f.Add(`for="9.9.9.9`, `a, for=9.9.9.9`)
	f.Add(`for=9.9.9.9;host="\`, `a";for=9.9.9.9;x="\`)
	client := NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	f.Fuzz(func(t *testing.T, sent, host string) {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host)
		for _, added := range []string{`for="[2001:db8::7]:4711";proto=https;host="%s"`, `host="%s";by=_x; For=2001:db8::7`} {
			added = strings.Replace(added, "%s", quoted, 1)
			for _, list := range []string{sent + "," + added, sent + ", " + added + ", for=10.0.0.3", added + `, for=10.0.0.2;host="` + quoted + `"`} {
				r := Request{IP: netip.MustParseAddr("10.0.0.1"), Forwarded: list}
				if proxy := client.Resolve(&r); proxy || r.IP != netip.MustParseAddr("2001:db8::7") {
					t.Fatalf("%q: %v", list, r.IP)
				}
			}
		}
	})
}

// FuzzSample: a sample is at most 200 bytes of printable text, and contains no value of a query string.
func FuzzSample(f *testing.F) {
	f.Add(`1.2.3.4 "GET /a?token=s3cret&page=2 HTTP/1.1"`, "s3cret")
	f.Add("Bearer x\x00\xff", "é")
	f.Fuzz(func(t *testing.T, line, secret string) {
		for _, text := range []string{line, "GET /?key=" + secret + " " + line} {
			sample := Sample(text)
			if len(sample) > sampleBytes || strings.ContainsFunc(sample, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) && !strings.Contains(text, "\ufffd") {
				t.Fatalf("sample %q", sample)
			}
		}
		if len(secret) > 3 && !strings.ContainsAny(secret, queryEnds+"&;*") && strings.Contains(Sample("/?key="+secret), secret) {
			t.Fatalf("sample %q", Sample("/?key="+secret))
		}
	})
}
