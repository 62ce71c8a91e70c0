// Package geoiptest makes small databases of addresses for tests.
package geoiptest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// An Entry is what a database says about a network; empty fields are left out.
type Entry struct {
	ASN                 uint32
	Name, Country, City string
}

// Bytes is a database with these networks, as MaxMind names their fields. It was built at an epoch, in seconds.
func Bytes(t testing.TB, epoch int64, networks map[string]Entry) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Weir-Test", Description: map[string]string{"en": "test"}, BuildEpoch: epoch, IncludeReservedNetworks: true, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	for text, entry := range networks {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(network, entry.fields()); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (e Entry) fields() mmdbtype.Map {
	fields := mmdbtype.Map{}
	if e.ASN != 0 {
		fields["autonomous_system_number"] = mmdbtype.Uint32(e.ASN)
	}
	if e.Name != "" {
		fields["autonomous_system_organization"] = mmdbtype.String(e.Name)
	}
	if e.Country != "" {
		fields["country"] = mmdbtype.Map{"iso_code": mmdbtype.String(e.Country)}
	}
	if e.City != "" {
		fields["city"] = mmdbtype.Map{"names": mmdbtype.Map{"de": mmdbtype.String("x"), "en": mmdbtype.String(e.City)}}
	}
	return fields
}

// Write puts such a database into the place of a file at once, as tools that fetch databases do, and returns its path.
func Write(t testing.TB, path string, epoch int64, networks map[string]Entry) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", Bytes(t, epoch, networks), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}
