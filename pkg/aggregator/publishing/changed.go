package publishing

import (
	"log/slog"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

// Changed are the names of windows whose verdicts are to be published with the next checkpoint: once for a key and
// checkpoint.
type changed struct {
	list   *List
	logger *slog.Logger

	// replayed are those of windows that have hits already which are read again. The former owner may not have published
	// what these led to.
	replayed map[string]struct{}
	// corrected are those whose entries late hits have moved; true where it was not published before.
	corrected map[string]bool
}

// forget forgets all.
func (c *changed) forget() { c.replayed, c.corrected = map[string]struct{}{}, map[string]bool{} }

// skipped notes that hits were skipped which a window has already.
func (c *changed) skipped(w *windows.Window) {
	if w.Verdict == nil || !w.Verdict.Listed {
		return
	}
	c.replayed[w.Name] = struct{}{}
}

// moved notes that a window's verdict is another than the list has.
func (c *changed) moved(w *windows.Window) {
	c.corrected[w.Name] = c.corrected[w.Name] || !w.Verdict.Listed
	w.Verdict.Listed, w.Index = true, windows.IndexSet
}

// replaced has a window's verdict, of a block that is over, take the place of an entry that lasts: a late hit has shown
// that the entry's block was a shorter one. The entry's id stays.
func (c *changed) replaced(w *windows.Window, listed *windows.Verdict, now int64) {
	if listed == nil || !listed.Listed {
		return
	}
	if _, again := c.replayed[w.Name]; !again && !listed.Live(now) {
		return
	}
	w.Verdict.Listed = true
	w.Verdict.First, w.Verdict.FirstLevel = listed.AtFirst()
	c.moved(w)
}

// correct publishes that an entry has changed, also where its block is over by that: on the list it may last. The event
// is that of a beginning where no event of the block may have been published yet.
func (c *changed) correct(to []Publication, w *windows.Window) []Publication {
	first, waits := c.corrected[w.Name]
	if !waits {
		return to
	}

	_, again := c.replayed[w.Name]
	delete(c.corrected, w.Name)
	delete(c.replayed, w.Name)
	if w.Verdict == nil || !w.Verdict.Listed || w.Verdict.Ended != 0 {
		return to
	}

	event := blocklist.EventCorrected
	if first || again {
		event = blocklist.EventBlocked
	}

	c.list.config.Corrected()
	c.list.log.verdict(c.logger, c.list.config.Now(), event, w, w.Verdict)
	return append(to, published(w, event))
}

// again publishes what a window says that was replayed, with its event, unless that is over.
func (c *changed) again(to []Publication, w *windows.Window) []Publication {
	v := w.Verdict
	if _, left := c.replayed[w.Name]; !left || v == nil || !v.Listed || v.Until <= c.list.config.Now().UnixMilli() && !v.Moved() {
		return to
	}
	event := blocklist.EventBlocked
	switch {
	case v.Lifted:
		event = blocklist.EventLifted
	case v.Ended != 0:
		event = blocklist.EventEnded
	}
	return append(to, published(w, event))
}
