// Package house tests the tree as one: which package may import which, and the documents' statements about files.
package house

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors are the rooms of the house, from the ground up. An import goes down only: rooms of one floor do not know each
// other. A room is a package and the packages below it.
var floors = [][]string{
	{"internal/address", "internal/nearest", "internal/regular", "internal/sleep", "internal/varint"},
	{"internal/yamlfile", "internal/kafka", "internal/store", "internal/telemetry", "internal/limited", "internal/origin", "internal/logfile", "pkg/request", "pkg/window", "pkg/hit"},
	{"internal/duration", "internal/network"},
	{"pkg/rule", "pkg/blocklist", "internal/keys"},
	{"pkg/collector", "pkg/aggregator", "pkg/enforcer", "pkg/backtest"},
	{"cmd/internal/config", "cmd/internal/exit"},
	{"cmd/internal/daemon", "cmd/weir/internal/command", "cmd/weir/internal/output"},
	{"cmd/weir/internal/live", "cmd/weir/internal/shown"},
	{"cmd/weir/internal/ask"},
	{"cmd/weir", "cmd/collector", "cmd/aggregator", "cmd/enforcer"},
}

// tests are packages of tests and of their helpers: they may import all others, and no other package imports them.
var tests = []string{"test", "examples"}

// vendors are libraries that only the rooms named may know.
var vendors = map[string][]string{
	"github.com/segmentio/kafka-go":   {"internal/kafka"},
	"github.com/twmb/franz-go":        {"internal/kafka"},
	"github.com/redis/go-redis":       {"internal/store"},
	"github.com/cockroachdb/pebble":   {"internal/store"},
	"go.yaml.in/yaml":                 {"internal/yamlfile"},
	"github.com/expr-lang/expr":       {"pkg/rule", "cmd/internal/config"},
	"github.com/spf13/cobra":          {"cmd/weir", "cmd/internal/daemon"},
	"github.com/hashicorp/golang-lru": {"pkg/aggregator"},
	"github.com/google/nftables":      {"pkg/enforcer"},
	"github.com/mdlayher/netlink":     {"pkg/enforcer"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "weir/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestImportsGoDown(t *testing.T) {
	for _, p := range packages(t) {
		from, room := floorOf(p.ImportPath)
		if from < 0 && !isTest(p.ImportPath) {
			t.Errorf("%s stands on no floor", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, "weir/") || isTest(p.ImportPath) {
				continue
			}
			if to, other := floorOf(imported); isTest(imported) || to >= from && room != other {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, imported)
			}
		}
	}
}

func TestVendorsStayInTheirRooms(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for vendor, rooms := range vendors {
				if _, room := floorOf(p.ImportPath); within(imported, vendor) && !slices.ContainsFunc(rooms, func(r string) bool { return within(room, r) }) && !isTest(p.ImportPath) {
					t.Errorf("%s imports %s, which only %v may know", p.ImportPath, imported, rooms)
				}
			}
		}
	}
}

// floorOf is the floor and the room of a package; -1 for one that stands on none.
func floorOf(path string) (int, string) {
	path = strings.TrimPrefix(path, "weir/")
	for i, rooms := range floors {
		for _, room := range rooms {
			if within(path, room) {
				return i, room
			}
		}
	}
	return -1, path
}

func within(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

func isTest(path string) bool {
	return slices.ContainsFunc(tests, func(room string) bool { return within(strings.TrimPrefix(path, "weir/"), room) })
}
