package backtest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/yamlfile"
)

// runTests writes a file of tests and runs it.
func runTests(t *testing.T, text string) (*TestReport, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules_test.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return RunTests(t.Context(), path)
}

// The examples of the documentation pass.
func TestExamplesOfTheDocumentationHold(t *testing.T) {
	text, err := os.ReadFile("../../docs/testing-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) == 0 {
		t.Fatal("there is no example")
	}
	for _, example := range examples {
		report, err := runTests(t, example[1])
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		if err := report.WriteText(&told, true); err != nil || report.Failed() > 0 || len(report.Cases) != 4 {
			t.Errorf("%v\n%s", err, told.String())
		}
	}
}

const testsHead = `
rules:
  - {name: per-ip, key: ip, limits: [3/min], block: {for: 10m}}
  - {name: per-user, key: user, limits: [2/min], match: path == "/api"}
tests:
  - name: one
`

func TestFailuresShowExpectedAndFound(t *testing.T) {
	const requests = "    requests: [{ip: 203.0.113.7, user: alice, repeat: 5 every 10s}]\n"
	for expectation, wanted := range map[string]string{
		"blocked: [{rule: per-ip, key: 203.0.113.7, at: 30s, limit: 3/min, refused: 2}]": "",
		"blocked: [{key: 203.0.113.7}]":                               "",
		"blocked: [{key: 203.0.113.7, at: \"2026-01-01T00:00:30Z\"}]": "",
		"blocked: [{key: 203.0.113.7, at: 40s}]":                      "203.0.113.7 is blocked at 40s | 203.0.113.7 was blocked by per-ip of 3/min at 30s, with 2 requests of 5 refused",
		"blocked: [{key: 203.0.113.7, limit: 3/hour}]":                "203.0.113.7 is blocked of 3/hour | 203.0.113.7 was blocked by per-ip of 3/min at 30s, with 2 requests of 5 refused",
		"blocked: [{key: 203.0.113.7, refused: 3}]":                   "203.0.113.7 is blocked, with 3 requests refused | 203.0.113.7 was blocked by per-ip of 3/min at 30s, with 2 requests of 5 refused",
		"blocked: [{rule: per-user, key: alice, at: 1m}]":             "alice is blocked by per-user at 1m | it was not blocked; per-user counted 0 requests of 0 keys, and not 5 that match leaves out",
		"never: [203.0.113.7]":                                        "203.0.113.7 is never blocked | 203.0.113.7 was blocked by per-ip of 3/min at 30s, with 2 requests of 5 refused",
		"never: [{rule: per-user, key: alice}, 203.0.113.8]":          "",
		"never: others": "no one else is blocked | 203.0.113.7 was blocked by per-ip of 3/min at 30s, with 2 requests of 5 refused",
		"blocked: [{key: 203.0.113.7}]\n    never: others": "",
	} {
		report, err := runTests(t, testsHead+requests+"    "+expectation+"\n")
		if err != nil {
			t.Errorf("%s: %v", expectation, err)
			continue
		}
		got := ""
		for _, f := range report.Cases[0].Failures {
			got += f.Expected + " | " + f.Got
			if f.Line < 6 || f.Line > 8 {
				t.Errorf("%s: line %d", expectation, f.Line)
			}
		}
		if got != wanted || report.Failed() != min(1, len(wanted)) {
			t.Errorf("%s:\n got %s\nwant %s", expectation, got, wanted)
		}
	}
}

func TestFailuresAreWrittenForPeople(t *testing.T) {
	report := &TestReport{File: "rules_test.yaml", Cases: []CaseReport{
		{Name: "good"}, {Name: "bad", Failures: []TestFailure{{Line: 7, Expected: "this", Got: "that"}}},
	}}
	var told strings.Builder
	if err := report.WriteText(&told, true); err != nil {
		t.Fatal(err)
	}
	const wanted = "ok      good\nFAILED  bad\n    rules_test.yaml:7\n      expected: this\n      got:      that\nrules_test.yaml: 1 of 2 tests passed\n"
	if told.String() != wanted {
		t.Errorf("got\n%s", told.String())
	}
}

// {n} is the number of a repeated request, in all texts.
func TestRequestsAreNumbered(t *testing.T) {
	var spec testFile
	faults := yamlfile.Decode("", []byte(`
rules: rules.yaml
tests:
  - name: one
    requests:
      - {path: "/{n}/a?b={n}", user: "u{n}", host: "{n}.example", agent: "a/{n}", referrer: "/{n}{n}", fields: {tenant: "t{n}"}, repeat: 2 every 1m}
      - {path: "/{m}", query: "{n}"}
    never: others
`), &spec)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, r := range spec.Tests[0].expand(spec.startOf(&spec.Tests[0])) {
		text := strings.Join([]string{r.Path, r.Query, r.User, r.Host, r.Agent, r.Referrer}, " ")
		for _, f := range r.Fields {
			text += " " + f.Value
		}
		got = append(got, text)
	}
	wanted := "/1/a b=1 u1 1.example a/1 /11 t1|/2/a b=2 u2 2.example a/2 /22 t2|/{m} 1    "
	if strings.Join(got, "|") != wanted {
		t.Errorf("got %q", strings.Join(got, "|"))
	}
}

func TestRequestsAreWrittenOut(t *testing.T) {
	var spec testFile
	faults := yamlfile.Decode("", []byte(`
rules: rules.yaml
start: 2026-03-01T12:00:00+01:00
tests:
  - name: one
    requests:
      - {ip: "::ffff:192.0.2.1", path: "/a?b=c", repeat: 2 every 1m}
      - {after: 5s, user: alice, fields: {tenant: acme, a: b}}
      - {at: 30s, method: POST, host: weir.example, status: 500, bytes: 7}
      - {at: 2026-03-01T11:00:00Z}
    never: others
`), &spec)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, r := range spec.Tests[0].expand(spec.startOf(&spec.Tests[0])) {
		got = append(got, strings.Join([]string{Instant(r.UnixMilli).String()[11:19], r.Method, r.Host + r.Path, r.Query, r.User}, " "))
		switch {
		case r.Query == "b=c" && r.IP.String() != "192.0.2.1", r.User != "" && (len(r.Fields) != 2 || r.Fields[1].Value != "acme"),
			r.Method == http.MethodPost && (r.Status != 500 || r.Bytes != 7):
			t.Errorf("%+v", r)
		}
	}
	wanted := "11:00:00 GET /a b=c |11:00:00 GET /  |11:00:30 POST weir.example/  |11:01:00 GET /a b=c |11:01:05 GET /  alice"
	if strings.Join(got, "|") != wanted {
		t.Errorf("got %s", strings.Join(got, "|"))
	}
}

func TestErrorsInATestFileHavePlaces(t *testing.T) {
	for text, wanted := range map[string]string{
		"tests: []":                     "the tests have no rules",
		"rules: rules.yaml":             "there are no tests",
		"rules: rules.yaml\ntests: []":  "there are no tests",
		"rules: rules.yaml\ntests:":     "there are no tests",
		testsHead + "    x: 1":          `unknown key x`,
		testsHead + "    never: others": "a test has either requests or a log",
		testsHead + "    log: a\n    requests: [{}]\n    never: others":                            "a test has either requests or a log",
		testsHead + "    requests: [{}]":                                                           "the test expects nothing",
		testsHead + "    requests: [{}]\n    format: json\n    never: others":                      "only a log has a format",
		testsHead + "    requests: [{at: 1s, after: 1s}]\n    never: others":                       "a request has either at or after",
		testsHead + "    requests: [{at: soon}]\n    never: others":                                `"soon" found where a time is expected`,
		testsHead + "    requests: [{ip: me}]\n    never: others":                                  `"me" found where an address is expected`,
		testsHead + "    requests: [{repeat: often}]\n    never: others":                           `"often" found where a number of requests is expected`,
		testsHead + "    requests: [{repeat: 0}]\n    never: others":                               "the number 0 found where a number of requests is expected",
		testsHead + "    requests: [{repeat: 2 every 5}]\n    never: others":                       "where a number of requests is expected",
		testsHead + "    requests: []\n    never: others":                                          "the test has no requests",
		testsHead + "    requests: [{}]\n    never: []\n    blocked: []":                           "the test expects nothing",
		testsHead + "    requests: [{}]\n    never: [203.0.113.7, others]":                         "others stands by itself",
		testsHead + "    requests: [{}]\n    never: nobody":                                        `"nobody" found where keys are expected`,
		testsHead + "    requests: [{}]\n    blocked: [{rule: per-ip}]":                            "the key is missing",
		testsHead + "    requests: [{}]\n    blocked: [{rule: per-iq, key: x}]":                    "there is no rule per-iq",
		testsHead + "    requests: [{}]\n    blocked: [{rule: per-ip, key: x}]":                    "x",
		testsHead + "    requests: [{}]\n    blocked: [{key: x, limit: 10}]":                       "10 is a number of hits without a time",
		testsHead + "    requests: [{}]\n    never: others\n  - requests: [{}]\n    never: others": "the test has no name",
	} {
		_, err := runTests(t, text)
		var faults yamlfile.Faults
		if !errors.As(err, &faults) || !strings.Contains(faults.Error(), wanted) || faults[0].Line == 0 {
			t.Errorf("%s\n got %v\nwant %s", text, err, wanted)
		}
	}
}

func TestTestsReadLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const line = `203.0.113.7 - - [01/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x"` + "\n"
	write("access.log", strings.Repeat(line, 12))
	write("broken.log", line+line+line+"nonsense\n")
	write("good.yaml", testsHead+"    log: access.log\n    blocked: [{key: 203.0.113.7, at: 2026-03-01T12:00:00Z, refused: 9}]\n")
	write("bad.yaml", testsHead+"    log: broken.log\n    format: combined\n    never: others\n")
	if report, err := RunTests(t.Context(), filepath.Join(dir, "good.yaml")); err != nil || report.Failed() > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := RunTests(t.Context(), filepath.Join(dir, "bad.yaml")); err == nil || !strings.Contains(err.Error(), "broken.log:4 cannot be read") {
		t.Error(err)
	}
	if _, err := RunTests(t.Context(), filepath.Join(dir, "none.yaml")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
