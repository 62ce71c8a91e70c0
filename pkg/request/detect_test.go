package request

import (
	"cmp"
	"path/filepath"
	"testing"
)

// TestDetect finds for every case of TestDecode what its first line says.
func TestDetect(t *testing.T) {
	for _, file := range caseFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := readCase(t, file)
			if c.Detect == "-" {
				t.Skip("a collection of faults")
			}
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
