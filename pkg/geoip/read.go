package geoip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"weir/internal/regular"
)

// MaxBytes is the size of the largest database that is read.
const MaxBytes = 512 << 20

const (
	maxRanges = 32 << 20
	maxText   = 1 << 10
)

// longest is how long a database may take to be read. One may refer to a large record so often that it takes hours.
var longest = 10 * time.Minute // tests lower it

// Open reads a database from a file. The file may change or go afterwards.
func Open(path string) (*Database, error) {
	data, err := regular.ReadUpTo(path, MaxBytes)
	if err != nil {
		return nil, err
	}
	return Read(path, data)
}

// Read reads a database that is in memory; path is for messages. The bytes must not change
// afterwards.
func Read(path string, data []byte) (d *Database, err error) {
	// The library returns errors for bytes of any kind. Were one of them to be a panic, it must not end the process.
	defer func() {
		if broken := recover(); broken != nil {
			d, err = nil, fmt.Errorf("the database %s is damaged: %v", path, broken)
		}
	}()

	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a complete database of MaxMind's format (.mmdb): %w", path, err)
	}
	r := newReading(path, reader)
	if err := r.walk(); err != nil {
		return nil, fmt.Errorf("the database %s is damaged: %w", path, err)
	}
	if r.of.has == [fields]bool{} {
		return nil, fmt.Errorf("the database %s (%s) has none of the fields %s", path, r.of.Type, strings.Join(names, ", "))
	}
	r.of.Sum, r.of.File = sumOf(data), data
	return r.of, nil
}

// A reading is a database that is being read.
type reading struct {
	of     *Database
	reader *maxminddb.Reader
	known  map[uintptr]uint32 // the numbers of records, by their places in the file
	same   map[record]uint32  // and by what they say
	texts  map[string]string  // each once
	paths  [fields]int        // of the field, the way that led to a text last
	began  time.Time

	next4 uint64 // the address behind the last network
	next6 address6
	full  bool // next6 is behind the last address
}

func newReading(path string, reader *maxminddb.Reader) *reading {
	d := &Database{Path: path, Type: reader.Metadata.DatabaseType, numbers: make([]uint32, 1)}
	if epoch := reader.Metadata.BuildEpoch; epoch < math.MaxInt32*8 {
		d.Built = reader.Metadata.BuildTime().UTC()
	}
	if len(d.Type) > maxText {
		d.Type = ""
	}
	return &reading{began: time.Now(), of: d, reader: reader, known: map[uintptr]uint32{}, same: map[record]uint32{{}: 0}, texts: map[string]string{}}
}

var (
	errTree  = errors.New("its networks are not a tree")
	errLarge = errors.New("it has too many networks")
	errSlow  = errors.New("its records take too long to be read")
)

// walk keeps what the database says about each network. All networks are walked over, also those without data and those
// that lead to the tree of IPv4 again: the library skips these without an end in a tree that is none.
func (r *reading) walk() error {
	most := 4 * (uint64(r.reader.Metadata.NodeCount) + 1)
	for network := range r.reader.Networks(maxminddb.IncludeNetworksWithoutData(), maxminddb.IncludeAliasedNetworks()) {
		if most--; most == 0 {
			return errTree
		}
		if err := network.Err(); err != nil {
			return err
		}
		record, err := r.record(network)
		if err != nil {
			return err
		}
		if err := r.add(network.Prefix(), record); err != nil {
			return err
		}
	}

	if r.next4 <= math.MaxUint32 {
		r.of.v4.add(uint32(r.next4), 0)
	}
	if !r.full {
		r.of.v6.add(r.next6, 0)
	}
	r.of.v4.index()
	r.of.v6.index()
	return nil
}

// aliases are the networks in which databases repeat the tree of IPv4. The client of such a request is the IPv4 address.
var aliases = []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16")}

// add keeps the record of a network.
func (r *reading) add(network netip.Prefix, record uint32) error {
	if network.Addr().Is4() && network.Bits() <= 32 {
		return r.add4(network, record)
	}
	if unmapped := network.Addr(); network.Bits() <= 96 && network.Contains(netip.IPv6Unspecified()) {
		if err := r.add4(netip.PrefixFrom(netip.IPv4Unspecified(), 0), record); err != nil {
			return err
		}
	} else if unmapped.Is4In6() || isAlias(unmapped) {
		record = 0
	}
	return r.add6(network, record)
}

func isAlias(ip netip.Addr) bool {
	for _, alias := range aliases {
		if alias.Contains(ip) {
			return true
		}
	}
	return false
}

func (r *reading) add4(network netip.Prefix, record uint32) error {
	b := network.Addr().As4()
	from := binary.BigEndian.Uint32(b[:])
	switch {
	case uint64(from) < r.next4:
		return errTree
	case uint64(from) > r.next4:
		r.of.v4.add(uint32(r.next4), 0)
	}
	r.of.v4.add(from, record)
	r.next4 = uint64(from) + 1<<(32-network.Bits())
	return r.room()
}

func (r *reading) add6(network netip.Prefix, record uint32) error {
	from := address6Of(network.Addr())
	switch {
	case r.full || r.next6.isBehind(from):
		return errTree
	case from != r.next6:
		r.of.v6.add(r.next6, 0)
	}
	r.of.v6.add(from, record)
	r.next6, r.full = from.behind(network.Bits())
	return r.room()
}

// behind is the address behind a network that begins at a; full says that there is none.
func (a address6) behind(bits int) (next address6, full bool) {
	next = a
	if bits > 64 {
		if next.low += 1 << (128 - bits); next.low != 0 {
			return next, false
		}
		next.high++
		return next, next.high == 0
	}
	next.high += 1 << (64 - bits) // 0 of all addresses
	return next, next.high <= a.high
}

func (r *reading) room() error {
	if len(r.of.v4.from)+len(r.of.v6.high) > maxRanges {
		return errLarge
	}
	return nil
}

// record is the number of a network's record.
func (r *reading) record(network maxminddb.Result) (uint32, error) {
	if !network.Found() {
		return 0, nil
	}
	if n, ok := r.known[network.Offset()]; ok {
		return n, nil
	}
	if time.Since(r.began) > longest {
		return 0, errSlow
	}
	what, err := r.decode(network)
	if err != nil {
		return 0, err
	}

	n, ok := r.same[what]
	if !ok {
		n = r.of.add(&what)
		r.same[what] = n
	}
	r.known[network.Offset()] = n
	return n, nil
}

// paths are the ways to a field in a record, as the makers of databases name it.
var paths = [fields][][]any{
	ASN:     {{"autonomous_system_number"}, {"asn"}},
	ASName:  {{"autonomous_system_organization"}, {"as_name"}},
	Country: {{"country", "iso_code"}, {"country_code"}, {"country"}},
	City:    {{"city", "names", "en"}, {"city"}},
}

func (r *reading) decode(network maxminddb.Result) (what record, err error) {
	for f := range fields {
		text := ""
		// The makers use one name in all records, so the last one that was found is tried first.
		for i := range paths[f] {
			way := (r.paths[f] + i) % len(paths[f])
			if text, err = r.text(network, f, paths[f][way]); err != nil {
				return what, err
			}
			if text != "" {
				r.paths[f] = way
				break
			}
		}
		what.texts[f] = text
	}
	number, _ := strconv.ParseUint(what.texts[ASN], 10, 32) // it was checked, or there is none
	what.number, what.texts[ASN] = uint32(number), ""
	return what, nil
}

// text is a field in its one form, "" if the record does not have it in this way.
func (r *reading) text(network maxminddb.Result, f Field, way []any) (string, error) {
	var text string
	err := network.DecodePath(&text, way...)
	if f == ASN && err != nil {
		var number uint64
		if err = network.DecodePath(&number, way...); number > 0 {
			text = strconv.FormatUint(number, 10)
		}
	}
	if err := damage(err); err != nil {
		return "", err
	}
	if len(text) > maxText {
		return "", fmt.Errorf("%s has a text of %d bytes", f, len(text))
	}
	text = plain(f, text)
	if once, ok := r.texts[text]; ok {
		return once, nil
	}
	r.texts[text] = text
	return text, nil
}

// damage is an error of decoding, unless it only reports a value of another type: the record has no such text then.
func damage(err error) error {
	if damaged := (maxminddb.InvalidDatabaseError{}); errors.As(err, &damaged) {
		return err
	}
	return nil
}

// plain is the text of a field in its one form.
func plain(f Field, text string) string {
	text = strings.TrimSpace(text)
	switch f {
	case ASN:
		number, err := strconv.ParseUint(strings.TrimPrefix(strings.ToUpper(text), "AS"), 10, 32)
		if err != nil || number == 0 {
			return ""
		}
		return strconv.FormatUint(number, 10)
	case Country:
		if len(text) != 2 { // a name, or a dash for none
			return ""
		}
		return strings.ToUpper(text)
	}
	if text == "-" {
		return ""
	}
	return text
}
