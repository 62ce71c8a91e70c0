package terminal

import (
	"fmt"
	"strings"

	"weir/cmd/weir/internal/output"
)

const (
	marker   = "> " // before the chosen row
	unmarked = "  "
	reversed = "\x1b[7m"
)

// room returns how many rows, or lines of a page, fit.
func (b *Browser) room() int {
	taken := 2 // the titles and the keys
	if b.page == nil {
		taken += len(b.table.Head) + len(b.note())
	}
	return max(1, b.rows-taken)
}

// note returns the lines of the note, a few at most.
func (b *Browser) note() []string {
	if b.table.Note == "" {
		return nil
	}
	lines := output.Wrapped(b.table.Note, b.columns)
	return lines[:min(len(lines), 3)]
}

// draw returns the lines of the screen.
func (b *Browser) draw() []string {
	b.arrange()
	screen := output.Screen{Columns: b.columns, Colors: b.Colors}
	var lines []string
	keys := "up, down  Enter: open  s: sort  /: filter  p: pause  q: leave"
	if b.page != nil {
		lines, keys = b.drawPage(screen), "up, down  Esc: back  Ctrl-C: leave"
	} else {
		lines = b.drawRows(screen)
	}
	if b.typing {
		keys = "filter: " + b.filter + "_  Enter: keep it  Esc: show all"
	}
	for len(lines) < b.rows-1 {
		lines = append(lines, "")
	}
	if b.rows < 2 {
		return []string{screen.Line(keys, output.Plain)}
	}
	return append(lines[:b.rows-1], screen.Line(keys, output.Plain))
}

func (b *Browser) drawRows(screen output.Screen) (lines []string) {
	for i, head := range b.table.Head {
		if i == 0 {
			head += b.state()
		}
		lines = append(lines, screen.Line(head, output.Plain))
	}
	for _, line := range b.note() {
		lines = append(lines, screen.Line(line, output.Yellow))
	}

	// The chosen row stays on the screen.
	chosen, room := b.index(), b.room()
	b.top = max(0, min(b.top, len(b.shown)-room, max(chosen, 0)))
	if chosen >= b.top+room {
		b.top = chosen - room + 1
	}
	visible := b.shown[b.top:min(len(b.shown), b.top+room)]
	cells := []string{unmarked + strings.Join(b.table.Title, "\t")}
	for i := range visible {
		mark := unmarked
		if b.top+i == chosen {
			mark = marker
		}
		cells = append(cells, mark+strings.Join(visible[i].Cells, "\t"))
	}

	var text strings.Builder
	output.Table(&text, cells)
	for i, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		switch {
		case i == 0:
			line = screen.Line(line, output.Plain)
		case b.top+i-1 == chosen && b.Colors:
			line = reversed + screen.Line(line, visible[i-1].Color)
		default:
			line = screen.Line(line, visible[i-1].Color)
		}
		lines = append(lines, line)
	}
	if len(b.shown) == 0 && len(b.table.Rows) > 0 {
		lines = append(lines, screen.Line(unmarked+"No row has this text.", output.Plain))
	}
	return lines
}

// state describes which rows are shown, and in which order.
func (b *Browser) state() string {
	text := "  (by " + b.Orders[b.order].Name
	if b.filter != "" {
		text += fmt.Sprintf(", %d of %d with %q", len(b.shown), len(b.table.Rows), b.filter)
	}
	if b.paused {
		text += ", paused"
	}
	return text + ")"
}

func (b *Browser) drawPage(screen output.Screen) []string {
	p := b.page
	var all []string
	for _, line := range p.lines {
		all = append(all, output.Wrapped(line, b.columns)...)
	}
	p.length = len(all)
	p.top = max(0, min(p.top, len(all)-b.room()))
	lines := []string{screen.Line(strings.Join(p.row.Cells, "  "), p.row.Color)}
	return append(lines, all[p.top:min(len(all), p.top+b.room())]...)
}
