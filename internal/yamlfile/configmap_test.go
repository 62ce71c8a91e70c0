package yamlfile_test

import (
	"strings"
	"testing"

	"weir/internal/yamlfile"
)

const configMap = `apiVersion: v1
kind: Deployment
data: {no.yaml: "not this"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: weir}
data:
  # the configuration
  weir.yaml: |

    listen: x
    workers: many
  short.yaml: "listen: x\nworkers: few\n"
  "folded.yaml": >-
    listen: x
  empty: ""
  number: 3
`

func TestConfigMapHoldsFilesWithTheirPlaces(t *testing.T) {
	files, ok := yamlfile.ConfigMap("cm.yaml", []byte(configMap))
	if !ok || len(files) != 5 {
		t.Fatalf("%v %+v", ok, files)
	}
	want := map[string]string{
		"weir.yaml":   `cm.yaml:13:14: "many" found where a number is expected`,
		"short.yaml":  `cm.yaml[short.yaml]:2:10: "few" found where a number is expected`,
		"folded.yaml": "",
	}
	for _, file := range files[:3] {
		var s server
		if faults := yamlfile.Decode(file.File, file.Data, &s, file.Within()); faults.Error() != want[file.Name] {
			t.Errorf("%s: %v", file.Name, faults)
		}
	}
}

func TestConfigMapsInAList(t *testing.T) {
	const list = "kind: List\nitems:\n- {kind: Secret, data: {a.yaml: x}}\n- kind: ConfigMap\n  data:\n    b.yaml: |\n      listen: x\n      workers: many\n- {kind: ConfigMap, data: {c.yaml: 'listen: y'}}\n- just text\n"
	files, ok := yamlfile.ConfigMap("list.yaml", []byte(list))
	if !ok || len(files) != 2 || files[0].Name != "b.yaml" || files[1].Name != "c.yaml" {
		t.Fatalf("%v %+v", ok, files)
	}
	var s server
	if faults := yamlfile.Decode(files[0].File, files[0].Data, &s, files[0].Within()); faults.Error() != `list.yaml:8:16: "many" found where a number is expected` {
		t.Error(faults)
	}
}

func TestFilesThatAreNoConfigMap(t *testing.T) {
	for _, text := range []string{"", "listen: x\n", "- a\n", "kind: Pod\n", "kind: List\n", "kind: List\nitems: {kind: ConfigMap}\n", "kind: [a]\n", "a: [", "ConfigMap"} {
		if files, ok := yamlfile.ConfigMap("f", []byte(text)); ok || files != nil {
			t.Errorf("%q: %v", text, files)
		}
	}
}

func TestAtFindsThePlaceInsideAScalar(t *testing.T) {
	tests := []struct {
		yaml         string
		line, column int
		want         string
	}{
		{"listen: abc def\n", 1, 5, "1:13"},
		{"listen: 'abc def'\n", 1, 5, "1:14"},
		{"listen: 'it''s it'\n", 1, 5, "1:9"},
		{"listen: |\n  abc\n  é def\n", 2, 3, "3:5"},
		{"listen: >\n  abc\n  def\n", 1, 5, "1:9"},
		{"listen: é x\n", 1, 3, "1:11"},
		{"listen: x\n", 2, 3, "1:9"},
	}
	for _, test := range tests {
		var p pointed
		p.line, p.column = test.line, test.column
		faults := yamlfile.Decode("f", []byte(test.yaml), &struct {
			Listen *pointed `yaml:"listen"`
		}{&p})
		if !strings.HasPrefix(faults.Error(), "f:"+test.want+": here") {
			t.Errorf("%q: %v, want %s", test.yaml, faults, test.want)
		}
	}
}

// pointed reports a fault at a place in its text.
type pointed struct{ line, column int }

func (p *pointed) FromYAML(v yamlfile.Value) { v.At(p.line, p.column).Faultf("", "here") }
