package yamlfile_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
)

type server struct {
	Listen  string             `yaml:"listen"`
	Workers int                `yaml:"workers"`
	Share   float64            `yaml:"share"`
	On      bool               `yaml:"on"`
	Wait    duration.Duration  `yaml:"wait"`
	Keep    duration.OrForever `yaml:"keep"`
	Names   []string           `yaml:"names"`
	Fields  map[string]string  `yaml:"fields"`
	Peer    *server            `yaml:"peer"`
	Either  either             `yaml:"either"`
	shared
}

type shared struct {
	Color string `yaml:"color"`
}

// either is a word, or a map that contains one.
type either struct {
	Word string
}

func (e *either) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok {
		e.Word = text
		return
	}
	var long struct {
		Word string `yaml:"word"`
	}
	v.Decode(&long)
	e.Word = long.Word
}

func (s *server) Validate(v yamlfile.Value) {
	if s.Workers > 100 && !v.Key("workers").Faulty() {
		v.Key("workers").Faultf("write at most 100", "%d workers are too many", s.Workers)
	}
	if !v.Has("listen") {
		v.Key("listen").Faultf("write where to listen", "listen is missing")
	}
	if s.Workers == 1 && !v.Key("workers").Faulty() {
		v.Key("workers").Warnf("write 2", "one worker is slow")
	}
}

func TestDecodeReadsEveryKind(t *testing.T) {
	var s server
	s.Share = 0.5
	faults := yamlfile.Decode("s.yaml", []byte(`
listen: ":80"
workers: 1_0
on: true
wait: 1h30m
keep: forever
names: &names [a, "1"]
fields: {user: jwt.sub}
peer: {listen: x, either: {word: deep}, names: *names}
either: flat
color: red
`), &s)
	if faults != nil {
		t.Fatal(faults)
	}
	if s.Listen != ":80" || s.Workers != 10 || !s.On || s.Share != 0.5 || s.Either.Word != "flat" || s.Color != "red" {
		t.Errorf("%+v", s)
	}
	if time.Duration(s.Wait) != 90*time.Minute || time.Duration(s.Keep) != duration.Forever {
		t.Errorf("%v %v", s.Wait, s.Keep)
	}
	if s.Names[1] != "1" || s.Fields["user"] != "jwt.sub" || s.Peer.Either.Word != "deep" || s.Peer.Names[0] != "a" {
		t.Errorf("%+v %+v", s, s.Peer)
	}
}

func TestAllErrorsHavePlaceAndRemedy(t *testing.T) {
	tests := []struct{ yaml, want string }{
		{"listen: x\nworkerz: 3\n", "f:2:1: unknown key workerz; did you mean workers?"},
		{"listen: x\nzzz: 3\n", "f:2:1: unknown key zzz; known keys: listen, workers, share, on, wait, keep, names, fields, peer, either, color"},
		{"listen: x\nlisten: y\n", "f:2:1: listen is given twice, first at line 1; leave one of them out"},
		{"listen: 80\nworkers: many\non: yes\nnames: one\n", `f:1:9: the number 80 found where text is expected; put it in quotes: "80"
f:2:10: "many" found where a number is expected
f:3:5: "yes" found where a boolean is expected; write true or false
f:4:8: "one" found where a list is expected; write [one]`},
		{"listen: no\n", `f:1:9: "no" found where text is expected; put it in quotes: "no"`},
		{"listen: true\n", `f:1:9: the boolean true found where text is expected; put it in quotes: "true"`},
		{"listen: 2027-03-01\n", `f:1:9: the date 2027-03-01 found where text is expected; put it in quotes: "2027-03-01"`},
		{"listen:\n", "f:1:8: nothing found where text is expected; write a value, or leave the key out\nf:1:8: listen is missing; write where to listen"},
		{"listen: {a: b}\n", "f:1:9: a map found where text is expected; write one value"},
		{"listen: {\"fe80::\"}\n", "f:1:9: a map found where text is expected; YAML reads a colon at the end as a key: put the value in quotes"},
		{"listen: x\nnames:\n- fe80::\n", "f:3:3: a map found where text is expected; YAML reads a colon at the end as a key: put the value in quotes"},
		{"listen: !!binary x\n", `f:1:9: "x" found where text is expected; leave out !!binary`},
		{"listen: !(a == b)\n", `f:1:9: "== b)" found where text is expected; YAML reads a word that begins with ! as a tag: put the entire value in single quotes: '!(a == b)'`},
		{"listen: x\nnames:\n- a\n-\n", "f:4:2: nothing found where an element of the list is expected; write a value after the dash, or leave it out"},
		{"listen: x\nworkers: \"3\"\n", `f:2:10: the text "3" found where a whole number is expected; write it without quotes`},
		{"listen: x\nworkers: 99999999999999999999\n", "f:2:10: 99999999999999999999 is out of range"},
		{"listen: x\nworkers: 1.5\n", "f:2:10: the number 1.5 found where a number is expected"},
		{"workers: 101\n", "f:1:1: listen is missing; write where to listen\nf:1:10: 101 workers are too many; write at most 100"},
		{"listen: x\nwait: 10\n", `f:2:7: "10" is no duration: the unit is missing; write 10s, 10m or 10h`},
		{"listen: x\nwait: forever\n", "f:2:7: forever is not possible here; write how long, such as 24h"},
		{"listen: x\npeer: {workers: 300, colour: red}\n", "f:2:7: listen is missing; write where to listen\nf:2:17: 300 workers are too many; write at most 100\nf:2:22: unknown key colour; did you mean color?"},
		{"listen: x\nfields: [a]\n", "f:2:9: a list found where a map is expected; write {key: value}"},
		{"- a\n", "f:1:1: a list found where a map is expected; known keys: listen, workers, share, on, wait, keep, names, fields, peer, either, color\nf:1:1: listen is missing; write where to listen"},
		{"listen: x\n<<: {on: true}\n", "f:2:1: << (merging maps) is not read; write the keys out, or name a value with &name and repeat it with *name"},
		{"listen: x\n? [a]\n: b\n", "f:2:3: a list found where a key is expected; a key is a plain word"},
		{"listen: x\n---\nlisten: y\n", "f:2:1: a second document begins here; keep each document in a file of its own"},
		{"", "f:1:1: listen is missing; write where to listen"},
		{"listen: \"${HOME_ADDRESS}\"\n", "f:1:9: the environment variable HOME_ADDRESS is not set; set it, or write $${HOME_ADDRESS} for the text itself"},
	}
	for _, test := range tests {
		var s server
		faults := yamlfile.Decode("f", []byte(test.yaml), &s, yamlfile.Env(func(string) (string, bool) { return "", false }))
		if faults.Error() != test.want {
			t.Errorf("%q:\n%v\nwant\n%s", test.yaml, faults, test.want)
		}
	}
}

func TestSyntaxErrorsAreInPlainWords(t *testing.T) {
	tests := []struct{ yaml, want string }{
		{"names:\n\t- a\n", "f:2:1: a tab indents this line; use spaces"},
		{"peer:\n  \tlisten: x\n", "f:2:3: a tab indents this line; use spaces"},
		{"listen: @x\n", "f:1:9: a value cannot begin with @; put the entire value in single quotes: '@x'"},
		{"listen: `x`\n", "f:1:9: a value cannot begin with `; put the entire value in single quotes: '`x`'"},
		{"listen: %x\n", "f:1:9: a value cannot begin with %; put the entire value in single quotes: '%x'"},
		{"listen: a == \"b\" : c\n", "f:1:18: a second colon makes no sense to YAML here; put the entire value in single quotes: 'a == \"b\" : c'"},
		{"listen: x\n  workers: 3\n", "f:2:10: this line does not fit the lines above; line up the keys of one map, and the dashes of one list, in one column"},
		{"peer:\n    listen: x\n  workers: 3\n", "f:3:3: this line does not fit the lines above; line up the keys of one map, and the dashes of one list, in one column"},
		{"listen: \"x\" == y\n", "f:1:13: there is text after the closing quote; put the entire value in single quotes: '\"x\" == y'"},
		{"listen: 'it's'\n", "f:1:13: there is text after the closing quote; put the entire value in single quotes: '''it''s'''"},
		{"listen: \"a\\.b\"\n", "f:1:11: in double quotes a backslash begins an escape, and this one is not known; use single quotes, or double the backslash"},
		{"listen: 'x\nworkers: 3\n", "f:1:9: the quote that opens here is never closed; close it, or leave it out"},
		{"names: [a, b\nlisten: x\n", "f:1:8: the [ that opens here is never closed, or a comma is missing after it; close it with ]"},
		{"names: [a,\n", "f:2:1: a value is missing here, or a bracket above is not closed"},
		{"peer: {listen: x\nworkers: 3\n", "f:1:7: the { that opens here is never closed, or a comma is missing after it; close it with }"},
		{"peer: {listen: ${X}}\n", "f:1:7: ${…} in brackets makes no sense to YAML without quotes; write \"${NAME}\""},
		{"peer: {listen: a in [\"x\"]}\n", "f:1:7: a bracket inside a value without quotes makes no sense to YAML here; put the value in single quotes"},
		{"listen: *.example.com\n", "f:1:9: a value that begins with * repeats one that was named with &, and there is none of that name; put the entire value in single quotes: '*.example.com'"},
		{"listen: *\n", "f:1:10: a value that begins with * repeats one that was named with &, and there is none of that name; put the entire value in single quotes: '*'"},
		{"listen: x\nnames: caf\xe9\n", "f:2:11: the byte 0xe9 is not UTF-8; save the file as UTF-8"},
		{"listen: x\x00\n", "f:1:10: there is an invisible control character (0x00) here; take it out"},
		{"\xff\xfea\x00", "f:1:1: the file is UTF-16; save the file as UTF-8"},
	}
	for _, test := range tests {
		var s server
		if faults := yamlfile.Decode("f", []byte(test.yaml), &s); faults.Error() != test.want {
			t.Errorf("%q:\n%v\nwant\n%s", test.yaml, faults, test.want)
		}
	}
}

func TestEnvIsTextNeverYAML(t *testing.T) {
	env := map[string]string{"PORT": "80", "LIST": "[a, b]: c", "N": "7"}
	var s server
	faults := yamlfile.Decode("f", []byte("listen: \"h:${PORT}${LIST}$${PORT}\"\nworkers: ${N}\nnames: ['${LIST}']"), &s,
		yamlfile.Env(func(name string) (string, bool) { v, ok := env[name]; return v, ok }))
	if faults != nil || s.Listen != "h:80[a, b]: c${PORT}" || s.Workers != 7 || s.Names[0] != "[a, b]: c" {
		t.Errorf("%v %+v", faults, s)
	}
}

func TestOverrideBeatsTheFile(t *testing.T) {
	var s server
	faults := yamlfile.Decode("f", []byte("listen: x\nnames: [a, b]\n"), &s,
		yamlfile.Override("workers", "5", "--set workers"),
		yamlfile.Override("names.1", "c", "--set names.1"),
		yamlfile.Override("peer.peer.listen", "deep", "--set peer"),
		yamlfile.Override("peer.listen", "mid", "--set peer"))
	if faults != nil || s.Workers != 5 || s.Names[1] != "c" || s.Peer.Peer.Listen != "deep" {
		t.Errorf("%v %+v", faults, s)
	}
}

func TestErrorsInOverridesNameTheirOrigin(t *testing.T) {
	var s server
	faults := yamlfile.Decode("f", []byte("listen: x\nnames: [a, b]\n"), &s,
		yamlfile.Override("workers", "many", "--set workers"),
		yamlfile.Override("names.0", "[", "--set names"),
		yamlfile.Override("names.1.x", "c", "--set names.1"),
		yamlfile.Override("names.7", "c", "--set list"),
		yamlfile.Override("wrkers", "1", "--set wrkers"))
	const want = `--set list: there is no place names.7; an element of a list is named by its number, the first is 0
--set names: a value is missing here, or a bracket above is not closed
--set names.1: a map found where text is expected; write one value
--set workers: "many" found where a number is expected
--set wrkers: unknown key wrkers; did you mean workers?`
	if faults.Error() != want {
		t.Errorf("%v\nwant\n%s", faults, want)
	}
}

func TestWarningsAreKeptApart(t *testing.T) {
	var s server
	var warnings yamlfile.Faults
	faults := yamlfile.Decode("f", []byte("listen: x\nworkers: 1\n"), &s, yamlfile.Warnings(&warnings))
	if faults.Err() != nil || warnings.Error() != "f:2:10: one worker is slow; write 2" {
		t.Errorf("%v, %v", faults, warnings)
	}
}

func TestPlacesWithinAnotherFile(t *testing.T) {
	var s server
	faults := yamlfile.Decode("f", []byte("listen: x\non: 1\n"), &s, yamlfile.Within(10, 4))
	if faults.Error() != "f:12:9: the number 1 found where a boolean is expected; write true or false" {
		t.Error(faults)
	}
}

func TestAliasesOfAliasesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("names: &n0 [a, b, c, d, e, f, g, h, i, j]\n")
	for i := 1; i < 8; i++ {
		b.WriteString("k" + string(rune('0'+i)) + ": &n" + string(rune('0'+i)) + " [")
		b.WriteString(strings.Repeat("*n"+string(rune('0'+i-1))+", ", 10) + "]\n")
	}
	var nested map[string]deep
	faults := yamlfile.Decode("f", []byte(b.String()), &nested)
	if !strings.Contains(faults.Error(), "more than 1000000 values") {
		t.Errorf("%.300s", faults.Error())
	}
	var self map[string]deep
	if faults := yamlfile.Decode("f", []byte("a: &a [*a, *a]\n"), &self); len(faults) != 1 || !strings.Contains(faults.Error(), "cannot contain itself") {
		t.Error(faults)
	}
}

// deep is a list of lists of lists …
type deep []deep
