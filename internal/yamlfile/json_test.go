package yamlfile_test

import (
	"reflect"
	"testing"

	"weir/internal/duration"
	"weir/internal/yamlfile"
)

type written struct {
	text []byte
	any  struct {
		List  []string          `yaml:"list"`
		Map   map[string]string `yaml:"map"`
		Count int               `yaml:"count"`
		Yes   bool              `yaml:"yes"`
		Wait  duration.Duration `yaml:"wait"`
		Left  []string          `yaml:"left"`
	}
}

func (w *written) FromYAML(v yamlfile.Value) {
	w.text = v.JSON()
	v.Decode(&w.any)
}

// A value that is written as JSON reads as it did.
func TestJSONReadsTheSame(t *testing.T) {
	const text = `
list:
- a
- "1"
- 'with "quotes"'
- |
  two
  lines
- "${WHO}"
- &name "x: y"
- *name
- <b> & ü
map: {"true": "1.5", plain: word}
count: 16
yes: true
wait: 10m
left:
`
	env := yamlfile.Env(func(string) (string, bool) { return "we", true })
	var first, again written
	if faults := yamlfile.Decode("a.yaml", []byte(text), &first, env); len(faults) > 0 {
		t.Fatal(faults)
	}
	if faults := yamlfile.Decode("b.yaml", first.text, &again); len(faults) > 0 {
		t.Fatalf("%s: %v", first.text, faults)
	}
	if !reflect.DeepEqual(first, again) {
		t.Errorf("%s\nreads as %+v\nand %+v", first.text, first.any, again.any)
	}
}
