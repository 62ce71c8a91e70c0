package backtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"
)

// evidenceLine is a line with a path and an agent that a client chose.
func evidenceLine(client, path, agent string, at time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 404 12 \"-\" \"%s\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"), path, agent)
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pageOf(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteHTML(&b, HTMLOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const evidenceRules = `rules: [
  {name: per-ip, key: ip, limits: [5/min], evidence: %d},
  {name: quiet, key: [ip, path], limits: [5/min], evidence: 0},
]`

// Two servers, one with a packed log, serve a client by turns: the page shows its last requests before the first block.
func TestThePageShowsTheRequestsThatCounted(t *testing.T) {
	var logs [2]strings.Builder
	for i := range 12 { // the sixth breaks the limit
		logs[i%2].WriteString(evidenceLine("192.0.2.1", fmt.Sprintf("/n%d?token=s3cret", i), "<script>alert(1)</script>\u202e", noon.Add(time.Duration(i)*time.Second)))
	}
	for i := range 4 { // within the limit
		logs[0].WriteString(evidenceLine("192.0.2.2", "/within", "curl", noon.Add(time.Duration(20+i)*time.Second)))
	}
	later := evidenceLine("192.0.2.1", "/much-later", "curl", noon.Add(24*time.Hour))

	c := Config{
		Rules: parseRules(t, fmt.Sprintf(evidenceRules, 3)), Timelines: true,
		Inputs: []Input{writeFile(t, "b.log.gz", packed(t, logs[1].String())), writeFile(t, "a.log", []byte(logs[0].String())), writeFile(t, "c.log", []byte(later))},
	}
	r := runConfig(t, c)
	var got []string
	for _, one := range r.Rules[0].Blocked[0].evidence {
		got = append(got, one.Time.Format("05 ")+one.Path)
	}
	if strings.Join(got, ", ") != "05 /n5?token=***, 04 /n4?token=***, 03 /n3?token=***" {
		t.Errorf("the requests are %q", got)
	}

	page := pageOf(t, r)
	for _, wanted := range []string{"The last 3 requests that counted before the first block, newest first", "/n5?token=***", `&lt;script&gt;alert(1)&lt;/script&gt;\xe2\x80\xae`, " · 404<"} {
		if !strings.Contains(page, wanted) {
			t.Errorf("%q is missing", wanted)
		}
	}
	for _, unwanted := range []string{"s3cret", "<script>alert", "\u202e", "/n2?", "/n6?", "/within", "much-later", "are not shown"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("%q is in the page", unwanted)
		}
	}
}

func TestEvidenceIsAsManyAsTheRuleKeeps(t *testing.T) {
	for _, most := range []int{0, 1, 20} {
		log := writeFile(t, "a.log", []byte(burst("192.0.2.1", "/x", noon, 30)))
		r := runConfig(t, Config{Rules: parseRules(t, fmt.Sprintf(evidenceRules, most)), Inputs: []Input{log}, Timelines: true})
		for i, wanted := range []int{min(most, 6), 0} {
			if got := len(r.Rules[i].Blocked[0].evidence); got != wanted {
				t.Errorf("evidence: %d, rule %d: %d requests, want %d", most, i, got, wanted)
			}
		}
	}
}

func TestEvidenceChangesNoFigure(t *testing.T) {
	log := func() Input { return writeFile(t, "a.log", []byte(burst("192.0.2.1", "/x", noon, 30)+"nonsense\n")) }
	var texts []string
	for _, timelines := range []bool{false, true} {
		var b strings.Builder
		r := runConfig(t, Config{Rules: parseRules(t, severalRules), Inputs: []Input{log()}, Timelines: timelines})
		for i := range r.Inputs {
			r.Inputs[i].Input = ""
		}
		for i := range r.Samples {
			r.Samples[i].Input = ""
		}
		if err := r.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.String())
	}
	if texts[0] != texts[1] {
		t.Errorf("without %s\nwith    %s", texts[0], texts[1])
	}
}

func TestSecretsOfRulesAreNotInEvidence(t *testing.T) {
	secret := writeFile(t, "secret", []byte(strings.Repeat("5e", 32)))
	rules := fmt.Sprintf("secret_file: %s\nrules: [{name: per-user, key: user, limits: [5/min], secret: true}]", secret.Path)
	log := writeFile(t, "a.log", []byte(strings.ReplaceAll(burst("192.0.2.1", "/keys/k-1234567", noon, 9), " - - [", " - k-1234567 [")))
	page := pageOf(t, runConfig(t, Config{Rules: parseRules(t, rules), Inputs: []Input{log}, Timelines: true}))
	if !strings.Contains(page, "that counted before the first block") || strings.Contains(page, "k-1234567") {
		t.Error("the requests are missing, or have the secret")
	}
}

func TestStandardInputIsReadOnce(t *testing.T) {
	page := pageOf(t, runConfig(t, Config{Rules: parseRules(t, severalRules), Inputs: []Input{fromText("log", burst("192.0.2.1", "/x", noon, 30))}, Timelines: true}))
	if !strings.Contains(page, "so the requests in them that counted are not shown") || strings.Contains(page, "before the first block") {
		t.Error("the page does not state that the requests are not known")
	}
}
