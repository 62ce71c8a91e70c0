package yamlfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/address"
)

// Networks are addresses and prefixes, written as one, as a list, or in files of their own, a prefix a line:
//
//	ip: [10.0.0.0/8, 203.0.113.7, {file: monitoring.txt}]
type Networks struct {
	Prefixes []netip.Prefix // those that stand in the YAML file itself
	Files    []NetworkFile
}

// A NetworkFile is a file of prefixes, and the place where it is named.
type NetworkFile struct {
	Name  string
	place Value
}

// FromYAML reads one prefix, one file, or a list of them.
func (n *Networks) FromYAML(v Value) {
	elements, ok := v.List()
	if !ok {
		elements = []Value{v}
	}
	for _, element := range elements {
		n.add(element)
	}
}

func (n *Networks) add(v Value) {
	if pairs, isMap := v.Map(); isMap && len(pairs) > 0 && !trailingColon(v.node) {
		var named struct {
			File string `yaml:"file"`
		}
		if v.Decode(&named) && named.File == "" {
			v.Faultf("write {file: name}", "no file is named")
		}
		n.Files = append(n.Files, NetworkFile{named.File, v.Key("file")})
		return
	}

	text := v.Text()
	if text == "" {
		return
	}

	prefix, err := ParsePrefix(text)
	if err != nil {
		v.Fault(err)
		return
	}

	n.Prefixes = append(n.Prefixes, prefix)
}

// Read returns all prefixes, including those of the files; the function read returns a file's path and content by its
// name in the YAML file. Read may be called after Decode.
func (n *Networks) Read(read func(name string) (path string, data []byte, err error)) ([]netip.Prefix, Faults) {
	var faults Faults
	all := slices.Clone(n.Prefixes)
	for _, file := range n.Files {
		if file.Name == "" {
			continue // already reported
		}
		path, data, err := read(file.Name)
		if err != nil {
			faults = append(faults, file.place.fault("", "%v", []any{err}))
			continue
		}
		more, wrong := ParsePrefixes(path, data)
		all, faults = append(all, more...), append(faults, wrong...)
	}

	return all, faults
}

// ParsePrefixes reads a file of prefixes: one a line, or an address; # begins a comment.
func ParsePrefixes(file string, data []byte) ([]netip.Prefix, Faults) {
	var prefixes []netip.Prefix
	var faults Faults
	text := strings.TrimPrefix(string(data), "\ufeff")
	for number, line := range strings.Split(text, "\n") {
		entry, _, _ := strings.Cut(line, "#")
		word := strings.TrimSpace(entry)
		if word == "" {
			continue
		}

		prefix, err := ParsePrefix(word)
		if err != nil {
			what, remedy, _ := strings.Cut(err.Error(), "; ")
			indent, _, _ := strings.Cut(entry, word)
			column := utf8.RuneCountInString(indent) + 1
			faults = append(faults, Fault{file, number + 1, column, what, remedy})
			continue
		}

		prefixes = append(prefixes, prefix)
	}

	return prefixes, faults
}

// ParsePrefix reads an address or a prefix. IPv4 within IPv6 becomes IPv4, as package address has it.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = address.Plain(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}

	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32", clip(text))
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	if masked := prefix.Masked(); masked != prefix {
		return prefix, fmt.Errorf("%s has bits set after its first %d; write %s for the network, or %s for the address", prefix, prefix.Bits(), masked, prefix.Addr())
	}

	return address.PlainPrefix(prefix), nil
}
