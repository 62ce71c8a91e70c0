package request

import (
	"slices"
	"strings"
	"testing"
)

// FuzzDetect: for any sample, the choice of Detect can be made and reads more than half of the sample, as reported. No
// other pair reads more, except formats with a tail. The same sample gives the same choice. Without a choice the error
// is printable.
func FuzzDetect(f *testing.F) {
	for _, file := range caseFiles(f) {
		records := readCase(f, file).records
		f.Add(strings.Join(records[:min(3, len(records))], "\n"))
	}
	for _, record := range wrapped(aliceLine) {
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sample := strings.Split(text, "\n")
		if len(sample) > 4 || len(text) > 4096 {
			return
		}
		choice, err := Detect(sample, Options{})
		again, _ := Detect(sample, Options{})
		if choice.String() != again.String() {
			t.Fatalf("first %s then %s", choice, again)
		}
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' }) {
				t.Fatalf("%q", err)
			}
			return
		}
		if choice.Read*2 <= choice.Lines {
			t.Fatal(choice)
		}
		loose := slices.ContainsFunc(presets, func(p preset) bool { return p.loose && p.name == choice.Format })
		for _, pair := range candidates("auto", "auto", sample, Options{}) {
			pair.run(sample, Options{})
			if pair.refused != nil && forgeable([]trial{pair}) == nil {
				continue
			}
			if strict := !pair.loose && !pair.rival; pair.read > choice.Read && (strict || loose) && !pair.rival {
				t.Fatalf("%s reads more than %s", pair, choice)
			}
			if pair.envelope == choice.Envelope && pair.format == choice.Format && pair.read != choice.Read {
				t.Fatalf("reads %d, not %s", pair.read, choice)
			}
		}
	})
}
