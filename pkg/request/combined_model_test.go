package request

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The slow twin of the combined format: regular expressions and the standard library.
var (
	twinHead = regexp.MustCompile(`^(?s)([^ ]*) ([^ ]*) (.*)$`)
	twinTime = regexp.MustCompile(`^(?s)(.{26})\] "(.*)$`)
	twinTail = regexp.MustCompile(`^(?s)((?:[^"\\]|\\.)*)" ([^ ]*) ([^ ]*) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*"|(?:[^"\\]|\\.)*\\?)$`)

	twinEscape   = regexp.MustCompile(`(?s)\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/nrtbfv])`)
	twinNumber   = regexp.MustCompile(`^[0-9]+$`)
	twinRequest  = regexp.MustCompile("^(?s)(?:([-!#$%&'*+.^_`|~0-9a-zA-Z]+) (.*)|(/.*))$")
	twinProtocol = regexp.MustCompile(`(?s) (HTTP/[^ ]*|-) *$| +$`)
)

func twinUnescape(s string) string {
	return twinEscape.ReplaceAllStringFunc(s, func(escape string) string {
		switch escape[1] {
		case 'x':
			value, _ := strconv.ParseUint(escape[2:], 16, 8)
			return string([]byte{byte(value)})
		case 'u':
			value, _ := strconv.ParseUint(escape[2:], 16, 16)
			return string(rune(value))
		case '"', '\\', '/':
			return escape[1:]
		}
		unquoted, _ := strconv.Unquote(`"` + escape + `"`)
		return unquoted
	})
}

func twinKnown(s string) string {
	if s = twinUnescape(s); s == "-" {
		return ""
	}
	return s
}

// twinCombined is false for an unread line.
func twinCombined(line string) (r Request, ok bool) {
	r.Bytes = -1
	head := twinHead.FindStringSubmatch(strings.TrimLeft(strings.TrimRight(line, "\r\n"), " "))
	if head == nil || !twinAddress(twinUnescape(head[1]), &r) {
		return r, false
	}
	if logname := twinKnown(head[2]); logname != "" {
		r.Fields = []Field{{"remote_logname", logname}}
	}
	user, rest, ok := twinUser(head[3], &r)
	if !ok {
		return r, false
	}
	if r.User = twinKnown(user); r.User == `""` {
		r.User = ""
	}
	tail := twinTail.FindStringSubmatch(rest)
	if tail == nil {
		return r, false
	}
	twinSplit(twinUnescape(tail[1]), &r)
	r.Referrer, r.Agent = strings.Trim(twinKnown(tail[4]), " \t"), strings.Trim(twinAgent(tail[5]), " \t")
	if r.Referrer == "-" {
		r.Referrer = ""
	}
	if r.Agent == "-" {
		r.Agent = ""
	}
	return r, twinNumbers(twinUnescape(tail[2]), twinUnescape(tail[3]), &r)
}

// twinAgent drops the closing quote if there is one.
func twinAgent(field string) string {
	body := strings.TrimSuffix(field, `"`)
	if escapes := len(body) - len(strings.TrimRight(body, `\`)); escapes%2 == 1 {
		body = field
	}
	return twinKnown(body)
}

// twinUser tries every bracket as the name's end.
func twinUser(s string, r *Request) (user, rest string, ok bool) {
	empty := strings.HasPrefix(s, `"" [`)
	for at := 0; at < len(s); at++ {
		if empty && at < 2 {
			continue
		} else if empty && at > 2 {
			return "", "", false
		}
		if s[at] == '\\' && at+1 < len(s) && strings.ContainsRune(`"\\`, rune(s[at+1])) {
			at++
		} else if s[at] == '"' {
			return "", "", false
		}
		if !strings.HasPrefix(s[at:], " [") {
			continue
		}
		parts := twinTime.FindStringSubmatch(s[at+2:])
		if parts == nil {
			continue
		}
		when, err := time.Parse("02/Jan/2006:15:04:05 -0700", twinUnescape(parts[1]))
		if err == nil && when.UnixMilli() >= 0 && when.UnixMilli() < timeEnd {
			r.UnixMilli = when.UnixMilli()
			return s[:at], parts[2], true
		}
	}
	return "", "", false
}

func twinAddress(text string, r *Request) bool {
	if text == "" || text == "-" || text == "@" || strings.HasPrefix(text, "unix:") {
		return true
	}
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		r.IP = withPort.Addr().WithZone("").Unmap()
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	r.IP = address.WithZone("").Unmap()
	return err == nil && strings.HasPrefix(text, "[") == strings.HasSuffix(text, "]")
}

func twinNumbers(status, bytes string, r *Request) bool {
	var err error
	switch {
	case status == "" || status == "-" || status == "-1":
	case twinNumber.MatchString(status):
		r.Status, err = strconv.Atoi(status)
	default:
		return false
	}
	if err != nil || r.Status > 999 {
		return false
	}
	switch {
	case bytes == "":
	case bytes == "-":
		r.Bytes = 0
	case twinNumber.MatchString(bytes):
		r.Bytes, err = strconv.ParseInt(bytes, 10, 64)
	default:
		return false
	}
	return err == nil
}

// twinSplit knows paths only: no absolute targets, no CONNECT.
func twinSplit(text string, r *Request) {
	parts := twinRequest.FindStringSubmatch(text)
	if parts == nil {
		return
	}
	r.Method = strings.TrimPrefix(parts[1], "-")
	if parts[1] != "-" {
		r.Method = parts[1]
	}
	target := parts[2] + parts[3]
	if strings.Contains(target, " ") {
		target = twinProtocol.ReplaceAllString(target, "")
	}
	if parts[1] != "" {
		target = strings.Trim(target, " ")
	}
	if target == "-" {
		target = ""
	}
	r.Path, r.Query, _ = strings.Cut(target, "?")
	if r.Path == "" && target != "" && r.Method != "" {
		r.Path = "/"
	}
}

func TestCombinedAgreesWithItsTwin(t *testing.T) {
	parser := mustParser(t, "combined", Options{})
	random := rand.New(rand.NewPCG(3, 4))
	traffic := newBenchTraffic()
	const lines = 30_000
	read := 0
	for range lines {
		if compareWithTwin(t, parser, mutated(random, traffic.combined())) {
			read++
		}
		if t.Failed() {
			return
		}
	}
	if read < lines/4 || read > lines*9/10 {
		t.Errorf("%d of %d mutated lines were read: the mutations are too strong or too weak", read, lines)
	}
}

// compareWithTwin reports whether the line was read.
func compareWithTwin(t *testing.T, parser Parser, line string) bool {
	t.Helper()
	var got Request
	err := parser.Parse(line, &got)
	want, ok := twinCombined(line)
	if ok != (err == nil) || !ok && errors.Is(err, ErrNoRequest) != isNoRequest(trimLine(line)) {
		t.Errorf("%q: parser says %v, its twin %v", line, err, ok)
	}
	if err != nil {
		return false
	}
	if len(got.Fields) == 0 {
		got.Fields = nil
	}
	if ok && !reflect.DeepEqual(got, want) {
		t.Errorf("%q\ngot  %+v\ntwin %+v", line, got, want)
	}
	return true
}

// mutated changes a line in a few places, mostly with characters that matter to the format.
func mutated(random *rand.Rand, line string) string {
	pieces := []string{`"`, `\"`, `\x22`, `\\`, `\`, " ", "[", "]", "-", " [", `" "`, "\xff", "é", "?", "/", "9", "\n", ""}
	for range random.IntN(4) {
		at := random.IntN(len(line) + 1)
		end := min(len(line), at+random.IntN(3))
		line = line[:at] + pieces[random.IntN(len(pieces))] + line[end:]
	}
	return line
}
