// Package geoip finds the network and the country of an address in databases of MaxMind's format (.mmdb).
//
// Read reads a database completely, checks it, and keeps what it says about addresses as sorted ranges: the first
// address of each range, and the number of its record. Neighbours with one record are one range. So a search is a
// binary search in memory that is ours, and no search reads a byte of the file, which may be damaged or hostile. The
// library that reads the format searches in the tree of the file, in about twice the time.
//
// Guarantees: a database has at most MaxBytes, its tree is walked in a time that grows with its size only, one that
// takes 10 minutes is refused, and it has at most maxRanges ranges. In memory it takes its file, 8 bytes for a range of IPv4 and 20 for one of IPv6, 4 for each
// different record and 16 for each of its fields, and its texts once. A Database and Databases never change and may be used by several goroutines;
// a Finder, with the answers about the last addresses, belongs to one. Nothing here starts a goroutine, and only Open
// touches the disk.
package geoip

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// A Field is something that a database says about an address.
type Field uint8

// The fields.
const (
	ASN     Field = iota // the number of the autonomous system
	ASName               // its name, mostly that of its owner
	Country              // the code of the country, as DE
	City                 // the name of the city, in English
	fields
)

// names are the fields as rules name them.
var names = []string{"asn", "as_name", "country", "city"}

// FieldOf is the field of a name.
func FieldOf(name string) (f Field, ok bool) {
	switch name {
	case "asn":
		return ASN, true
	case "as_name":
		return ASName, true
	case "country":
		return Country, true
	case "city":
		return City, true
	}
	return 0, false
}

// String is the field as rules name it.
func (f Field) String() string { return names[f] }

// A Database is one file.
type Database struct {
	Path  string
	Type  string    // as the database names itself; may be empty
	Built time.Time // by its own words
	Sum   string    // a hash of the file
	File  []byte    // its bytes, which are not changed

	has     [fields]bool     // some address has it
	numbers []uint32         // of autonomous systems, by record; the first record is that of addresses without an entry
	texts   [fields][]string // the other fields, by record; nil for a field that no record has
	v4      ranges4
	v6      ranges6
}

// A record is all that a database says about some addresses.
type record struct {
	number uint32 // 0 is none
	texts  [fields]string
}

// add keeps a record and returns its number.
func (d *Database) add(r *record) uint32 {
	d.numbers = append(d.numbers, r.number)
	d.has[ASN] = d.has[ASN] || r.number != 0
	for f := range fields {
		if r.texts[f] != "" && !d.has[f] {
			d.has[f], d.texts[f] = true, make([]string, len(d.numbers)-1)
		}
		if d.texts[f] != nil {
			d.texts[f] = append(d.texts[f], r.texts[f])
		}
	}
	return uint32(len(d.numbers) - 1)
}

// at is the number of the record of an address.
func (d *Database) at(ip netip.Addr) uint32 {
	if ip.Is4() {
		return d.v4.at(ip)
	}
	return d.v6.at(ip)
}

// recordsIn are the numbers of the records of the addresses of a prefix.
func (d *Database) recordsIn(prefix netip.Prefix) []uint32 {
	prefix = prefix.Masked()
	if ip := prefix.Addr(); ip.Is4() {
		return d.v4.in(ip, prefix.Bits())
	}
	return d.v6.in(prefix.Addr(), prefix.Bits())
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Databases answer together: of each field, the first one that has it.
type Databases struct {
	all    []*Database
	of     [fields]int // the index in asked, or -1
	asked  []*Database // those that answer for a field
	fields []Field
}

// Join makes the databases answer together.
func Join(all ...*Database) *Databases {
	d := &Databases{all: all}
	for f := range fields {
		d.of[f] = -1
		i := slices.IndexFunc(all, func(one *Database) bool { return one.has[f] })
		if i < 0 {
			continue
		}
		d.fields = append(d.fields, f)
		if d.of[f] = slices.Index(d.asked, all[i]); d.of[f] < 0 {
			d.of[f] = len(d.asked)
			d.asked = append(d.asked, all[i])
		}
	}
	return d
}

// For are the databases that answer for some fields, nil if there are none.
func (d *Databases) For(some []Field) *Databases {
	if d == nil {
		return nil
	}
	var needed []*Database
	for _, one := range d.all { // in their order, so that the same ones answer
		if slices.ContainsFunc(some, func(f Field) bool { return d.Has(f) && d.asked[d.of[f]] == one }) {
			needed = append(needed, one)
		}
	}
	if len(needed) == 0 {
		return nil
	}
	return Join(needed...)
}

// All are the databases, in their order. Without any, d may be nil.
func (d *Databases) All() []*Database {
	if d == nil {
		return nil
	}
	return d.all
}

// Fields are the fields that the databases have.
func (d *Databases) Fields() []Field {
	if d == nil {
		return nil
	}
	return d.fields
}

// Has reports whether they have a field.
func (d *Databases) Has(f Field) bool { return d != nil && d.of[f] >= 0 }

// A Place is what the databases say about an address.
type Place struct {
	of *Databases
	at [fields]uint32 // the records, by the index in asked
}

// Text is the text of a field, "" if none is known. It allocates the text of a number.
func (p *Place) Text(f Field) string {
	switch {
	case f == ASN && p.Number() == 0, p.of == nil, p.of.of[f] < 0:
		return ""
	case f == ASN:
		return strconv.FormatUint(uint64(p.Number()), 10)
	}
	i := p.of.of[f]
	return p.of.asked[i].texts[f][p.at[i]]
}

// Number is the number of the autonomous system, 0 if none is known.
func (p *Place) Number() uint32 {
	if p.of == nil || p.of.of[ASN] < 0 {
		return 0
	}
	i := p.of.of[ASN]
	return p.of.asked[i].numbers[p.at[i]]
}

// Find is what they say about an address.
func (d *Databases) Find(ip netip.Addr) Place {
	p := Place{of: d}
	if ip = ip.Unmap(); ip.IsValid() {
		for i, one := range d.asked {
			p.at[i] = one.at(ip)
		}
	}
	return p
}

// NumbersIn calls yield with the number of each autonomous system that has an address of a prefix. It may do so several times.
func (d *Databases) NumbersIn(prefix netip.Prefix, yield func(number uint32)) {
	if !d.Has(ASN) {
		return
	}
	one := d.asked[d.of[ASN]]
	for _, record := range one.recordsIn(prefix) {
		if number := one.numbers[record]; number != 0 {
			yield(number)
		}
	}
}
