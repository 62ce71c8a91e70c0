package request

import (
	"fmt"
	"strings"
	"testing"
)

const (
	attemptLine = `{"weir":"attempt","time":"2026-03-03T08:00:00.123Z","attempt":"019e","admitted":false,"rules":[` +
		`{"rule":"quota","key":"alice","cost":3,"verdict":"other","limit":"10/min","remaining":7},` +
		`{"rule":"sign-in","key":"203.0.113.7","cost":1,"verdict":"refused","limit":"5/min","remaining":0,"again":"2026-03-03T08:00:09.000Z"}],` +
		`"ip":"203.0.113.7","user":"alice","method":"POST","host":"shop.example","path":"/login?next=***","agent":"curl","from":"ab","order":7,"sequence":9}`
	settlementLine = `{"weir":"settlement","time":"2026-03-03T08:00:01.000Z","attempt":"019e","cost":2,"from":"ab","order":8,"sequence":1}`
)

func takesOf(t *testing.T, d *Decoder, line string) (all []string) {
	t.Helper()
	d.DecodeEach(line, func(r *Request, err error) {
		if err != nil {
			all = append(all, err.Error())
			return
		}
		remaining, _ := r.Field("remaining")
		all = append(all, fmt.Sprintf("%d %s %s %s %s%s?%s %s %+v %s", r.UnixMilli, r.IP, r.User, r.Method, r.Host, r.Path, r.Query, r.Agent, *r.Take, remaining))
	})
	return all
}

// Each rule of an attempt is a request, and a settlement is none.
func TestAttempts(t *testing.T) {
	d, err := NewDecoder("none", "attempts", Options{})
	if err != nil {
		t.Fatal(err)
	}
	const about = "1772524800123 203.0.113.7 alice POST shop.example/login?next=*** curl "
	for line, want := range map[string][]string{
		attemptLine:    {about + "{Rule:quota Key:alice Verdict:other Cost:3} 7", about + "{Rule:sign-in Key:203.0.113.7 Verdict:refused Cost:1} 0"},
		settlementLine: {ErrNoRequest.Error()}, "": {ErrNoRequest.Error()}, attemptLine[:50]: {errFormat.Error()},
		`{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.7","verdict":"refused"}`:  {errFormat.Error()},
		strings.Replace(attemptLine, `"ip":"203.0.113.7"`, `"ip":"somewhere"`, 1): {errAddress.Error(), errAddress.Error()},
		strings.Replace(attemptLine, `"time":"2026`, `"time":"2126`, 1):           {errTime.Error(), errTime.Error()},
	} {
		if got := takesOf(t, d, line); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\n%q, want\n%q", line, got, want)
		}
	}

	// One request a record where that is asked for.
	var r Request
	if err := d.Decode(attemptLine, &r); err != errEnvelope {
		t.Errorf("two rules are one request: %v", err)
	}
	if _, err := NewDecoder("fluentbit", "attempts", Options{}); err == nil {
		t.Error("attempts are read out of an envelope")
	}
	if _, err := NewDecoder("none", "attempts", Options{Fields: map[string]string{"user": "x"}}); err == nil {
		t.Error("attempts have other names")
	}
}

// The records of attempts are recognised, and nothing that a client writes into a log makes it one.
func TestAttemptsAreDetected(t *testing.T) {
	one := strings.Replace(attemptLine, `{"rule":"quota","key":"alice","cost":3,"verdict":"other","limit":"10/min","remaining":7},`, "", 1)
	choice, err := Detect([]string{attemptLine, settlementLine, one}, Options{})
	if err != nil || choice.Format != "attempts" || choice.Envelope != "none" || choice.Read != 3 {
		t.Errorf("%+v, %v", choice, err)
	}
	// A log whose clients write whole records into their paths, agents and users.
	text := strings.ReplaceAll(one, `"`, `\"`)
	for _, line := range []string{
		`{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.8","method":"GET","path":"/` + text + `","agent":"` + text + `"}`,
		`{"log":"` + text + `","stream":"stdout","time":"2026-03-03T08:00:00Z"}`,
		`203.0.113.8 - - [03/Mar/2026:08:00:00 +0000] "GET /` + text + ` HTTP/1.1" 200 1 "-" "` + text + `"`,
	} {
		if choice, _ := Detect([]string{line, line}, Options{}); choice.Format == "attempts" {
			t.Errorf("%s is taken for an attempt: %+v", line, choice)
		}
	}
	// A JSON log with such members has no verdicts: these are fields.
	d, err := NewDecoder("none", "json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var r Request
	if err := d.Decode(`{"weir":"attempt","time":"2026-03-03T08:00:00Z","ip":"203.0.113.8","path":"/","verdict":"refused","rule":"sign-in"}`, &r); err != nil || r.Take != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
