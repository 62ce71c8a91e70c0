package request

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestDetect finds for every case of TestDecode the format in its first line.
func TestDetect(t *testing.T) {
	for _, file := range caseFiles(t) {
		c := readCase(t, file)
		if c.Detect == "-" { // a collection of unreadable records
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			choice, err := Detect(c.records, c.options())
			if err != nil {
				t.Fatal(err)
			}
			wantEnvelope, wantFormat := cmp.Or(c.DetectEnvelope, c.Envelope), cmp.Or(c.Detect, c.Format)
			if choice.Envelope != wantEnvelope || choice.Format != wantFormat {
				t.Errorf("chose %s; want %s in %s", choice, wantFormat, wantEnvelope)
			}
			t.Log(choice)
			if _, err := NewDecoder(choice.Envelope, choice.Format, c.options()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDetectLines(t *testing.T) {
	for want, sample := range map[string]string{
		"common: reads 1 of 1 requests":                                `192.0.2.1 - - [01/Mar/2026:11:15:30 +0100] "GET / HTTP/1.1" 200 5`,
		"combined: reads 2 of 3 requests":                              "\n" + aliceLine + "\n\nrubbish\n" + aliceLine,
		"vhost_combined: reads 1 of 1 requests; next host_combined: 1": `shop.example:80 ` + aliceLine,
		"main: reads 1 of 1 requests":                                  aliceLine + ` "198.51.100.1"`,
		"iis: reads 1 of 1 requests":                                   "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status\n2026-03-01 00:00:01 203.0.113.7 GET /a 200",
		// The fields agree with the line, but the line's time is the server's own.
		"combined in logstash: reads 1 of 1 requests; next ecs in logstash: 1": `{"@timestamp":"2026-03-01T12:00:00Z","@version":"1",` +
			`"source":{"address":"203.0.113.7"},"url":{"original":"/"},"message":` + quote(aliceLine) + `}`,
		// The fields of two shippers: Logstash has passed on a record of Filebeat's.
		"combined in logstash: reads 1 of 1 requests": `{"@timestamp":"2026-03-01T12:00:00Z","@version":"1","agent":{"type":"filebeat"},` +
			`"message":` + quote(aliceLine) + `}`,
		// Each shape reads some of the records, json reads all.
		"json: reads 3 of 3 requests; next nginx-json: 2": `{"msec":1,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1"}` + "\n" +
			`{"msec":2,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1"}` + "\n" + `{"ts":1,"request":{"remote_ip":"192.0.2.1","uri":"/"}}`,
	} {
		choice, err := Detect(strings.Split(sample, "\n"), Options{})
		if err != nil || choice.String() != want {
			t.Errorf("got %s, %v; want %s", choice, err, want)
		}
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestChoose(t *testing.T) {
	user := Options{Fields: map[string]string{"user": "jwt.sub"}}
	for _, c := range []struct {
		envelope, format, sample string
		options                  Options
		want                     string
	}{
		{"filebeat", "combined", "", Options{}, "combined in filebeat, as configured"},
		{"none", " combined\n", "", Options{}, "combined, as configured"},
		{"none", "combinde", "", Options{}, `unknown format "combinde"`},
		{"beats", "auto", aliceLine, Options{}, `unknown envelope "beats"`},
		{"auto", "combinde", aliceLine, Options{}, `unknown format "combinde"`},
		{"auto", "combined", wrapped(aliceLine)["docker"], Options{}, "combined in docker: reads 1 of 1 requests"},
		{"fluentbit", "auto", wrapped(aliceLine)["filebeat"], Options{}, "combined in fluentbit: reads 1 of 1 requests"},
		{"auto", "auto", `{"time":1,"jwt":{"sub":"x"}}`, user, "json: reads 1 of 1 requests"},
		{"auto", "auto", `{"t":1,"c":"192.0.2.1","m":"GET","u":"/","status":200}`,
			Options{Fields: map[string]string{"time": "t", "ip": "c", "method": "m", "uri": "u"}}, "json: reads 1 of 1 requests"},
		{"auto", "auto", aliceLine, user, "field user: the format has no jwt.sub"},
		{"auto", "auto", "# a comment", Options{}, "no line shows which format it is"},
		{"auto", "auto", "some text /x?token=secret", Options{}, "a line that was not read (format): some text /x?token=***"},
		{"auto", "auto", aliceLine + "\na\nb\nc", Options{}, "first 4 requests (nearest: combined: 1): give"},
		{"auto", "auto", aliceLine + "\nhalf", Options{}, "more than half of the first 2 requests"},
	} {
		choice, err := Choose(c.envelope, c.format, strings.Split(c.sample, "\n"), c.options)
		got := choice.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s in %s: got %s, want %s", c.format, c.envelope, got, c.want)
		}
	}
	for _, c := range []struct {
		sample, want string
		sure         bool
	}{
		{"half", "combined: reads 0 of 1 requests", false},
		{wrapped("half")["docker"] + "\n" + wrapped("half")["docker"], "combined in docker: reads 0 of 2 requests", true},
		// Docker's fields, but no line of it is ever complete.
		{`{"date":1,"log":"half","stream":"stdout","time":"2026-03-01T12:00:00Z"}`, "combined in fluentbit: reads 0 of 1 requests", true},
		{"half\n" + wrapped(aliceLine)["docker"] + "\n" + wrapped("half")["docker"], "combined in docker: reads 1 of 3 requests", true},
		{"half\nhalf\nhalf\n" + wrapped(aliceLine)["docker"], "combined: reads 0 of 4 requests", false},
		{strings.Repeat("half\n", 100), "combined: reads 0 of 100 requests", true},
	} {
		choice, err := Choose("auto", "combined", strings.Split(c.sample, "\n"), Options{})
		if err == nil || choice.String() != c.want || choice.Sure() != c.sure {
			t.Errorf("%s: chose %s, %t, %v", c.sample, choice, choice.Sure(), err)
		}
	}
	for _, sample := range [][]string{nil, {""}, {"#Version: 1.0"}} {
		if _, err := Detect(sample, Options{}); !errors.Is(err, ErrNoRequest) {
			t.Errorf("%q: %v", sample, err)
		}
	}
}
