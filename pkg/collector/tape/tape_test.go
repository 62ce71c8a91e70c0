package tape

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/logfile"
)

// opened is a tape of a new file with a text, and the file for its writer.
func opened(t *testing.T, text string, room *Room) (*Tape, *os.File) {
	t.Helper()
	writer, err := os.Create(filepath.Join(t.TempDir(), "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { writer.Close() })
	if _, err := writer.WriteString(text); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(writer.Name())
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := Head(file, logfile.Plain)
	if err != nil {
		t.Fatal(err)
	}
	tape, err := Open(file, logfile.Plain, head, 0, room)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tape.Close)
	return tape, writer
}

// read returns the lines up to the end of the file, and the error there.
func read(t *testing.T, tape *Tape) (lines []string, err error) {
	t.Helper()
	for {
		if tape.NeedsRoom(false) {
			if err := tape.MakeRoom(t.Context()); err != nil {
				return lines, err
			}
		}
		for line, _, ok := tape.Line(); ok; line, _, ok = tape.Line() {
			lines = append(lines, string(line))
		}
		if err := tape.More(); err != nil {
			return lines, err
		}
	}
}

// A long line is not kept until it has ended. Then it needs room, and gives it back with the next question.
func TestALongLineIsReadAgainOnceItHasEnded(t *testing.T) {
	room, long := NewRoom(), strings.Repeat("x", 3<<20)
	tape, writer := opened(t, "first\n"+long, room)
	lines, err := read(t, tape)
	if len(lines) != 1 || lines[0] != "first" || err != io.EOF {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if tape.Memory() > smallBytes || room.Used() > 0 || tape.Position() != int64(len("first\n"+long)) {
		t.Errorf("%d bytes are kept, %d have room", tape.Memory(), room.Used())
	}

	if _, err := writer.WriteString("y\nlast\n"); err != nil {
		t.Fatal(err)
	}
	lines, err = read(t, tape)
	if len(lines) != 2 || lines[0] != long+"y" || lines[1] != "last" || err != io.EOF {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if tape.Memory() > smallBytes || room.Used() > 0 {
		t.Errorf("%d bytes are kept, %d have room", tape.Memory(), room.Used())
	}
}

// As many tapes as there is room for have a long line at a time. One more waits.
func TestTapesShareRoom(t *testing.T) {
	room := NewRoom()
	var tapes []*Tape
	for range LongLines + 1 {
		tape, _ := opened(t, strings.Repeat("x", 1<<20)+"\n", room)
		for !tape.NeedsRoom(false) {
			if err := tape.More(); err != nil {
				t.Fatal(err)
			}
			if _, _, ok := tape.Line(); ok {
				t.Fatal("the line is taken without room")
			}
		}
		tapes = append(tapes, tape)
	}
	for _, tape := range tapes[:LongLines] {
		if err := tape.MakeRoom(t.Context()); err != nil || !tape.HoldsRoom() {
			t.Fatal(err)
		}
	}
	waits := make(chan error)
	go func() { waits <- tapes[LongLines].MakeRoom(t.Context()) }()
	tapes[0].Discard()
	if err := <-waits; err != nil || room.Used() != LongLines {
		t.Errorf("%v, %d have room", err, room.Used())
	}
}

// A file that is written over is noticed, whatever comes at the position.
func TestAFileThatIsWrittenOver(t *testing.T) {
	text := strings.Repeat("a line\n", 1000)
	for name, change := range map[string]func(*os.File) error{
		"shorter":         func(f *os.File) error { return f.Truncate(10) },
		"other beginning": func(f *os.File) error { _, err := f.WriteAt([]byte("b"), 0); return err },
		"before the end":  func(f *os.File) error { _, err := f.WriteAt([]byte("b"), int64(len(text)-10)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			tape, writer := opened(t, text, nil)
			if lines, err := read(t, tape); len(lines) != 1000 || err != io.EOF {
				t.Fatalf("%d lines, %v", len(lines), err)
			}
			before := bytes.Clone(tape.Before(tape.Position()))
			if err := change(writer); err != nil {
				t.Fatal(err)
			}
			if lines, err := read(t, tape); len(lines) > 0 || !errors.Is(err, ErrTruncated) {
				t.Errorf("%d lines, %v", len(lines), err)
			}
			if !bytes.Equal(tape.Before(tape.Position()), before) {
				t.Error("the bytes before the position are others")
			}
		})
	}
}

// A log that was cut off many times under a writer that continues at its own offset begins with hundreds of gigabytes
// that were never written.
func TestWhatWasNeverWrittenTakesNoTime(t *testing.T) {
	writer, err := os.Create(filepath.Join(t.TempDir(), "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	const hole = 300 << 30
	if _, err := writer.WriteAt([]byte("first\n"), hole); err != nil {
		t.Skip("no sparse files here: ", err)
	}

	done := make(chan []string, 1)
	go func() {
		file, err := os.Open(writer.Name())
		if err != nil {
			t.Error(err)
		}
		head, _, err := Head(file, logfile.Plain)
		if err != nil || string(head) != "first\n" {
			t.Errorf("begins with %.9q: %v", head, err)
		}
		tape, err := Open(file, logfile.Plain, head, 0, nil)
		if err != nil {
			t.Error(err)
		}
		lines, _ := read(t, tape)
		if _, err := writer.WriteAt([]byte("second\n"), 2*hole); err != nil {
			t.Error(err)
		}
		more, _ := read(t, tape)
		done <- append(lines, more...)
	}()
	select {
	case lines := <-done:
		if strings.Join(lines, " ") != "first second" {
			t.Errorf("reads %q", lines)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is still read after 20 s")
	}
}
