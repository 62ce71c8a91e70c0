// Package network reads IP addresses and prefixes: from a text, from a file with a prefix on each line, and as a field of a
// file that package yamlfile reads. It opens no files itself, and resolves no names.
package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/address"
	"weir/internal/yamlfile"
)

// A List is addresses and prefixes, written as one, as a list, or in files of their own, a prefix a line:
//
//	ip: [10.0.0.0/8, 203.0.113.7, {file: monitoring.txt}]
type List struct {
	Prefixes []netip.Prefix // those that stand in the YAML file itself
	Files    []File
}

// A File is a file of prefixes, and the place where it is named.
type File struct {
	Name  string
	place yamlfile.Value
}

// FromYAML reads one prefix, one file, or a list of them.
func (n *List) FromYAML(v yamlfile.Value) {
	for _, element := range v.OneOrMore() {
		n.add(element)
	}
}

func (n *List) add(v yamlfile.Value) {
	// YAML makes a map of an address that ends in a colon, such as fe80::, which Text reports.
	if pairs, isMap := v.Map(); isMap && len(pairs) > 0 && !v.EndsInColon() {
		var named struct {
			File string `yaml:"file"`
		}
		if v.Decode(&named) && named.File == "" {
			v.Faultf("write {file: name}", "no file is named")
		}
		n.Files = append(n.Files, File{named.File, v.Key("file")})
		return
	}

	text := v.Text()
	if text == "" {
		return
	}

	prefix, err := Parse(text)
	if err != nil {
		v.Fault(err)
		return
	}

	n.Prefixes = append(n.Prefixes, prefix)
}

// Read returns all prefixes, including those of the files; the function read returns a file's path and content by its
// name in the YAML file. A file without any prefix is a fault. Read may be called after Decode.
func (n *List) Read(read func(name string) (path string, data []byte, err error)) ([]netip.Prefix, yamlfile.Faults) {
	var faults yamlfile.Faults
	all := slices.Clone(n.Prefixes)
	for _, file := range n.Files {
		if file.Name == "" {
			continue // already reported
		}
		path, data, err := read(file.Name)
		if err != nil {
			fault := file.place.Place()
			fault.What = err.Error()
			faults = append(faults, fault)
			continue
		}
		more, wrong := ParseFile(path, data)
		// A download that failed leaves an empty file. Taken as a list, it would lift what the list restricts.
		if len(more)+len(wrong) == 0 {
			fault := file.place.Place()
			fault.What = "the file " + path + " has no addresses"
			fault.Remedy = "write one address or prefix a line, or leave the file out here"
			wrong = yamlfile.Faults{fault}
		}
		all, faults = append(all, more...), append(faults, wrong...)
	}

	return all, faults
}

// IsWide reports whether a prefix has more addresses than commands take without confirmation, and not only private ones.
func IsWide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < 8
	}
	return p.Bits() < 19 && !p.Addr().IsPrivate() && !p.Addr().IsLinkLocalUnicast()
}

// WidestOfFiles is the widest prefix of what Read returned, of those that are wide and are in files; false if there is none.
func (n *List) WidestOfFiles(read []netip.Prefix) (widest netip.Prefix, ok bool) {
	for _, p := range read[len(n.Prefixes):] {
		if IsWide(p) && (!ok || p.Bits() < widest.Bits()) {
			widest, ok = p, true
		}
	}
	return widest, ok
}

// ParseFile reads a file of prefixes: one a line, or an address; # begins a comment.
func ParseFile(file string, data []byte) ([]netip.Prefix, yamlfile.Faults) {
	var prefixes []netip.Prefix
	var faults yamlfile.Faults

	// Some editors write a byte order mark.
	text := strings.TrimPrefix(string(data), "\ufeff")
	for number, line := range strings.Split(text, "\n") {
		entry, _, _ := strings.Cut(line, "#")
		word := strings.TrimSpace(entry)
		if word == "" {
			continue
		}

		prefix, err := Parse(word)
		if err != nil {
			indent, _, _ := strings.Cut(entry, word)
			column := utf8.RuneCountInString(indent) + 1
			faults = append(faults, yamlfile.Fault{File: file, Line: number + 1, Column: column}.Of(err))
			continue
		}

		prefixes = append(prefixes, prefix)
	}

	return prefixes, faults
}

// Parse reads an address or a prefix. IPv4 within IPv6 becomes IPv4, as package address has it.
func Parse(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = address.Plain(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}

	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is no address and no prefix; write it as 203.0.113.7, 10.0.0.0/8 or 2001:db8::/32", yamlfile.Clip(text))
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}

	// One of the two is a slip, and which one cannot be known: blocking the wrong one may be blocking many.
	if masked := prefix.Masked(); masked != prefix {
		return prefix, fmt.Errorf("%s has bits set after its first %d; write %s for the network, or %s for the address", prefix, prefix.Bits(), masked, prefix.Addr())
	}

	return address.PlainPrefix(prefix), nil
}
