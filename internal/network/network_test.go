package network_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"weir/internal/network"
	"weir/internal/yamlfile"
)

type proxies struct {
	Trusted network.List `yaml:"trusted"`
}

var prefixFiles = map[string]string{
	"good.txt":  "\ufeff# ours\r\n10.0.0.0/8 # all\r\n\r\n2001:db8::/32\n",
	"empty.txt": "",
	"notes.txt": "\ufeff# none yet\n\n",
	"bad.txt":   "10.0.0.0/8\n  10.0.0.1/8 # x\nfoo\n",
}

func readPrefixFile(name string) (string, []byte, error) {
	text, ok := prefixFiles[name]
	if !ok {
		return name, nil, errors.New("open " + name + ": no such file")
	}
	return "/etc/" + name, []byte(text), nil
}

func TestListsReadPrefixesAndFiles(t *testing.T) {
	tests := map[string]string{
		"trusted: 203.0.113.7":                          "[203.0.113.7/32]",
		"trusted: {file: good.txt}":                     "[10.0.0.0/8 2001:db8::/32]",
		"trusted: [::1, {file: good.txt}, 10.1.0.0/16]": "[::1/128 10.1.0.0/16 10.0.0.0/8 2001:db8::/32]",
		"trusted: ['::ffff:10.0.0.0/104']":              "[10.0.0.0/8]",
		"trusted: [::ffff:10.0.0.1]":                    "[10.0.0.1/32]",
		"trusted: []":                                   "[]",
	}
	for text, want := range tests {
		var p proxies
		faults := yamlfile.Decode("f", []byte(text), &p)
		prefixes, wrong := p.Trusted.Read(readPrefixFile)
		if len(faults)+len(wrong) > 0 || fmt.Sprint(prefixes) != want {
			t.Errorf("%s: %v %v %v", text, prefixes, faults, wrong)
		}
	}
}

func TestNetworksReportErrors(t *testing.T) {
	tests := map[string]string{
		"trusted: [10.0.0.1/8]":              "f:1:11: 10.0.0.1/8 has bits set after its first 8; write 10.0.0.0/8 for the network, or 10.0.0.1 for the address",
		"trusted: 10.0":                      `f:1:10: the number 10.0 found where text is expected; put it in quotes: "10.0"`,
		"trusted: [10.0.0.0/33]":             `f:1:11: "10.0.0.0/33" is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32`,
		"trusted: ['fe80::1%eth0']":          `f:1:11: "fe80::1%eth0" is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32`,
		"trusted:\n- fe80::\n":               "f:2:3: a map found where text is expected; YAML reads a colon at the end as a key: put the value in quotes",
		"trusted: {file: bad.txt}":           "/etc/bad.txt:2:3: 10.0.0.1/8 has bits set after its first 8; write 10.0.0.0/8 for the network, or 10.0.0.1 for the address\n/etc/bad.txt:3:1: \"foo\" is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32",
		"trusted: {file: none.txt}":          "f:1:17: open none.txt: no such file",
		"trusted: {file: good.txt, path: x}": "f:1:27: unknown key path; known keys: file",
		"trusted: [{files: a.txt}]":          "f:1:12: unknown key files; did you mean file?",
		"trusted: {file: empty.txt}":         "f:1:17: the file /etc/empty.txt has no addresses; write one address or prefix a line, or leave the file out here",
		"trusted: [::1, {file: notes.txt}]":  "f:1:23: the file /etc/notes.txt has no addresses; write one address or prefix a line, or leave the file out here",
		"trusted: {file: ''}":                "f:1:10: no file is named; write {file: name}",
	}
	for text, want := range tests {
		var p proxies
		faults := yamlfile.Decode("f", []byte(text), &p)
		_, wrong := p.Trusted.Read(readPrefixFile)
		if all := slices.Concat(faults, wrong); all.Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, all, want)
		}
	}
}
