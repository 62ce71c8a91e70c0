// Package house tests the tree as one: which package may import which, and the documents' statements about files.
package house

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tests are packages of tests and of their helpers: they may import all others, and no other package imports them. A
// package below them that the table names is a room.
var tests = []string{"test", "examples"}

// vendors are libraries that only the rooms named may know.
var vendors = map[string][]string{
	"github.com/segmentio/kafka-go":   {"internal/kafka"},
	"github.com/twmb/franz-go":        {"internal/kafka"},
	"github.com/redis/go-redis":       {"internal/store", "pkg/inline", "pkg/collector/redisstream"},
	"github.com/nats-io":              {"pkg/collector/jetstream"},
	"github.com/rabbitmq":             {"pkg/collector/rabbit"},
	"github.com/aws":                  {"internal/amazon", "internal/bucket", "pkg/collector/kinesis"},
	"github.com/jackc/pgx":            {"pkg/inline"},
	"github.com/go-sql-driver":        {"pkg/inline"},
	"github.com/cockroachdb/pebble":   {"internal/database", "internal/store", "internal/topic/local", "pkg/enforcer/past"},
	"go.yaml.in/yaml":                 {"internal/yamlfile"},
	"github.com/expr-lang/expr":       {"pkg/rule", "cmd/internal/config"},
	"github.com/spf13/cobra":          {"cmd/weir", "cmd/internal/daemon"},
	"github.com/hashicorp/golang-lru": {"pkg/aggregator", "pkg/inline"},
	"github.com/google/nftables":      {"pkg/enforcer"},
	"github.com/mdlayher/netlink":     {"pkg/enforcer"},
	"google.golang.org/grpc":          {"pkg/enforcer"},
	"github.com/envoyproxy":           {"pkg/enforcer"},
	"github.com/coreos/go-oidc":       {"pkg/enforcer"},
	"golang.org/x/oauth2":             {"pkg/enforcer"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// A house is the table of ARCHITECTURE.md: the floors from the ground up, and their rooms. A room is a package and the
// packages below it that are no rooms themselves.
type house [][]string

// split are the rooms that are split into further ones: each package below them is a room on a lower floor. So it
// cannot call back to its parent, nor to a sibling on its floor.
var split = []string{"pkg/collector", "pkg/aggregator", "cmd/weir"}

var tableRow = regexp.MustCompile("^\\| *([0-9]*) *\\| `([^`]+)` \\|")

// readHouse reads the rows of the table, which begins with the top floor.
func readHouse(t *testing.T) house {
	t.Helper()
	_, text, found := strings.Cut(read(t, "ARCHITECTURE.md"), "| floor | room | what it is |\n| --- | --- | --- |\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of floors and rooms")
	}

	var h house
	var numbers []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		row := tableRow.FindStringSubmatch(line)
		switch {
		case row == nil:
			t.Fatalf("ARCHITECTURE.md: this is no row of a floor and a room: %s", line)
		case row[1] != "":
			numbers = append(numbers, row[1])
			h = append(h, nil)
		case len(h) == 0:
			t.Fatalf("ARCHITECTURE.md: the room %s stands on no floor", row[2])
		}
		h[len(h)-1] = append(h[len(h)-1], row[2])
	}

	slices.Reverse(numbers)
	for floor, number := range numbers {
		if number != strconv.Itoa(floor) {
			t.Errorf("ARCHITECTURE.md: the floor %s is number %d from the ground", number, floor)
		}
	}

	slices.Reverse(h)
	return h
}

func TestTheTableHasTheRoomsThatExist(t *testing.T) {
	all := packages(t)
	for _, rooms := range readHouse(t) {
		for _, room := range rooms {
			if !slices.ContainsFunc(all, func(p listed) bool { return within(local(p), room) }) {
				t.Errorf("ARCHITECTURE.md names the room %s, and there is no such package", room)
			}
		}
	}
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
	h := readHouse(t)
	for _, p := range packages(t) {
		if isTest(local(p)) {
			continue
		}
		from, room := h.find(local(p))
		if from < 0 {
			t.Errorf("%s stands on no floor", p.ImportPath)
		}
		for _, parent := range split {
			if room == parent && local(p) != parent {
				t.Errorf("%s is no room: ARCHITECTURE.md must name each package below %s, on a floor below it", p.ImportPath, parent)
			}
		}

		for _, imported := range p.Imports {
			imported, ours := strings.CutPrefix(imported, "weir/")
			if !ours {
				continue
			}
			if to, other := h.find(imported); isTest(imported) || to >= from && room != other {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, imported)
			}
		}
	}
}

func TestVendorsStayInTheirRooms(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			for vendor, rooms := range vendors {
				knows := isTest(local(p)) || slices.ContainsFunc(rooms, func(room string) bool { return within(local(p), room) })
				if within(imported, vendor) && !knows {
					t.Errorf("%s imports %s, which only %v may know", p.ImportPath, imported, rooms)
				}
			}
		}
	}
}

// find returns the floor and the room of a package; -1 for one that stands on none. Of nested rooms it is the inner one.
func (h house) find(path string) (floor int, room string) {
	floor = -1
	for i, rooms := range h {
		for _, r := range rooms {
			if within(path, r) && len(r) > len(room) {
				floor, room = i, r
			}
		}
	}
	return floor, room
}

// local is the path of a package in the tree.
func local(p listed) string { return strings.TrimPrefix(p.ImportPath, "weir/") }

func within(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }

const readyRules = "examples/rules"

func isTest(path string) bool {
	if path == readyRules {
		return false
	}
	return slices.ContainsFunc(tests, func(room string) bool { return within(path, room) })
}
