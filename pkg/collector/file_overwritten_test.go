package collector

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/logfile"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/tape"
)

// family makes the one family of the bench's files; the test decides when it looks and reads.
func (b *bench) family(name string) *family {
	b.t.Helper()
	var err error
	if b.collector, err = Open(b.config); err != nil {
		b.t.Fatal(err)
	}
	source := b.collector.sources[0].(*fileSource)
	f := newFamily(source, b.path(name), beginning{notBefore: pace.NoTime})
	f.member = b.collector.config.pace.Join(name, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.ended = func() { cancel(); f.drain(ctx); f.closeAll() }, make(chan error, 1)
	b.ended <- nil
	b.t.Cleanup(b.stop)
	return f
}

// settle lets a family look and read until there is nothing new.
func (f *family) settle(t testing.TB) {
	t.Helper()
	for range 3 {
		f.scan()
		if err := f.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, log := range f.logs {
			if err := log.stream.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// overwrite replaces the content of a file, as copytruncate and a writer after it do.
func (b *bench) overwrite(name string, lines int) {
	b.t.Helper()
	if err := os.Truncate(b.path(name), 0); err != nil {
		b.t.Fatal(err)
	}
	b.log(name, lines)
}

func (b *bench) copy(from, to string) {
	b.t.Helper()
	data, err := os.ReadFile(b.path(from))
	if err != nil {
		b.t.Fatal(err)
	}
	b.append(to, string(data))
}

// TestAFileThatIsWrittenOverAsItIsRead copies a file and writes over it at each point between identifying and reading
// it. The content of the copy is read as the old log, the new content as a new one.
func TestAFileThatIsWrittenOverAsItIsRead(t *testing.T) {
	for _, test := range []struct {
		name string
		when func(b *bench, f *family, over func())
	}{
		{"after it was identified", func(_ *bench, f *family, over func()) {
			f.scan()
			over()
		}},
		{"after a part was read", func(_ *bench, f *family, over func()) {
			f.scan()
			if err := f.logs[0].tape.More(); err != nil {
				f.source.in.Logger().Error("more", "error", err)
			}
			over()
		}},
		{"after all was read", func(b *bench, f *family, over func()) {
			f.settle(b.t)
			over()
		}},
		{"while a cut is made", func(b *bench, f *family, over func()) {
			f.scan()
			if err := f.logs[0].tape.More(); err != nil {
				b.t.Error(err)
			}
			if err := f.lines(b.t.Context(), f.logs[0]); err != nil {
				b.t.Error(err)
			}
			over()
			if err := f.logs[0].stream.Drain(b.t.Context()); err != nil {
				b.t.Error(err)
			}
		}},
	} {
		for _, sizes := range [][2]int{{2000, 1000}, {2000, 2000}, {3, 2}, {3, 50}, {1, 1}, {50, 2000}} {
			t.Run(test.name, func(t *testing.T) {
				b := newBench(t, "access.log")
				b.log("access.log", sizes[0])
				f := b.family("access.log")
				test.when(b, f, func() {
					b.copy("access.log", "access.log.1")
					b.overwrite("access.log", sizes[1])
				})
				f.settle(t)
				b.await()
			})
		}
	}
}

// TestAFileWhoseLinesEndAlikeIsKnownByItsBeginning replaces lines by others with the same bytes before the position,
// as lines that end with the same user agent have.
func TestAFileWhoseLinesEndAlikeIsKnownByItsBeginning(t *testing.T) {
	b := newBench(t, "access.log")
	agent := strings.Repeat("Mozilla ", 30)
	alike := func(n int) string { return strings.ReplaceAll(strings.Repeat(b.line(), n), "test", agent) }
	b.append("access.log", alike(1))
	lines := func(n int) (text string) {
		for range n {
			text += alike(1)
		}
		return text
	}
	f := b.family("access.log")
	f.settle(t)
	b.copy("access.log", "access.log.1")
	first, err := os.ReadFile(b.path("access.log"))
	if err != nil {
		t.Fatal(err)
	}
	text := lines(8)
	if i := len(first); !bytes.Equal(first[i-tape.TailBytes:], []byte(text)[i-tape.TailBytes:i]) {
		t.Fatal("the lines are not alike")
	}
	if err := os.WriteFile(b.path("access.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f.settle(t)
	b.await()
}

// TestAFileThatGrowsAsItIsPutAsideIsReadOn writes to a file after its last read and before it is closed.
func TestAFileThatGrowsAsItIsPutAsideIsReadOn(t *testing.T) {
	t.Run("rotated, and idle", func(t *testing.T) {
		b := newBench(t, "access.log")
		b.log("access.log.1", 10)
		f := b.family("access.log")
		f.settle(t)
		b.log("access.log.1", 10)
		f.logs[0].grown = time.Now().Add(-time.Hour)
		f.tidy()
		f.settle(t)
		b.await()
		f.logs[0].grown = time.Now().Add(-time.Hour)
		if f.tidy(); len(f.logs) > 0 {
			t.Error("a file that nothing is added to stays open")
		}
	})
	t.Run("compressed, and not whole yet", func(t *testing.T) {
		b := newBench(t, "access.log")
		b.log("access.log.1", 2000)
		b.compress("access.log.1", ".gz")
		whole, err := os.ReadFile(b.path("access.log.1.gz"))
		if err != nil {
			t.Fatal(err)
		}
		b.remove("access.log.1.gz")
		b.append("access.log.1.gz", string(whole[:len(whole)/2]))
		f := b.family("access.log")
		f.scan()
		if err := f.readLog(t.Context(), f.logs[0]); err != errUnfinished {
			t.Fatal(err)
		}
		b.append("access.log.1.gz", string(whole[len(whole)/2:len(whole)/2+100]))
		f.drop(t.Context(), f.logs[0])
		f.settle(t)
		if !f.undecided {
			t.Error("a file that is not whole yet is not looked at again")
		}
		b.append("access.log.1.gz", string(whole[len(whole)/2+100:]))
		f.settle(t)
		b.await()
	})
}

// TestZerosBeforeALineAreNoPartOfIt lets a writer continue at its own offset in a file that was cut off.
func TestZerosBeforeALineAreNoPartOfIt(t *testing.T) {
	for _, hole := range []int{1, 5000, 3 * logfile.MaxLine} {
		b := newBench(t, "access.log")
		b.append("access.log", strings.Repeat("\x00", hole))
		b.log("access.log", 3)
		f := b.family("access.log")
		f.settle(t)
		b.await()
	}
}

// TestAFileThatLostItsEnd simulates a loss of power that takes bytes from a log which its disk had not stored,
// although they were read, counted and noted. They are not counted again, and later ones are.
func TestAFileThatLostItsEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(b *bench, size int64) // the file ends there, in the midst of a line
		more int                        // lines before it is looked at again
	}{
		{"shorter", func(b *bench, size int64) { b.truncate("access.log", size) }, 10},
		{"shorter, and longer by now", func(b *bench, size int64) { b.truncate("access.log", size) }, 300},
		{"zeros", func(b *bench, size int64) {
			b.truncate("access.log", size)
			b.truncate("access.log", size+8000)
		}, 10},
		{"rotated away since", func(b *bench, size int64) {
			b.truncate("access.log", size)
			b.rename("access.log", "access.log.1")
			long := time.Now().Add(-time.Hour)
			if err := os.Chtimes(b.path("access.log.1"), long, long); err != nil {
				b.t.Fatal(err)
			}
		}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "access.log")
			heard := b.listen()
			b.log("access.log", 200)
			b.family("access.log").settle(t)
			b.await()
			b.stop()

			info, err := os.Stat(b.path("access.log"))
			if err != nil {
				t.Fatal(err)
			}
			test.lose(b, info.Size()-5010)
			b.append("access.log", "\n")
			b.log("access.log", test.more)
			b.family("access.log").settle(t)
			b.await()
			if strings.Count(heard.String(), "lost its end") != 1 {
				t.Error("it is not said once")
			}
			b.stop()
			b.log("access.log", 10)
			b.family("access.log").settle(t)
			b.await()
			if strings.Count(heard.String(), "lost its end") != 1 {
				t.Error("it is said again")
			}
		})
	}
}

func (b *bench) truncate(name string, size int64) {
	b.t.Helper()
	if err := os.Truncate(b.path(name), size); err != nil {
		b.t.Fatal(err)
	}
}

// TestAFileThatMayNotBeReadIsTriedAgain uses a file that no user can open: a link to itself.
func TestAFileThatMayNotBeReadIsTriedAgain(t *testing.T) {
	b := newBench(t, "access.log")
	if err := os.Symlink("access.log", b.path("access.log")); err != nil {
		t.Fatal(err)
	}
	f := b.family("access.log")
	f.settle(t)
	f.source.reportBarred()
	if status := f.source.Status(); status.CaughtUp || !strings.Contains(status.Error, b.path("access.log")) || !f.undecided {
		t.Errorf("the status is %+v", status)
	}
	b.remove("access.log")
	b.log("access.log", 10)
	f.settle(t)
	b.await()
	f.source.reportBarred()
	if status := f.source.Status(); !status.CaughtUp || status.Error != "" {
		t.Errorf("the status is still %+v", status)
	}
}
