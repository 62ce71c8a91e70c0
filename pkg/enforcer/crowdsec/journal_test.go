package crowdsec

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// After a kill a bouncer gets the end of what it got just before, also when the entry was lifted before its next poll.
func TestKilledBeforeTheTableWasSaved(t *testing.T) {
	s := newSite(t)
	end := s.after(time.Hour)
	s.list.block("per-ip", "ip", "203.0.113.1", end)
	s.poll(t, "")
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	s.list.block("per-ip", "ip", "203.0.113.2", end)
	s.list.block("scans", "ip", "203.0.113.2", s.after(50*time.Minute))
	s.list.block("per-net", "ip", "198.51.100.0/24", end)
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 203.0.113.2 per-ip 59m50s, Range 198.51.100.0/24 per-net 59m50s | ")

	s.open()
	s.list.lift("per-ip", "203.0.113.1")
	s.list.lift("per-ip", "203.0.113.2")
	s.list.lift("per-net", "198.51.100.0/24")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 203.0.113.2 scans 49m40s | Ip 203.0.113.1 per-ip -1s, Range 198.51.100.0/24 per-net -1s")

	s.open()
	s.list.lift("scans", "203.0.113.2")
	s.now = s.now.Add(10 * time.Second)
	if got := s.poll(t, ""); len(got.Deleted) == 0 || *got.Deleted[len(got.Deleted)-1].Value != "203.0.113.2" {
		t.Error(got.String())
	}
}

// A bouncer that drops masks has an address of a large prefix because a check refused it. After a kill no check has, and
// it gets the address's end.
func TestKilledWithAnAddressOfAPrefix(t *testing.T) {
	s := newSite(t, "edge")
	entry := s.list.block("per-net", "ip", "2001:db8:1::/64", s.after(time.Hour))
	s.poll(t, "")
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	s.Saw(entry, mustAddr("2001:db8:1::7"))
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", "Ip 2001:db8:1::7 per-net 59m50s | ")

	s.open("edge")
	s.list.lift("per-net", "2001:db8:1::/64")
	s.now = s.now.Add(10 * time.Second)
	s.expect(t, "", " | Ip 2001:db8:1::7 per-net -1s")
}

// Bouncers get their answers while the disk hangs, and what they got is on it once it does not. A pipe that is not read
// hangs as such a disk does.
func TestADiskThatHangs(t *testing.T) {
	s := newSite(t)
	end := s.after(time.Hour)
	s.list.block("per-ip", "ip", "203.0.113.1", end)
	s.poll(t, "")
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(s.folder, "bouncers.changes")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s.list.block("per-ip", "ip", "203.0.113.2", end)
	s.now = s.now.Add(10 * time.Second)
	answers := make(chan *httptest.ResponseRecorder, 2)
	go func() {
		answers <- s.ask("GET", "/v1/decisions/stream", "")
		answers <- s.ask("GET", "/v1/decisions/stream", "")
	}()
	for _, want := range []string{"Ip 203.0.113.2 per-ip 59m50s | ", " | "} {
		select {
		case w := <-answers:
			if got := read(t, w); got.String() != want {
				t.Errorf("got %s, want %s", got.String(), want)
			}
		case <-time.After(time.Minute):
			t.Fatal("bouncers wait for the disk")
		}
	}
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(reader); err != nil || !bytes.Contains(text, []byte("203.0.113.2")) {
		t.Errorf("%s, %v", text, err)
	}
	reader.Close()
	if err := s.Save(); err != nil {
		t.Error(err)
	}
}

// A journal that is cut off or changed at any byte is read up to the part with the damage, and what comes later is kept
// all the same.
func TestDamagedJournal(t *testing.T) {
	s := newSite(t)
	for i := range 3 {
		s.list.block("per-ip", "ip", fmt.Sprintf("203.0.113.%d", i), s.after(time.Hour))
		s.now = s.now.Add(time.Second)
		s.poll(t, "")
	}
	path := filepath.Join(s.folder, "bouncers")
	good, err := os.ReadFile(path + ".changes")
	if err != nil {
		t.Fatal(err)
	}
	third := bytes.LastIndex(good, []byte(`{"header"`))
	for cut := range len(good) {
		changed := append([]byte(nil), good...)
		changed[cut] ^= 1
		for _, bad := range [][]byte{good[:cut], changed} {
			if err := os.WriteFile(path+".changes", bad, 0o600); err != nil {
				t.Fatal(err)
			}
			table := newTable(unchanged, always)
			if err := table.load(path); err != nil || len(table.values) > 2 || cut >= third && len(table.values) != 2 {
				t.Fatalf("%d: %v, %d values of\n%s", cut, err, len(table.values), bad)
			}
		}
	}

	// The last one is damaged in its last byte. The next poll saves the table, and removes it.
	s.open()
	s.poll(t, "")
	if _, err := os.Stat(path + ".changes"); err == nil {
		t.Error("the damaged journal is still there")
	}
	s.open()
	s.list.lift("per-ip", "203.0.113.2")
	s.now = s.now.Add(time.Second)
	if got := s.poll(t, ""); len(got.Deleted) != 1 || *got.Deleted[0].Value != "203.0.113.2" {
		t.Error(got.String())
	}
}

// While the disk fails bouncers get their answers, and as soon as it is back everything is kept.
func TestJournalOnAFailingDisk(t *testing.T) {
	s := newSite(t)
	path := filepath.Join(s.folder, "bouncers.changes")
	if err := os.MkdirAll(path, 0o700); err != nil { // it cannot be written
		t.Fatal(err)
	}
	s.list.block("per-ip", "ip", "203.0.113.1", s.after(time.Hour))
	s.expect(t, "", "Ip 203.0.113.1 per-ip 1h0m0s | ")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.list.block("per-ip", "ip", "203.0.113.2", s.after(time.Hour))
	s.now = s.now.Add(time.Second)
	s.expect(t, "", "Ip 203.0.113.2 per-ip 59m59s | ")
	s.open()
	s.list.lift("per-ip", "203.0.113.1")
	s.list.lift("per-ip", "203.0.113.2")
	s.now = s.now.Add(time.Second)
	got := s.poll(t, "")
	if len(got.Deleted) != 2 {
		t.Error(got.String())
	}
}
