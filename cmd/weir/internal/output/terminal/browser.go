package terminal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/weir/internal/output"
)

// A Row is a row of a Browser: its cells, and what it is sorted and opened by.
type Row struct {
	ID     string // the same row has the same ID in later tables
	Cells  []string
	Weight []float64 // of the cells that are numbers; others may be 0
	Color  output.Color
	Value  any // for Open
}

// A Table is what a Browser shows at a time.
type Table struct {
	Head  []string // lines above the rows; the state of the view is added to the first
	Title []string // of the columns
	Rows  []Row
	Note  string // an error; empty when all is well
}

// An Order sorts rows by a column: numbers from the highest, texts from A. The column -1 keeps the order of the table.
type Order struct {
	Name   string
	Column int
	Number bool
}

// A Browser shows the rows of tables that come in.
type Browser struct {
	Orders []Order                                  // s goes on to the next
	Open   func(ctx context.Context, r *Row) string // what is known of a row; it may take a while
	Colors bool

	table         Table
	order         int
	filter        string
	typing        bool // keys are characters of the filter
	paused        bool
	chosen        string // the ID of the chosen row; empty before one is chosen
	shown         []Row  // the filtered rows in their order
	top           int    // the index of the first row on the screen
	page          *page  // nil while rows are shown
	columns, rows int
}

// A page is what is known of a row that is open.
type page struct {
	row   Row
	lines []string
	top   int

	length int // of the lines as they were drawn
}

const (
	lookEvery  = 200 * time.Millisecond // at the size of the screen
	openEvery  = 2 * time.Second        // an open row is asked again
	longFilter = 100
)

// Run shows the tables that feed sends, until q is pressed or the context is done. feed has to end with its context.
func (b *Browser) Run(ctx context.Context, t *Terminal, feed func(ctx context.Context, tables chan<- Table)) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	tables, asked, answers := make(chan Table), make(chan Row, 1), make(chan page, 1)
	t.Go(&running, func() { feed(ctx, tables) })
	t.Go(&running, func() { b.answer(ctx, asked, answers) })
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var again <-chan time.Time
	for {
		before := b.page
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case table := <-tables:
			if !b.paused {
				b.table = table
			}
		case known := <-answers:
			if b.page != nil && b.page.row.ID == known.row.ID {
				b.page.lines = known.lines
				again = time.After(openEvery)
			}
		case <-again:
			b.ask(asked)
		case key := <-t.keys:
			if b.press(key) {
				return nil
			}
		}

		if b.page != nil && before == nil {
			b.ask(asked)
		}
		b.columns, b.rows = t.Size()
		if err := t.Draw(b.draw()); err != nil {
			return err
		}
	}
}

// ask asks about the open row. A question before that waits is replaced.
func (b *Browser) ask(asked chan Row) {
	if b.page == nil {
		return
	}
	select {
	case <-asked:
	default:
	}
	asked <- b.page.row
}

func (b *Browser) answer(ctx context.Context, asked <-chan Row, answers chan<- page) {
	for {
		select {
		case <-ctx.Done():
			return
		case row := <-asked:
			text := b.Open(ctx, &row)
			select {
			case <-ctx.Done():
				return
			case answers <- page{row: row, lines: strings.Split(strings.TrimRight(text, "\n"), "\n")}:
			}
		}
	}
}

// press does what a key asks for, and reports whether the view ends.
func (b *Browser) press(key Key) (ends bool) {
	switch {
	case key == Interrupt:
		return true
	case b.typing:
		b.edit(key)
	case b.page != nil:
		b.pressPage(key)
	default:
		return b.pressRows(key)
	}
	return false
}

func (b *Browser) edit(key Key) {
	switch {
	case key == Enter:
		b.typing = false
	case key == Escape:
		b.typing, b.filter = false, ""
	case key == Backspace:
		b.filter = shorten(b.filter)
	case key.isText() && len(b.filter) < longFilter:
		b.filter += string(key)
	}
	b.top = 0
}

func (b *Browser) pressRows(key Key) (ends bool) {
	switch key {
	case "q":
		return true
	case "s":
		b.order = (b.order + 1) % len(b.Orders)
		b.top, b.chosen = 0, ""
	case "/":
		b.typing = true
	case Escape:
		b.filter = ""
	case " ", "p":
		b.paused = !b.paused
	case Enter, Right:
		if i := b.index(); i >= 0 {
			b.page = &page{row: b.shown[i], lines: []string{"…"}}
		}
	default:
		b.choose(moved(key, b.index(), len(b.shown), b.room()))
	}
	return false
}

func (b *Browser) pressPage(key Key) {
	switch key {
	case "q", Escape, Left, Backspace:
		b.page = nil
	default:
		b.page.top = moved(key, b.page.top, max(1, b.page.length-b.room()+1), b.room())
	}
}

// moved returns the place to which a key moves in a list.
func moved(key Key, at, length, page int) int {
	switch key {
	case Up, "k":
		at--
	case Down, "j":
		at++
	case PageUp:
		at -= page
	case PageDown:
		at += page
	case Home, "g":
		at = 0
	case End, "G":
		at = length - 1
	}
	return max(0, min(at, length-1))
}

// index returns the place of the chosen row, of the first one if it is gone, or -1 without rows.
func (b *Browser) index() int {
	i := slices.IndexFunc(b.shown, func(r Row) bool { return r.ID == b.chosen })
	if i < 0 && len(b.shown) > 0 {
		return 0
	}
	return i
}

func (b *Browser) choose(i int) {
	if i < len(b.shown) {
		b.chosen = b.shown[i].ID
	}
}

// arrange filters and sorts the rows.
func (b *Browser) arrange() {
	b.shown = b.shown[:0]
	wanted := strings.ToLower(b.filter)
	for _, row := range b.table.Rows {
		if wanted == "" || strings.Contains(strings.ToLower(strings.Join(row.Cells, " ")), wanted) {
			b.shown = append(b.shown, row)
		}
	}
	order := b.Orders[b.order]
	if order.Column < 0 {
		return
	}
	slices.SortStableFunc(b.shown, func(x, y Row) int {
		if order.Number {
			return cmp.Compare(y.Weight[order.Column], x.Weight[order.Column])
		}
		return strings.Compare(x.Cells[order.Column], y.Cells[order.Column])
	})
}
