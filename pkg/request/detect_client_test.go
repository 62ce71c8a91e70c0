package request

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const combinedRest = ` - - [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 5 "-" "curl/8.5.0"`

// A format that finds the client where another finds the server must not be chosen, however many lines it reads.
func TestDetectTakesNoServerForTheClient(t *testing.T) {
	for _, c := range []struct{ line, format, client, host string }{
		// Debian's other_vhosts_access.log with addresses as server names.
		{"127.0.1.1:80 198.51.100.1" + combinedRest, "vhost_combined", "198.51.100.1", "127.0.1.1"},
		{"[2001:db8::1]:443 198.51.100.1" + combinedRest, "vhost_combined", "198.51.100.1", "2001:db8::1"},
		{"shop.example 198.51.100.1" + combinedRest, "host_combined", "198.51.100.1", "shop.example"},
		{"shop.example 2001:db8::7" + combinedRest + " 0.003", "host_combined", "2001:db8::7", "shop.example"},
		{"_ 198.51.100.1" + combinedRest, "host_combined", "198.51.100.1", "_"},
		// lighttpd's default, also where clients ask for the address.
		{strings.Replace("203.0.113.7"+combinedRest, "- -", "shop.example -", 1), "lighttpd", "203.0.113.7", "shop.example"},
		{strings.Replace("203.0.113.7"+combinedRest, "- -", "192.0.2.10 -", 1), "lighttpd", "203.0.113.7", "192.0.2.10"},
		// A syslog header is not a host.
		{"web1 nginx: 203.0.113.7" + combinedRest, "combined in syslog", "203.0.113.7", ""},
	} {
		choice, err := Detect([]string{c.line, c.line, c.line}, Options{})
		if err != nil || !strings.HasPrefix(choice.String(), c.format+":") {
			t.Errorf("%s: chose %s, %v; want %s", c.line, choice, err, c.format)
			continue
		}
		var r Request
		if err := newDecoder(t, choice.Envelope, choice.Format, Options{}).Decode(c.line, &r); err != nil || r.IP.String() != c.client || strings.Trim(r.Host, "[]") != c.host || r.User != "" {
			t.Errorf("%s: %+v, %v", c.line, r, err)
		}
	}
}

// When nothing distinguishes the server's address from the client's, the error asks.
func TestDetectAsksForTheClient(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		// log_format '$host $remote_addr - …' with an address as host, or LogFormat "%h %{X-Forwarded-For}i %l %u …".
		{"192.0.2.10 198.51.100.1" + combinedRest, "to host_combined the client of a line is 198.51.100.1, to %h %{X-Forwarded-For}i %l %u %t … it is 192.0.2.10"},
		{"192.0.2.10 198.51.100.1" + combinedRest + " 0.1", "two formats fit and name different clients"},
		{"192.0.2.10:51234 198.51.100.1" + combinedRest, "to $remote_addr:$remote_port $http_x_forwarded_for - $remote_user … it is 192.0.2.10"},
		{"10.0.0.1 203.0.113.7, 10.1.1.1" + combinedRest, "the lines look like %h %{X-Forwarded-For}i %l %u %t …, in which a header"},
		{"10.0.0.1 -" + combinedRest, "the lines look like %h %{X-Forwarded-For}i %l %u %t …, in which a header"},
	} {
		if choice, err := Detect([]string{c.line, c.line, c.line}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: chose %s, %v; want %s", c.line, choice, err, c.want)
		}
		// A format that the user has given is trusted.
		if choice, err := Choose("auto", "host_combined", []string{c.line}, Options{}); err == nil && choice.Format != "host_combined" {
			t.Errorf("%s: %s, %v", c.line, choice, err)
		}
	}
}

// A list of addresses is not a host and a client: it is X-Forwarded-For in the client's place. One such line shows it,
// because a client cannot begin a line; but where the host comes first, it can.
func TestDetectTakesNoListForTheHost(t *testing.T) {
	common := strings.TrimSuffix(combinedRest, ` "-" "curl/8.5.0"`)
	one := "203.0.113.7" + combinedRest
	for _, sample := range [][]string{
		{"203.0.113.7, 172.71.122.85" + combinedRest},
		{"203.0.113.7, 172.71.122.85" + combinedRest + " 0.004"},
		{"203.0.113.7, 172.71.122.85" + common},
		{"2001:db8::7, 172.71.122.85" + combinedRest},
		{"unknown, 203.0.113.7" + combinedRest},
		{"9.9.9.9, 203.0.113.7, 172.71.122.85" + combinedRest},
		{"203.0.113.7,172.71.122.85" + combinedRest},
		{"Nov 23 01:00:00 web1 apache: 203.0.113.7, 172.71.122.85" + combinedRest},
		{one, one, one, one, "9.9.9.9, 203.0.113.7" + combinedRest},
		{one + " 0.1", one + " 0.1", "9.9.9.9, 203.0.113.7" + combinedRest + " 0.1"},
		{one + ` "-"`, one + ` "-"`, "9.9.9.9, 203.0.113.7" + combinedRest + ` "-"`},
	} {
		choice, err := Detect(sample, Options{})
		if err == nil || !strings.Contains(err.Error(), "the lines look like %{X-Forwarded-For}i %l %u %t …, in which a header") {
			t.Errorf("%s: chose %s, %v", sample, choice, err)
		}
	}

	claimed := "9.9.9.9, 203.0.113.7" + combinedRest
	claimedPort := "9.9.9.9,:80 203.0.113.7" + combinedRest
	for want, sample := range map[string][]string{
		"host_combined":  {claimed, claimed, claimed, "shop.example 198.51.100.1" + combinedRest},
		"vhost_combined": {claimedPort, claimedPort, claimedPort, "shop.example:80 198.51.100.1" + combinedRest},
	} {
		choice, err := Detect(sample, Options{})
		if err != nil || choice.Format != want || choice.Read != len(sample) {
			t.Errorf("%s: chose %s, %v", sample, choice, err)
		}
		if !choice.Holds("auto", sample[:1], Options{}) {
			t.Errorf("%s does not hold for %s", choice, sample[0])
		}
	}
}

// In "%{X-Forwarded-For}i %h %l %u %t …" the proxy is not the client, whatever stands in a few lines in place of the
// header: a health check has none, proxies write unknown or a port, and clients write names.
func TestDetectTakesNoProxyBehindTheHeaderForTheClient(t *testing.T) {
	var singles []string
	for i := range 20 {
		singles = append(singles, fmt.Sprintf("203.0.113.%d 10.0.0.1%s", i+1, combinedRest))
	}
	for _, first := range []string{"-", "unknown", "unix:", "shop.example", "203.0.113.7:51234", "[2001:db8::7]", "9.9.9.9, 203.0.113.7"} {
		line := first + " 10.0.0.1" + combinedRest
		for _, sample := range [][]string{
			append(slices.Clone(singles), line),
			append([]string{line}, singles...),
			append(slices.Clone(singles), line, "9.9.9.9, 203.0.113.7 10.0.0.1"+combinedRest, "- 10.0.0.1"+combinedRest),
			append(slices.Repeat([]string{"- 10.0.0.1" + combinedRest}, 100), append(singles, line)...),
		} {
			if choice, err := Detect(sample, Options{}); err == nil {
				t.Errorf("%s: chose %s", first, choice)
			}
		}
	}
	if choice, err := Detect([]string{"9.9.9.9, 203.0.113.7 10.0.0.1" + combinedRest, "- 10.0.0.1" + combinedRest}, Options{}); err == nil {
		t.Errorf("chose %s", choice)
	}

	// nginx, with the header behind the peer, and a local proxy on a unix socket.
	second := slices.Repeat([]string{"10.0.0.1 203.0.113.7" + combinedRest}, 20)
	if choice, err := Detect(append(second, "unix: 203.0.113.7"+combinedRest), Options{}); err == nil {
		t.Errorf("chose %s", choice)
	}

	// A site with names, whose clients also ask for its addresses.
	named := slices.Repeat([]string{"shop.example 198.51.100.1" + combinedRest}, 20)
	for _, sample := range [][]string{append(named, singles...), {"192.0.2.1 198.51.100.1" + combinedRest, "[2001:db8::1] 198.51.100.2" + combinedRest, "127.0.0.1 198.51.100.3" + combinedRest, named[0]}} {
		if choice, err := Detect(sample, Options{}); err != nil || choice.Format != "host_combined" {
			t.Errorf("%s: chose %s, %v", sample, choice, err)
		}
	}
}

// Of "$host $remote_user" behind a dash, the host is not part of a user's name.
func TestDetectTakesNoHostForTheUser(t *testing.T) {
	line := strings.Replace("203.0.113.7"+combinedRest, "- -", "- shop.example -", 1)
	if choice, err := Detect([]string{line, line}, Options{}); err == nil {
		t.Errorf("chose %s", choice)
	}
}

// A quoted field behind combined is the header for the client only when it names addresses: not the server's name.
func TestDetectTakesNoNameForTheForwardedHeader(t *testing.T) {
	line := "203.0.113.7" + combinedRest
	for tail, want := range map[string]string{
		` "-"`:                      "main",
		` "198.51.100.7, 10.0.0.1"`: "main",
		` "unknown, 10.0.0.1"`:      "main",
		` "shop.example"`:           "combined-plus",
		` "sid=5"`:                  "combined-plus",
	} {
		sample := []string{line + ` "-"`, line + tail, line + tail, line + tail}
		if choice, err := Detect(sample, Options{}); err != nil || choice.Format != want {
			t.Errorf("%s: chose %s, %v; want %s", tail, choice, err, want)
		}
	}
}

// Text behind a combined line, in any escapes, moves no field of it.
func TestCombinedWithATail(t *testing.T) {
	for _, tail := range []string{"", " 0.123", " rt=0.1 ut=-", ` "-" "host"`, " example.com", ` "9.9.9.9" - - [01/Jan/2020:00:00:00 +0000] "GET / HTTP/1.1" 500 1`} {
		line := "203.0.113.7" + combinedRest + tail
		choice, err := Detect([]string{line}, Options{})
		want := "combined-plus"
		if tail == "" {
			want = "combined"
		}
		if err != nil || choice.Format != want {
			t.Errorf("%s: chose %s, %v; want %s", tail, choice, err, want)
		}
		got := parsed(t, mustParser(t, "combined-plus", Options{}), line)
		if more, _ := got.Field("more"); got.IP.String() != "203.0.113.7" || got.Path != "/login" || got.Status != 200 || got.Agent != "curl/8.5.0" || more != strings.TrimSpace(tail) {
			t.Errorf("%s: %+v", tail, got)
		}
	}
	// A line that was cut off fits common-plus too, but does not decide.
	line := "203.0.113.7" + combinedRest + " 0.1"
	for cut := range 20 {
		choice, err := Detect(append(slices.Repeat([]string{line}, 19), line[:len(line)-cut-1]), Options{})
		if err != nil || choice.Format != "combined-plus" {
			t.Errorf("%s: chose %s, %v", line[:len(line)-cut-1], choice, err)
		}
	}
	other := `203.0.113.7 - - [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 - 17`
	if choice, err := Detect(append(slices.Repeat([]string{line}, 8), other, other), Options{}); err != nil || choice.Format != "common-plus" {
		t.Errorf("chose %s, %v", choice, err)
	}
	parser := mustParser(t, "combined-plus", Options{})
	if got := parsed(t, parser, `203.0.113.7 - \" 9.9.9.9 [17/Apr/2018:06:25:06 +0000] "GET /\" 404 0 \"-\" \" HTTP/1.1" 200 5 "-" "\" 500 1" "x"`); got.Status != 200 || got.Bytes != 5 || got.Agent != `" 500 1` {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{"203.0.113.7" + combinedRest + "x", "203.0.113.7" + combinedRest + `"`} {
		if got := reasonOf(parser, line); got != "format" {
			t.Errorf("%s: %q", line, got)
		}
	}
	common := `203.0.113.7 - alice [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 -`
	if choice, err := Detect([]string{common + " 12345", common + " 17"}, Options{}); err != nil || choice.Format != "common-plus" {
		t.Errorf("chose %s, %v", choice, err)
	}
	if got := parsed(t, mustParser(t, "common-plus", Options{}), common+" 17"); got.User != "alice" || got.Bytes != 0 || got.Fields[0] != (Field{"more", "17"}) {
		t.Errorf("%+v", got)
	}
}

// The header before a line, as rsyslog, syslog-ng and journalctl write it to files, and as nginx does with its own
// access_log syslog:.
func TestSyslogInFiles(t *testing.T) {
	for _, header := range []string{
		"Sep 15 16:13:46 web1 nginx[2869]: ",
		"Sep  5 16:13:46 web1 nginx: ",
		"Sep 15 16:13:46 nginx: ",                                          // access_log syslog:…,nohostname
		"<190>Sep 15 16:13:46 web1 nginx: ",                                // as it is sent
		"2026-09-15T16:13:46.123456+02:00 web1 nginx[2869]: ",              // RSYSLOG_FileFormat
		"2026-09-15T16:13:46+0200 web1 nginx[2869]: ",                      // journalctl -o short-iso
		"Sep 15 16:13:46.123456 web1 nginx[2869]: ",                        // short-precise
		"Tue 2026-09-15 16:13:46 CEST web1 nginx[2869]: ",                  // short-full
		"1789481626.123456 web1 nginx[2869]: ",                             // short-unix
		`<190>1 2026-09-15T16:13:46+02:00 web1 nginx 2869 - [x@1 a="\]"] `, // RFC 5424
		"web1 nginx: ",
		"Sep 15 16:13:46 web1 nginx:  ",                  // what a relay received with one space too many
		"2026-09-15T16:13:46+02:00 web1 ",                // syslog-ng, of a file that it reads without program-override
		"<190>1 2026-09-15T16:13:46Z web1 nginx - - -  ", // RSYSLOG_SyslogProtocol23Format at a relay: " -" for no element, and the space behind the tag
	} {
		line := header + "203.0.113.7" + combinedRest
		choice, err := Detect([]string{line, line}, Options{})
		if err != nil || choice.Envelope != "syslog" || choice.Format != "combined" {
			t.Errorf("%s: chose %s, %v", header, choice, err)
			continue
		}
		var r Request
		if err := newDecoder(t, "syslog", "combined", Options{}).Decode(line, &r); err != nil || r.IP.String() != "203.0.113.7" || r.UnixMilli != milli("2018-04-17T06:25:06Z") {
			t.Errorf("%s: %+v, %v", header, r, err)
		}
	}
	// A client cannot add a syslog header to a line without one.
	for _, line := range []string{"203.0.113.7" + combinedRest, `203.0.113.7 - x: [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" 200 5`, "shop.example 2001:db8:: - - [", `{"a": "b c: "} x`,
		"", " ", "a", "Sep 15 16:13:46", "Tue 2026-09-15", "Tue 2026-09-15 16:13:46xyz"} {
		if message, ok := cutSyslogLine(line); ok {
			t.Errorf("%q has the message %q", line, message)
		}
	}
}

// A choice is kept for other records of its source only when Detect would choose it for them too.
func TestChoiceHolds(t *testing.T) {
	for _, c := range []struct {
		choice Choice
		format string
		line   string
		want   bool
	}{
		{Choice{Envelope: "none", Format: "combined"}, "auto", "203.0.113.7" + combinedRest, true},
		{Choice{Envelope: "none", Format: "combined"}, "combined", "203.0.113.7" + combinedRest, true},
		{Choice{Envelope: "none", Format: "combined"}, "auto", "127.0.1.1:80 198.51.100.1" + combinedRest, false},
		{Choice{Envelope: "none", Format: "combined"}, "combined", "127.0.1.1:80 198.51.100.1" + combinedRest, false},
		{Choice{Envelope: "none", Format: "vhost_combined"}, "auto", "127.0.1.1:80 198.51.100.1" + combinedRest, true},
		{Choice{Envelope: "none", Format: "host_combined"}, "auto", "shop.example 198.51.100.1" + combinedRest, true},
		// Text from clients changes no choice: a host, a name, a header.
		{Choice{Envelope: "none", Format: "host_combined"}, "auto", "192.0.2.10 198.51.100.1" + combinedRest, true},
		{Choice{Envelope: "none", Format: "combined"}, "auto", "198.51.100.1 -" + combinedRest, true},
		{Choice{Envelope: "none", Format: "main"}, "auto", "198.51.100.1" + combinedRest + ` "rubbish"`, true},
		{Choice{Envelope: "none", Format: "lighttpd"}, "auto", "198.51.100.1" + combinedRest, true},
		{Choice{Envelope: "none", Format: "lighttpd"}, "auto", "shop.example 198.51.100.1" + combinedRest, false},
		{Choice{Envelope: "none", Format: "host_combined"}, "host_combined", "192.0.2.10 198.51.100.1" + combinedRest, true},
		{Choice{Envelope: "docker", Format: "combined"}, "auto", wrapped(aliceLine)["docker"], true},
		{Choice{Envelope: "docker", Format: "combined"}, "combined", wrapped(aliceLine)["none"], false},
		{Choice{Envelope: "none", Format: "no format"}, "auto", aliceLine, false},
	} {
		if got := c.choice.Holds(c.format, []string{c.line, c.line}, Options{}); got != c.want {
			t.Errorf("%s of %s: %s holds: %t", c.line, c.format, c.choice, got)
		}
	}
}

// However much of the sample a client has broken, a log that it can forge is not read as a format with a tail.
func TestDetectReadsNoTraefikWithATail(t *testing.T) {
	for _, lines := range [][]string{
		{`203.0.113.7 - - [22/Nov/2026:11:39:08 +0000] "GET /" HTTP/1.1" 200 2 "-" "-" 4 "all@file" "http://127.0.0.90:9080" 43ms`},
		{`203.0.113.7 - - [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 500 1 "-" "x" HTTP/1.1" 200 2 "-" "-" 4 "all@file" "http://127.0.0.90:9080" 43ms`},
		{`203.0.113.7 - - [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 200 2 "x" "u" "-" 4 "all@file" "-" 43ms`},
		append(slices.Repeat([]string{`203.0.113.7 - - [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 200 2 "x" "u" "-" 4 "all@file" "-" 43ms`}, 2),
			slices.Repeat([]string{`203.0.113.7 - - [22/Nov/2026:11:39:08 +0000] "GET / HTTP/1.1" 200 2 "-" "-" 4 "all@file" "-" 43ms`}, 3)...),
	} {
		if choice, err := Detect(lines, Options{}); err == nil {
			t.Errorf("%s: chose %s", lines, choice)
		}
	}
}

// A client can send any user and host, and so write any number of lines that look like another format's. One line that
// shows the format is enough to read the log.
func TestDetectIsNotConfusedByClients(t *testing.T) {
	const line = ` [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 5`
	for _, c := range []struct{ clients, other, format string }{
		{"203.0.113.7 - - -" + line + ` "-" "a"`, "203.0.113.9 - -" + line + ` "-" "b"`, "combined"}, // Authorization: Basic of "- -"
		{"203.0.113.7 - - alice" + line + ` "-" "a"`, "203.0.113.9 - bob" + line + ` "-" "b"`, "combined"},
		{"203.0.113.7 - 198.51.100.1 - -" + line + ` "-" "a"`, "203.0.113.9 - -" + line + ` "-" "b"`, "combined"},
		{"203.0.113.7 - - -" + line + ` "-" "a" 0.1`, "203.0.113.9 - -" + line + ` "-" "b" 0.2`, "combined-plus"},
		{"203.0.113.7 - 198.51.100.1 - -" + line, "203.0.113.9 - -" + line, "common"},
		{"203.0.113.7 - - -" + line + ` "-" "a" weir=""`, "203.0.113.9 - -" + line + ` "-" "b" weir=""`, "weir"},
		{"198.51.100.1 203.0.113.7 - -" + line + ` "-" "a"`, "shop.example 203.0.113.9 - -" + line + ` "-" "b"`, "host_combined"},
	} {
		sample := slices.Repeat([]string{c.clients}, 999)
		if choice, err := Detect(sample, Options{}); err == nil {
			t.Errorf("%s: chose %s of what fits another format", c.clients, choice)
		}
		for _, sample := range [][]string{append(sample, c.other), append([]string{c.other}, sample...)} {
			choice, err := Detect(sample, Options{})
			if err != nil || choice.Format != c.format || choice.Read != 1000 {
				t.Errorf("%s: chose %s, %v; want %s", c.clients, choice, err, c.format)
				continue
			}
			var r Request
			if err := newDecoder(t, choice.Envelope, choice.Format, Options{}).Decode(c.clients, &r); err != nil || r.IP.String() != "203.0.113.7" {
				t.Errorf("%s: %+v, %v", c.clients, r, err)
			}
		}
	}
	// In a log whose second field is X-Forwarded-For, no client writes a line that changes the format.
	for _, header := range []string{"-", "9.9.9.9", "9.9.9.9 - -", "x", "x - -", "x y", `\"`, "", " ", "[x]", "9.9.9.9, 8.8.8.8", "shop.example", "- [17/Apr/2018:06:25:06 +0000]"} {
		for _, user := range []string{"-", "alice", "- -", "9.9.9.9 - -", `""`} {
			mine := "10.0.0.1 " + header + " - " + user + line + ` "-" "a"`
			sample := append(slices.Repeat([]string{"10.0.0.1 198.51.100.7 - -" + line + ` "-" "a"`, "10.0.0.1 - - -" + line + ` "-" "a"`}, 50), mine)
			if choice, err := Detect(sample, Options{}); err == nil {
				t.Errorf("%s: chose %s", mine, choice)
			}
		}
	}
}
