package haproxy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// scripted answers like a healthy HAProxy, except for commands that begin with a given word.
type scripted struct {
	commands []string
	fails    string
	answer   string
	search   time.Duration // how long it takes to find an entry that is changed or removed
}

func (s *scripted) ask(_ context.Context, command string) (string, error) {
	s.commands = append(s.commands, command)
	time.Sleep(time.Duration(strings.Count(command, "set map ")+strings.Count(command, "del map ")) * s.search)
	switch {
	case s.fails != "" && strings.HasPrefix(command, s.fails):
		return s.answer, nil
	case strings.HasPrefix(command, "prepare "):
		return versionMade + "7\n\n", nil
	}
	return "\n", nil
}

func scriptedAgent(s *scripted) *Agent {
	a := New(Config{Socket: "/nowhere", Map: "/m", Logger: slog.New(slog.DiscardHandler)})
	a.runtime = s
	return a
}

func addresses(count int) []cidr.Block {
	blocks := make([]cidr.Block, count)
	for i := range blocks {
		prefix := netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0xff, byte(i >> 16), byte(i >> 8), byte(i), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), 127).Masked()
		blocks[i] = cidr.Block{Prefix: prefix, Until: int64(i+1) * 1000}
	}
	return blocks
}

// Every entry is sent once, in commands that fit into HAProxy's smallest usual buffer.
func TestCommandsAreBounded(t *testing.T) {
	s := &scripted{}
	a := scriptedAgent(s)
	want := addresses(5000)
	if err := a.replace(context.Background(), want); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, command := range s.commands {
		if len(command) > payloadBytes+len("add map @7 /m <<\n\n") {
			t.Errorf("a command of %d bytes", len(command))
		}
		if strings.HasPrefix(command, "add map @7 /m <<\n") {
			sent += strings.Count(command, "2001:db8:")
		}
	}
	if last := s.commands[len(s.commands)-1]; sent != len(want) || last != "commit map @7 /m" {
		t.Errorf("%d entries were sent; in the end %q", sent, last)
	}
}

// Few changes are additions first, then removals; many are a new version.
func TestFewChangesAreMadeOneByOne(t *testing.T) {
	s := &scripted{}
	a := scriptedAgent(s)
	a.have = addresses(3)
	want := addresses(4)[1:]
	want[0].Until++
	if err := a.change(context.Background(), want); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.commands, "|"); !strings.HasPrefix(got, "add map /m <<\n2001:db8:ff00:3:") || !strings.Contains(got, "|set map /m 2001:db8:ff00:1:") || !strings.Contains(got, "; del map /m 2001:db8:ff00:0:") {
		t.Errorf("%s", got)
	}
	s.commands, a.have = nil, nil
	if err := a.change(context.Background(), addresses(fewChanges+1)); err != nil || s.commands[0] != "prepare map /m" {
		t.Errorf("%v %q", err, s.commands[0])
	}
}

// Many blocks of a long list end at once. Where HAProxy takes long to remove them, the list is swapped instead, so that
// new blocks do not wait for a minute.
func TestChangesThatTakeLongerThanAListReplaceIt(t *testing.T) {
	for search, replaced := range map[time.Duration]bool{10 * time.Microsecond: false, 40 * time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{search: search}
			a := scriptedAgent(s)
			all := addresses(20_000)
			a.have = all
			began := time.Now()
			if err := a.change(context.Background(), all[fewChanges:]); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s for an entry: took %s", search, took)
			}
			last := s.commands[len(s.commands)-1]
			if got := strings.HasPrefix(last, "commit map @7"); got != replaced {
				t.Errorf("%s for an entry: %d commands, the last is %.60q", search, len(s.commands), last)
			}
		})
	}
}

// Each answer is checked, and an incomplete version never becomes active.
func TestEachAnswerIsChecked(t *testing.T) {
	for _, verb := range []string{"prepare", "add", "commit"} {
		s := &scripted{fails: verb, answer: "No such thing.\n\n"}
		err := scriptedAgent(s).replace(context.Background(), addresses(1))
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "No such thing.") {
			t.Errorf("%s: %v", verb, err)
		}
		for _, command := range s.commands {
			if verb == "add" && strings.HasPrefix(command, "commit") {
				t.Error("a part of a list is committed")
			}
		}
	}
	for _, verb := range []string{"add", "set", "del"} {
		a := scriptedAgent(&scripted{fails: verb, answer: "Key not found.\n\n"})
		a.have = addresses(2)
		want := addresses(3)[1:]
		want[0].Until++
		if verb == "del" {
			want = addresses(1)
		}
		if err := a.change(context.Background(), want); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestValues(t *testing.T) {
	for _, test := range []struct {
		until int64
		want  string
	}{{1000, "1"}, {1001, "2"}, {1999, "2"}, {blocklist.Never, strconv.Itoa(lastSecond)}, {1 << 60, strconv.Itoa(lastSecond)}} {
		b := cidr.Block{Until: test.until, Rule: "per-ip"}
		if got := Until.of(b); got != test.want {
			t.Errorf("%d: %s, want %s", test.until, got, test.want)
		}
		if got := Rule.of(b); got != "per-ip" {
			t.Errorf("%s", got)
		}
	}
}
