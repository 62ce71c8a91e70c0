package crowdsec

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// The answers to a bouncer from poll to poll.
func TestStream(t *testing.T) {
	s := newSite(t)
	end := s.after(time.Hour)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.expect(t, "?startup=true", "Ip 203.0.113.7 per-ip 1m0s | ")
	s.expect(t, "?startup=false", " | ")
	s.list.block("per-ip", "ip", "203.0.113.8", end)
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 203.0.113.8 per-ip 59m50s | ")
	s.list.lift("per-ip", "203.0.113.8")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", " | Ip 203.0.113.8 per-ip -1s")
	s.expect(t, "", " | ")
	s.now = s.now.Add(41 * time.Second)
	s.expect(t, "", " | Ip 203.0.113.7 per-ip -1s") // it has expired
	s.list.block("per-ip", "ip", "203.0.113.8", end)
	s.now = s.now.Add(time.Second)
	s.expect(t, "", "Ip 203.0.113.8 per-ip 58m58s | ")
	s.expect(t, "?startup=true", "Ip 203.0.113.8 per-ip 58m58s | Ip 203.0.113.7 per-ip -2s")
}

// Only the word true is a startup.
func TestStartupIsTheWord(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.poll(t, "")
	for _, word := range []string{"TRUE", "1", "false", ""} {
		s.expect(t, "?startup="+word, " | ")
	}
}

// A value that one rule releases and another still blocks is not deleted.
func TestTwoRulesHoldOneValue(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(10*time.Minute))
	s.list.block("scans", "ip", "203.0.113.7", s.after(time.Hour))
	s.expect(t, "", "Ip 203.0.113.7 scans 1h0m0s | ")
	s.list.lift("scans", "203.0.113.7")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", " | ")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 203.0.113.7 per-ip 9m40s | ") // for bouncers that have dropped it
	s.list.lift("per-ip", "203.0.113.7")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", " | Ip 203.0.113.7 per-ip -1s")
}

// When two scopes have one value, a bouncer that asks for both never gets it as new and as deleted; a bouncer that asks
// for the ended one gets the deletion.
func TestOneValueInTwoScopes(t *testing.T) {
	s := newSite(t)
	const both = "?scopes=ip,username"
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	s.expect(t, both, "Ip 203.0.113.7 per-ip 1h0m0s | ")
	read(t, s.askAs("other", "192.0.2.2:1", "GET", "/v1/decisions/stream", ""))
	s.list.lift("per-ip", "203.0.113.7")
	s.list.block("per-user", "user", "203.0.113.7", s.after(time.Hour))
	s.now = s.now.Add(time.Second)
	s.expect(t, both, "username 203.0.113.7 per-user 59m59s | ")
	other := read(t, s.askAs("other", "192.0.2.2:1", "GET", "/v1/decisions/stream", ""))
	if other.String() != " | Ip 203.0.113.7 per-ip -1s" {
		t.Error(other.String())
	}
}

// A ban with a later end is sent at once, and once more after the first end, when bouncers that skip known values have
// dropped it.
func TestALongerBanIsSentAgainWhenTheFirstIsOver(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.poll(t, "")
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	s.now = s.now.Add(30 * time.Second)
	s.expect(t, "", "Ip 203.0.113.7 per-ip 59m30s | ")
	s.now = s.now.Add(31 * time.Second)
	s.expect(t, "", " | ")
	s.now = s.now.Add(time.Second)
	s.expect(t, "", "Ip 203.0.113.7 per-ip 58m58s | ")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", " | ")
}

// An allow inside a prefix changes the prefixes in the answer; a pause removes everything.
func TestOrdersChangeOnlyGivenFields(t *testing.T) {
	s := newSite(t)
	s.list.block("per-net", "ip", "198.51.100.0/30", s.after(time.Hour))
	s.expect(t, "", "Range 198.51.100.0/30 per-net 1h0m0s | ")
	s.list.order(blocklist.OrderAllow, "ip", "198.51.100.1", s.after(30*time.Second))
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 198.51.100.0 per-net 59m50s, Range 198.51.100.2/31 per-net 59m50s | Range 198.51.100.0/30 per-net -1s")
	s.now = s.now.Add(20 * time.Second)
	s.expect(t, "", "Range 198.51.100.0/30 per-net 59m30s | Ip 198.51.100.0 per-net -1s, Range 198.51.100.2/31 per-net -1s")
	s.list.order(blocklist.OrderPause, "", "*", s.after(10*time.Second))
	s.now = s.now.Add(5 * time.Second)
	s.expect(t, "", " | Range 198.51.100.0/30 per-net -1s")
	s.now = s.now.Add(5 * time.Second)
	s.expect(t, "", "Range 198.51.100.0/30 per-net 59m20s | ")
}

// Each key at each address has a cursor of its own.
func TestCursors(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	for _, who := range [][2]string{{"edge", "192.0.2.1:1"}, {"edge", "192.0.2.2:1"}, {"other", "192.0.2.1:1"}, {"edge", "@"}, {"edge", "[2001:db8::1]:1"}} {
		first := read(t, s.askAs(who[0], who[1], "GET", "/v1/decisions/stream", ""))
		second := read(t, s.askAs(who[0], who[1]+"9", "GET", "/v1/decisions/stream", ""))
		if len(first.New) != 1 || len(second.New) != 0 {
			t.Errorf("%s: %v, then %v", who, first.String(), second.String())
		}
	}
}

// Two bouncers with one key behind one address each get all changes, unless they are of one kind and have the same
// filter. A restart does not change that.
func TestBouncersThatShareAKeyAndAnAddress(t *testing.T) {
	s := newSite(t)
	poll := func(agent, query string) streamed {
		r := httptest.NewRequest(http.MethodGet, "/v1/decisions/stream"+query, nil)
		r.Header.Set("X-Api-Key", "key-of-edge")
		r.Header.Set("User-Agent", agent)
		r.RemoteAddr = "192.0.2.1:1234"
		s.masks.took = 0
		w := httptest.NewRecorder()
		s.mux.ServeHTTP(w, r)
		return read(t, w)
	}
	kinds := [][2]string{{"crowdsec-firewall-bouncer/v0.0.34", "?a=b"}, {"crowdsec-nginx-bouncer/v1.1.3", ""}, {"crowdsec-nginx-bouncer/v1.1.3", "?scopes=ip"},
		{"crowdsec-nginx-bouncer/v1.1.3", "?scopes=username"}, {"crowdsec-nginx-bouncer/v1.1.3", "?origins=weir"}, {"crowdsec-nginx-bouncer/v1.1.3", "?dedup=false"},
		{"crowdsec-nginx-bouncer/v1.1.3", "?scenarios_containing=per"}, {"crowdsec-nginx-bouncer/v1.1.3", "?scenarios_not_containing=nothing"}}
	for _, kind := range kinds {
		poll(kind[0], kind[1])
	}
	for i := range 3 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.113.%d", i), s.after(time.Hour))
		s.list.block("per-user", "user", fmt.Sprintf("user %d", i), s.after(time.Hour))
		s.now = s.now.Add(time.Second)
		for _, kind := range kinds {
			if got := poll(kind[0], kind[1]); len(got.New) != 1 {
				t.Errorf("%v: %s", kind, got.String())
			}
			if got := poll(kind[0], strings.Replace(kind[1], "a=b", "c=d&scopes=range,ip", 1)); len(got.New) != 0 {
				t.Errorf("%v again: %s", kind, got.String())
			}
		}
		if err := s.Save(); err != nil {
			t.Fatal(err)
		}
		s.open()
	}
}

// Two programs of one kind behind one address are distinguished by their connections, even when one of them connects
// again, and after a restart; the log reports once that they share a key.
func TestTwoBouncersOfOneKind(t *testing.T) {
	s := newSite(t)
	var log strings.Builder
	logTo := func() { s.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
	logTo()
	lines := []string{"192.0.2.1:1001", "192.0.2.1:1002"}
	holds := []map[string]bool{{}, {}}
	poll := func(i int, query string) {
		got := read(t, s.askAs("edge", lines[i], "GET", "/v1/decisions/stream"+query, ""))
		for _, d := range got.Deleted {
			delete(holds[i], *d.Value)
		}
		for _, d := range got.New {
			holds[i][*d.Value] = true
		}
	}
	poll(0, "?startup=true")
	poll(1, "?startup=true")
	random := rand.New(rand.NewPCG(1, 2))
	in := map[string]bool{}
	for step := range 500 {
		s.now = s.now.Add(time.Second)
		value := fmt.Sprintf("203.0.113.%d", random.IntN(20))
		if in[value] {
			s.list.lift("per-ip", value)
			delete(in, value)
		} else {
			s.list.block("per-ip", "ip", value, s.after(24*time.Hour))
			in[value] = true
		}
		switch i := random.IntN(2); {
		case step > 50 && step%40 == 0:
			lines[i] = fmt.Sprintf("192.0.2.1:%d", 2000+step) // it connects again
		case step > 50 && step%97 == 0:
			if err := s.Save(); err != nil {
				t.Fatal(err)
			}
			s.open()
			logTo()
			lines = []string{fmt.Sprintf("192.0.2.1:%d", 3000+step), fmt.Sprintf("192.0.2.1:%d", 4000+step)}
		}
		first := random.IntN(2)
		poll(first, "")
		poll(1-first, "")
		for i := range holds {
			if !maps.Equal(holds[i], in) {
				t.Fatalf("step %d: bouncer %d holds %v, want %v", step, i, holds[i], in)
			}
		}
	}
	if n := strings.Count(log.String(), "give each a key of its own"); n == 0 || n > 6 { // once per start
		t.Errorf("it was said %d times", n)
	}
}

// A program that connects again for each poll, or whose connection stays, is one bouncer.
func TestOneBouncerIsNotTakenForTwo(t *testing.T) {
	for _, stays := range []bool{true, false} {
		s := newSite(t)
		var log strings.Builder
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for i := range 100 {
			s.list.block("per-ip", "ip", fmt.Sprintf("203.0.113.%d", i), s.after(time.Hour))
			s.now = s.now.Add(time.Second)
			line := "192.0.2.1:1"
			if !stays {
				line = fmt.Sprintf("192.0.2.1:%d", i)
			}
			if got := read(t, s.askAs("edge", line, "GET", "/v1/decisions/stream", "")); len(got.New) != 1 {
				t.Errorf("poll %d: %s", i, got.String())
			}
		}
		for _, l := range s.masks.connections {
			if len(l.of) > maxConnections {
				t.Errorf("%d connections are remembered", len(l.of))
			}
		}
		if log.Len() > 0 {
			t.Error(log.String())
		}
	}
}

// A bouncer that ignores prefixes is named in the log, once.
func TestTraefiksPluginInStreamModeIsWarnedOf(t *testing.T) {
	for agent, want := range map[string]int{"Crowdsec-Bouncer-Traefik-Plugin/1.4.6": 1, "crowdsec-nginx-bouncer/v1.1.3": 0} {
		for _, addresses := range [][]string{nil, {"edge"}} {
			var log strings.Builder
			s := newSite(t, addresses...)
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			for range 3 {
				r := httptest.NewRequest(http.MethodGet, "/v1/decisions/stream", nil)
				r.Header.Set("X-Api-Key", "key-of-edge")
				r.Header.Set("User-Agent", agent)
				s.mux.ServeHTTP(httptest.NewRecorder(), r)
				r.URL.Path = "/v1/decisions"
				s.mux.ServeHTTP(httptest.NewRecorder(), r)
			}
			if addresses != nil {
				want = 0
			}
			if got := strings.Count(log.String(), "key=edge"); got != want {
				t.Errorf("%s, %v: %s", agent, addresses, log.String())
			}
		}
	}
}

// After a restart bouncers get the changes, including entries that were lifted meanwhile.
func TestRestart(t *testing.T) {
	s := newSite(t)
	end := s.after(time.Hour)
	for i := range 3 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.113.%d", i), end)
	}
	s.poll(t, "")
	s.list.lift("per-ip", "203.0.113.0")
	s.now = s.now.Add(time.Second)
	read(t, s.askAs("other", "192.0.2.2:1", "GET", "/v1/decisions/stream", ""))
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	s.list.lift("per-ip", "203.0.113.1")
	s.list.block("per-ip", "ip", "203.0.113.9", end)
	s.now = s.now.Add(9 * time.Second)
	s.open()
	s.expect(t, "", "Ip 203.0.113.9 per-ip 59m50s | Ip 203.0.113.0 per-ip -9s, Ip 203.0.113.1 per-ip -1s")
	s.expect(t, "", " | ")
	id := s.masks.lastID
	if id != 4 {
		t.Errorf("the last id is %d", id)
	}
}

// A file that is cut off or changed at any byte is refused: bouncers begin again.
func TestDamageStartsOver(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
	s.poll(t, "")
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.folder, "bouncers")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(good) {
		changed := append([]byte(nil), good...)
		changed[cut] ^= 1
		for _, bad := range [][]byte{good[:cut], changed} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			table := newTable(unchanged, always)
			if err := table.load(path); err == nil || len(table.values)+len(table.bouncers) > 0 {
				t.Fatalf("%d: %v, %d values of\n%s", cut, err, len(table.values), bad)
			}
		}
	}
	s.open()
	s.expect(t, "", "Ip 203.0.113.7 per-ip 1h0m0s | ")
}

// A bouncer whose cursor is older than the kept changes begins again, and the number of kept changes is bounded.
func TestChangesAreBounded(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(1000*time.Hour))
	s.poll(t, "")
	s.now = s.now.Add(keepChanges + time.Minute)
	s.list.edits++
	read(t, s.askAs("other", "192.0.2.2:1", "GET", "/v1/decisions/stream", ""))
	if len(s.masks.changes) != 0 {
		t.Errorf("%d changes are kept", len(s.masks.changes))
	}
	s.expect(t, "", " | ") // it already has all of them
	for i := range maxChanges + 10 {
		s.masks.note(change{Revision: s.masks.revision + int64(i), Row: &row{Value: "x"}})
	}
	s.masks.revision += maxChanges + 10
	s.masks.forget(s.now)
	if len(s.masks.changes) != maxChanges {
		t.Errorf("%d changes are kept", len(s.masks.changes))
	}
	s.now = s.now.Add(time.Hour)
	if got := s.poll(t, ""); len(got.New) != 1 {
		t.Errorf("it was told %s", got.String())
	}
}

// The comparison with the list takes a tenth of the time, or the table is ten seconds old.
func TestRefreshingIsBounded(t *testing.T) {
	for took, until := range map[time.Duration]time.Duration{100 * time.Millisecond: time.Second, time.Minute: oldest} {
		s := newSite(t)
		s.poll(t, "")
		s.timed, s.masks.took = true, took
		pass := s.masks.pass
		began := s.now
		for _, later := range []time.Duration{0, until - 1, until} {
			s.list.edits++
			s.now = began.Add(later)
			s.poll(t, "")
		}
		if s.masks.pass != pass+1 {
			t.Errorf("one that took %v was done %d times", took, s.masks.pass-pass)
		}
	}
}

func TestBouncersAreBounded(t *testing.T) {
	b := bouncers{}
	for i := range maxBouncers + 1 {
		b.set(bouncer{Key: "k", Address: fmt.Sprint(i)}, cursor{At: int64(i)})
	}
	if _, oldest := b[bouncer{Key: "k", Address: "0"}]; oldest || len(b) > maxBouncers {
		t.Errorf("%d bouncers, the oldest among them: %v", len(b), oldest)
	}
	b.forget(keepBouncers.Milliseconds() + maxBouncers)
	if len(b) != 1 {
		t.Errorf("%d bouncers came lately", len(b))
	}
}

// Bouncers that drop masks get addresses: all of a small prefix, and those seen of a large one.
func TestBouncersThatDropMasks(t *testing.T) {
	s := newSite(t, "firewall")
	ask := func() string {
		got := read(t, s.askAs("firewall", "192.0.2.1:1", "GET", "/v1/decisions/stream", ""))
		return got.String()
	}
	e := s.list.block("per-ip", "ip", "2001:db8:1::/64", s.after(time.Hour))
	s.list.block("per-net", "ip", "198.51.100.0/31", s.after(time.Hour))
	if got := ask(); got != "Ip 198.51.100.0 per-net 1h0m0s, Ip 198.51.100.1 per-net 1h0m0s | " {
		t.Error(got)
	}
	s.Saw(e, mustAddr("2001:db8:1::5"))
	s.Saw(e, mustAddr("2001:db8:1::5"))
	s.Saw(e, mustAddr("2001:db8:2::5")) // of another prefix
	s.now = s.now.Add(time.Second)
	if got := ask(); got != "Ip 2001:db8:1::5 per-ip 59m59s | " {
		t.Error(got)
	}
	s.expect(t, "", "Range 198.51.100.0/31 per-net 59m59s, Range 2001:db8:1::/64 per-ip 59m59s | ")
	for i := range maxSeen + 10 {
		s.refused.add(fmt.Sprint(i), mustAddr("2001:db8::1"))
	}
	for i := range maxSeenOfEntry + 10 {
		s.refused.add("x", mustAddr(fmt.Sprintf("2001:db8::%x", i+1)))
	}
	if len(s.refused.entries) > maxSeen || len(s.refused.entries["x"]) > maxSeenOfEntry {
		t.Errorf("%d entries, %d addresses", len(s.refused.entries), len(s.refused.entries["x"]))
	}
}

// A poll does not read an unedited list again while nothing of it has ended, and never misses an end.
func TestAListThatStaysIsNotReadAgain(t *testing.T) {
	s := newSite(t)
	s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Minute))
	s.expect(t, "", "Ip 203.0.113.7 per-ip 1m0s | ")
	s.now = s.now.Add(30 * time.Second)
	s.expect(t, "", " | ")
	if s.list.read != 1 {
		t.Errorf("it was read %d times", s.list.read)
	}
	s.now = s.now.Add(30 * time.Second)
	s.expect(t, "", " | Ip 203.0.113.7 per-ip -1s")
}
