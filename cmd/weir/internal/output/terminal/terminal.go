// Package terminal draws views that are refreshed in place, and reads the keys that are pressed in them. A Terminal takes
// over the terminal's screen; a Browser shows rows on it that people sort, filter and open. A Region is drawn below lines
// that scroll by, and takes no keys. The escape sequences are those that every terminal since the VT100 and xterm knows.
//
// Close gives the terminal back as it was, and so does a panic in a goroutine that Go started. After SIGKILL nothing can,
// so a Region changes no mode of the terminal. Texts have to be printable: the package adds no check.
package terminal

import (
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"weir/cmd/weir/internal/output"
)

const (
	enter     = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, long lines are cut
	leave     = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	clearLine = "\x1b[0m\x1b[K"
	clearRest = "\x1b[J"
	hold      = "\x1b[?2026h" // terminals that know it show the frame at once
	release   = "\x1b[?2026l"
)

// The screen for a terminal that does not report its size.
const (
	usualColumns = 80
	usualRows    = 24
)

// Draws reports whether a stream is a terminal on which a view can be drawn.
func Draws(stream any) bool {
	kind := os.Getenv("TERM")
	return kind != "" && kind != "dumb" && output.IsTerminal(stream)
}

// A Terminal is a terminal whose screen shows a view.
type Terminal struct {
	in, out *os.File
	before  *term.State
	keys    chan Key
	restore sync.Once

	drawn string // the last frame
}

// Open takes over the screen. The streams have to be terminals.
func Open(in io.Reader, out io.Writer) (*Terminal, error) {
	t := &Terminal{in: in.(*os.File), out: out.(*os.File), keys: make(chan Key, 64)}
	var err error
	if t.before, err = term.MakeRaw(int(t.in.Fd())); err != nil {
		return nil, err
	}
	if _, err = t.out.WriteString(enter); err != nil {
		t.Close()
		return nil, err
	}
	go t.read() // it ends with the process: nothing interrupts the reading of a terminal
	return t, nil
}

// Close gives the terminal back as it was. It may be called again, from any goroutine.
func (t *Terminal) Close() {
	t.restore.Do(func() {
		_, _ = t.out.WriteString(leave)
		_ = term.Restore(int(t.in.Fd()), t.before)
	})
}

// Go runs a function of a view in a goroutine. When it panics, the terminal is given back first.
func (t *Terminal) Go(running *sync.WaitGroup, f func()) {
	running.Go(func() {
		done := false
		defer func() {
			if !done {
				t.Close()
			}
		}()
		f()
		done = true
	})
}

// Size returns the size of the screen.
func (t *Terminal) Size() (columns, rows int) { return sizeOf(t.out) }

func sizeOf(out *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(out.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// Draw shows lines in place of those before. Lines that the screen has no room for are left out.
func (t *Terminal) Draw(lines []string) error {
	_, rows := t.Size()
	// Lines are cleared before they are written: at the end of a full line, the cursor is on its last character.
	frame := clearLine + strings.Join(lines[:min(len(lines), rows)], "\r\n"+clearLine)
	if len(lines) < rows {
		frame += "\r\n" + clearRest
	}
	if frame == t.drawn {
		return nil
	}
	t.drawn = frame
	_, err := t.out.WriteString(hold + home + frame + release)
	return err
}
