package files

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/test/wait"
)

// A log whose end has megabytes without a newline is followed like any other: a preallocated tail, a blob, a long line
// that is written in pieces. Lines before and after it are counted once, also by a collector that is started again.
func TestALogWithALongEnd(t *testing.T) {
	for name, end := range map[string]string{
		"zeros":          strings.Repeat("\x00", 5<<20),
		"a blob":         strings.Repeat("blob\x00", 4<<20),
		"a blob and the": strings.Repeat("x", 18<<20) + strings.Repeat("\x00", 3<<20),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			b.Log("access.log", 100)
			b.Append("access.log", end)
			b.family("access.log").settle(t)
			b.sink.Await(t, b.Want)
			b.stop()
			f := b.family("access.log")
			f.settle(t)
			if name != "zeros" {
				b.Append("access.log", "\n")
			}
			b.Log("access.log", 100)
			f.settle(t)
			b.sink.Await(t, b.Want)
			b.stop()
			b.Log("access.log", 10)
			b.family("access.log").settle(t)
			b.sink.Await(t, b.Want)
		})
	}
}

// A long line may come piece by piece, and each piece is noted before the next.
func TestALongLineInPieces(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 100)
	f := b.family("access.log")
	for i := range 60 {
		b.Append("access.log", strings.Repeat("x", 300<<10))
		f.settle(t)
		if i == 40 {
			b.stop()
			f = b.family("access.log")
		}
	}
	b.Append("access.log", "\n")
	b.Log("access.log", 100)
	f.settle(t)
	b.sink.Await(t, b.Want)
	if got := b.unread("long"); got != 1 {
		t.Errorf("%v long lines, want 1", got)
	}
}

// Packed logs have such ends too.
func TestAPackedLogWithALongEnd(t *testing.T) {
	for name, end := range map[string][]byte{
		"zeros":  make([]byte, 5<<20),
		"a blob": bytes.Repeat([]byte("x"), 5<<20),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			b.Log("access.log.1", 100)
			b.Append("access.log.1", string(end))
			b.Compress("access.log.1", ".gz")
			b.Log("access.log", 100)
			b.start()
			b.sink.Await(t, b.Want)
			b.stop()
			b.start()
			b.Log("access.log", 10)
			b.sink.Await(t, b.Want)
		})
	}
}

// A writer may fill what it has preallocated.
func TestAPreallocatedLog(t *testing.T) {
	b := newBench(t, "access.log")
	b.Log("access.log", 100)
	position := int64(len(b.Text("access.log")))
	b.Append("access.log", strings.Repeat("\x00", 5<<20))
	reader := b.family("access.log")
	reader.settle(t)
	b.sink.Await(t, b.Want)
	write := func(text string) {
		b.WriteAt("access.log", position, text)
		position += int64(len(text))
	}
	for i := range 100 {
		line := b.Line()
		write(line[:20]) // a line may arrive in pieces
		if i%10 == 0 {
			reader.settle(t)
		}
		write(line[20:])
	}
	reader.settle(t)
	b.sink.Await(t, b.Want)
	b.stop()
	write(b.Line())
	b.family("access.log").settle(t)
	b.sink.Await(t, b.Want)
}

// Reading that begins at the end begins after the last line, not within an unfinished one.
func TestTheLatestOfALogWithALongEnd(t *testing.T) {
	b := newBench(t, "access.log")
	b.config.Start = pipeline.Start{Latest: true}
	b.Log("access.log", 100)
	clear(b.Want)
	laid := int64(len(b.Text("access.log")))
	b.Append("access.log", strings.Repeat("\x00", 1<<20))
	b.start()
	b.awaitReading("access.log")
	b.WriteAt("access.log", laid, b.Line())
	b.sink.Await(t, b.Want)
	if got := b.unread("format"); got != 0 {
		t.Errorf("%v lines could not be read", got)
	}
}

// Unfinished lines are not kept in memory, in however many files they are. They count when they end, also after zeros,
// and with a collector that was started again meanwhile.
func TestManyLongLines(t *testing.T) {
	b := newBench(t, "*.log")
	const files = 6
	var families [files]*family
	var ends [files]string
	open := func() {
		families[0] = b.family("0.log")
		for i := 1; i < files; i++ {
			f := b.source.newFamily(b.Path(fmt.Sprintf("%d.log", i)), beginning{notBefore: pace.NoTime})
			f.member = families[0].member
			families[i] = f
			t.Cleanup(f.closeAll)
		}
	}
	settle := func() {
		for _, f := range families {
			f.settle(t)
			if n := f.logs[0].tape.Memory(); n > 256<<10 {
				t.Errorf("%d bytes are kept of %s", n, f.path)
			}
		}
	}
	open()
	for _, length := range []int{128 << 10, 3 << 20, 15 << 20} {
		for i := range families {
			name := fmt.Sprintf("%d.log", i)
			var begins string
			begins, ends[i] = b.LongLine(length)
			b.Log(name, 1)
			if i%2 == 0 {
				b.Append(name, strings.Repeat("\x00", 300<<10))
			}
			b.Append(name, begins[:length/2])
			if i < 2 {
				families[i].settle(t)
			}
			b.Append(name, begins[length/2:])
		}
		settle()
		for i := range families {
			b.Append(fmt.Sprintf("%d.log", i), ends[i]+b.Line())
		}
		settle()
		b.sink.Await(t, b.Want)
		if length != 3<<20 {
			continue
		}
		for _, f := range families[1:] {
			f.closeAll()
		}
		b.stop()
		open()
	}
	for _, why := range []string{"long", "format"} {
		if got := b.unread(why); got != 0 {
			t.Errorf("%v are %s", got, why)
		}
	}
	if n := b.known.room.Used(); n > 0 {
		t.Errorf("%d have room that they do not need", n)
	}
}

// More files than may have a long line in memory at a time are read all the same: the others wait for room.
func TestLongLinesAtTheSameTime(t *testing.T) {
	b := newBench(t, "*.log*")
	for i := range 3 * tape.LongLines {
		name := fmt.Sprintf("%d.log", i)
		for range 3 {
			begins, ends := b.LongLine(5 << 20)
			b.Append(name, begins+ends)
		}
		if i%2 == 0 {
			b.Compress(name, ".gz")
		}
	}
	b.start()
	b.await()
	wait.Until(t, "the room to be free", func() bool { return b.known.room.Used() == 0 })
}

// A file may be written over while a long line of it has not ended.
func TestALongLineThatIsWrittenOver(t *testing.T) {
	for name, write := range map[string]func(b *bench){
		"by a shorter log":        func(b *bench) { b.Overwrite("access.log", 100) },
		"in its midst":            func(b *bench) { b.WriteAt("access.log", 1<<20, "\n"+b.Line()) },
		"by a hole and a newline": func(b *bench) { b.Truncate("access.log", 100<<20); b.Append("access.log", "\n"+b.Line()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "access.log")
			b.Log("access.log", 20)
			b.Append("access.log", strings.Repeat("x", 2<<20))
			f := b.family("access.log")
			f.settle(t)
			write(b)
			b.Append("access.log", "\n"+b.Line())
			f.settle(t)
			f.settle(t)
			b.Append("access.log", b.Line())
			f.settle(t)
			b.sink.Await(t, b.Want)
			if n := f.logs[len(f.logs)-1].tape.Memory(); n > 256<<10 {
				t.Errorf("%d bytes are kept", n)
			}
		})
	}
}
