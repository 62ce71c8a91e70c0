package crash

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A site writes an access log and rotates it, and counts its lines.
type site struct {
	t       testing.TB
	folder  string
	random  *rand.Rand
	clients int // the first of them come more often than the last
	most    int // lines that are written together
	clock   func() time.Time
	lines   int
	want    map[string]int64
	times   map[string][]int64 // of each address, in Unix ms of full seconds as written
	file    *os.File
	stop    chan struct{}
	ended   sync.WaitGroup
}

func newSite(t testing.TB, seed uint64) *site {
	s := &site{t: t, folder: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), clients: 50, most: 200, clock: time.Now, want: map[string]int64{}, times: map[string][]int64{}, stop: make(chan struct{})}
	s.open()
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }

func (s *site) check(err error) {
	if err != nil {
		s.t.Error(err)
		panic(err)
	}
}

func (s *site) open() {
	var err error
	s.file, err = os.OpenFile(s.path("access.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	s.check(err)
}

// write appends some lines. It may end in the middle of a line, which the next one continues.
func (s *site) write(lines int) {
	text := ""
	for range lines {
		s.lines++
		ip, path, now := s.someone(), fmt.Sprintf("/%d", s.random.IntN(20)), s.clock().UTC()
		s.want["per-ip "+ip]++
		s.want["per-path "+path]++
		s.times[ip] = append(s.times[ip], now.Unix()*1000)
		text += fmt.Sprintf("%s - - [%s] \"GET %s?n=%d HTTP/1.1\" 200 2 \"-\" \"test\"\n", ip, now.Format("02/Jan/2006:15:04:05 -0700"), path, s.lines)
	}
	half := s.random.IntN(len(text))
	for _, part := range []string{text[:half], text[half:]} {
		_, err := s.file.WriteString(part)
		s.check(err)
	}
}

func (s *site) someone() string {
	share := s.random.Float64()
	n := int(share * share * float64(s.clients))
	return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250)
}

// shift renames access.log.1 to access.log.2 and so on, and compresses the new access.log.2.
func (s *site) shift() {
	for n := 60; n > 0; n-- {
		for _, extension := range []string{"", ".gz"} {
			from := s.path(fmt.Sprintf("access.log.%d%s", n, extension))
			if _, err := os.Stat(from); err == nil {
				s.check(os.Rename(from, s.path(fmt.Sprintf("access.log.%d%s", n+1, extension))))
			}
		}
	}
	if _, err := os.Stat(s.path("access.log.2")); err == nil {
		s.compress("access.log.2")
	}
}

func (s *site) compress(name string) {
	in, err := os.Open(s.path(name))
	s.check(err)
	defer in.Close()
	out, err := os.Create(s.path(name + ".gz"))
	s.check(err)
	defer out.Close()
	w := gzip.NewWriter(out)
	_, err = io.Copy(w, in)
	s.check(err)
	s.check(w.Close())
	s.check(os.Remove(s.path(name)))
}

// rename rotates as logrotate does by default: the writer continues with the old file for a moment.
func (s *site) rename() {
	s.shift()
	s.check(os.Rename(s.path("access.log"), s.path("access.log.1")))
	s.write(1 + s.random.IntN(s.most))
	s.file.Close()
	s.open()
}

// copyTruncate rotates as logrotate's copytruncate does, while the writer is idle.
func (s *site) copyTruncate() {
	s.shift()
	in, err := os.Open(s.path("access.log"))
	s.check(err)
	defer in.Close()
	out, err := os.Create(s.path("access.log.1"))
	s.check(err)
	defer out.Close()
	for err == nil {
		_, err = io.CopyN(out, in, 20000)
	}
	s.check(s.file.Truncate(0))
}

// run writes and rotates until close, or until a number of rotations.
func (s *site) run(rotations int) {
	s.ended.Go(func() {
		next := time.Now().Add(s.between())
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(time.Duration(s.random.IntN(10)) * time.Millisecond):
			}
			s.write(1 + s.random.IntN(s.most))
			if rotations > 0 && time.Now().After(next) {
				rotations--
				next = time.Now().Add(s.between())
				[]func(){s.rename, s.copyTruncate}[s.random.IntN(2)]()
			}
		}
	})
}

func (s *site) between() time.Duration {
	return time.Duration(300+s.random.IntN(1500)) * time.Millisecond
}

func (s *site) close() {
	close(s.stop)
	s.ended.Wait()
	s.file.Close()
}
