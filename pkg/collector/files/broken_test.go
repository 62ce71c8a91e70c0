package files

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

// packed returns a text as the real program of an extension packs it.
func packed(t *testing.T, extension, text string) []byte {
	t.Helper()
	program := map[string]string{".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd"}[extension]
	pack := exec.Command(real.Program(t, program, program), "-c")
	pack.Stdin = strings.NewReader(text)
	out, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A packed log that is cut off or damaged, wherever it is cut, is in the status and once in the log, with its name and
// the remedy. The others are read, the source is caught up, and a complete copy is read on from there.
func TestABrokenPackedLogIsReported(t *testing.T) {
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	for _, test := range []struct {
		name, extension, what string
		lines                 int
		harm                  func([]byte) []byte
	}{
		{"empty", ".gz", "is cut off", 1000, cut(0)},
		{"in its mark", ".zst", "is cut off", 1000, cut(3)},
		{"in its header", ".gz", "is cut off", 1000, cut(9)},
		{"in its header", ".bz2", "is cut off", 1000, cut(9)},
		{"in its header", ".zst", "is cut off", 1000, cut(8)},
		{"in its first block", ".bz2", "is cut off", 1000, cut(1500)},
		{"in its first block", ".zst", "is cut off", 1000, cut(1500)},
		{"behind its first block", ".bz2", "is cut off", 20_000, func(b []byte) []byte { return b[:len(b)-100] }},
		{"in its midst", ".zst", "is cut off", 20_000, func(b []byte) []byte { return b[:len(b)/2] }},
		{"in its midst", ".gz", "is cut off", 20_000, func(b []byte) []byte { return b[:len(b)/2] }},
		{"in its checksum", ".gz", "is cut off", 1000, func(b []byte) []byte { return b[:len(b)-3] }},
		{"a wrong checksum", ".gz", "is damaged", 1000, func(b []byte) []byte { b[len(b)-8]++; return b }},
		{"a wrong checksum", ".bz2", "is damaged", 1000, func(b []byte) []byte { b[len(b)-3]++; return b }},
		{"a wrong checksum", ".zst", "is damaged", 1000, func(b []byte) []byte { b[len(b)-2]++; return b }},
		{"damaged at once", ".gz", "nothing of it can be read", 1000, func(b []byte) []byte { copy(b[20:], "this was not written"); return b }},
		{"damaged in its midst", ".bz2", "is damaged", 20_000, func(b []byte) []byte { copy(b[len(b)/2:], "this was not written"); return b }},
		{"more behind it", ".gz", "other bytes follow the end", 1000, func(b []byte) []byte { return append(b, "this was not packed"...) }},
	} {
		t.Run(test.extension[1:]+" "+test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "access.log")
			heard := b.listen()
			good, name := packed(t, test.extension, b.ManyLines(test.lines)), "access.log.1"+test.extension
			b.Put(name, test.harm(bytes.Clone(good)), time.Hour)
			b.Log("access.log", 100)
			b.start()
			b.awaitRead("access.log")
			wait.Until(t, "the status to name the file", func() bool {
				status := b.status()
				return strings.Contains(status.Error, b.Path(name)) && strings.Contains(status.Error, test.what) && strings.Contains(status.Error, "move it away")
			})
			wait.Until(t, "the source to have caught up", func() bool { return b.status().CaughtUp })
			if n := strings.Count(heard.String(), "level=ERROR"); n != 1 || !heard.Has(test.what) || !heard.Has(filepath.Base(name)) {
				t.Errorf("%d errors are logged", n)
			}
			b.Put(name, good, 0)
			if test.name != "damaged in its midst" { // there, lines of the damaged block were counted
				b.await()
			}
			wait.Until(t, "the status to be in order", func() bool { return b.status().Error == "" })
		})
	}
}

// A packed log that is being written is not reported as cut off. One that stays unfinished is, until it continues. Its
// readable part is read at once.
func TestAPackedLogThatGrows(t *testing.T) {
	for _, extension := range []string{".gz", ".bz2", ".zst"} {
		t.Run(extension[1:], func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "access.log")
			heard := b.listen()
			data, name := packed(t, extension, b.ManyLines(20_000)), "access.log.1"+extension
			f := b.family("access.log")
			broken := func() string {
				f.settle(t)
				if fault := b.source.barred.lasting(); fault != nil {
					return fault.Error()
				}
				return ""
			}
			const parts = 8
			for i := range parts {
				b.Append(name, string(data[len(data)*i/parts:len(data)*(i+1)/parts]))
				if said := broken(); said != "" {
					t.Fatalf("while it is written: %s", said)
				}
				if i != parts/2 {
					continue
				}
				left := time.Now().Add(-2 * closeAfter)
				if err := os.Chtimes(b.Path(name), left, left); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if said := broken(); !strings.Contains(said, b.Path(name)+" is cut off") {
						t.Fatalf("left so: %q", said)
					}
				}
				b.Rename(name, "access.log.2"+extension) // as the next night's rotation does
				name = "access.log.2" + extension
				if said := broken(); !strings.Contains(said, b.Path(name)+" is cut off") {
					t.Fatalf("by its next name: %q", said)
				}
			}
			b.sink.Await(t, b.Want)
			if n := strings.Count(heard.String(), "level=ERROR"); n != 1 {
				t.Errorf("it is logged %d times", n)
			}
		})
	}
}

// A packed file whose log was read from the file before it is reported all the same: its content is incomplete.
func TestAPackedCopyThatIsCutOff(t *testing.T) {
	b := newBench(t, "access.log")
	heard := b.listen()
	b.Log("access.log", 5000)
	f := b.family("access.log")
	f.settle(t)
	data := packed(t, ".gz", b.Text("access.log"))
	b.Put("access.log.1.gz", data[:len(data)/2], time.Hour)
	b.Remove("access.log")
	f.settle(t)
	f.closeAll()
	f.settle(t)
	if fault := b.source.barred.lasting(); fault == nil || !strings.Contains(fault.Error(), "access.log.1.gz is cut off") {
		t.Errorf("%v", fault)
	}
	b.Put("access.log.1.gz", data, time.Hour)
	f.settle(t)
	if fault := b.source.barred.lasting(); fault != nil {
		t.Errorf("when it is complete: %v", fault)
	}
	b.sink.Await(t, b.Want)
	if n := strings.Count(heard.String(), "level=ERROR"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}
