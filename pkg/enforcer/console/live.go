package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir/internal/limited"
	"weir/pkg/blocklist"
)

// Bounds of a live list.
const (
	liveEvery   = 250 * time.Millisecond // at most one event
	liveChanges = 8 << 10                // that are read for an event
	quietEvery  = 15 * time.Second       // a comment, so that a connection that is gone is noticed
	figureEvery = 10 * time.Second
)

// A change is one event of a live list.
type change struct {
	Rows   []*row   `json:"rows"`   // new and changed entries, newest first
	Gone   []string `json:"gone"`   // places of entries that have ended
	Left   int      `json:"left"`   // changes that were left out, because there are more than a page has rows
	Totals *sums    `json:"totals"` // of the complete list
	Again  bool     `json:"again"`  // changes are not known: load the page again

	Figures *figures `json:"figures,omitempty"`
}

// A feed follows the list for one page.
type feed struct {
	console *Console
	query   *query
	at      blocklist.Version
	orders  map[string]bool // ids of orders that were sent before the log has brought them
	figures func() *figures // nil where there are none
}

// live is the stream of changes of the page Now.
func (c *Console) live(w http.ResponseWriter, r *http.Request, v *visitor) error {
	q, err := readQuery(r.URL.Query())
	if err != nil {
		return err
	}
	q.hide(c.config.Rules())
	leave, ok := c.streaming.TryTake(r)
	if !ok {
		return problem{http.StatusServiceUnavailable, "Too many live lists are open."}
	}
	defer leave()

	// Before the answer begins: changes after that are in the stream.
	f := &feed{console: c, query: q, at: c.config.Set.Version(), orders: map[string]bool{}}
	from := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("from"))
	if at, err := blocklist.ParseVersion(from); err == nil && from != "" {
		f.at = at
	}

	w = limited.Answer(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	f.figures = func() *figures { return c.hour(r, v) }
	f.run(ctx, w, func() bool {
		_, err := c.visitor(r)
		return err == nil
	})
	return nil
}

// run sends changes until the context is done, the reader may not read any more, or the enforcer ends.
func (f *feed) run(ctx context.Context, w http.ResponseWriter, may func() bool) {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	sent, counted, totals := time.Now(), time.Now(), f.console.count().sums
	if send(w, f.at, &change{Totals: &totals}) != nil {
		return
	}
	for {
		select {
		case <-ticker.C:
		case <-f.console.config.Ending:
			return
		case <-ctx.Done():
			return
		}
		if !may() {
			_ = flush(w, "event: ended\ndata: {}\n\n")
			return
		}

		next, ok := f.nextInTurn(ctx)
		if !ok {
			return
		}
		newest := f.console.count().sums
		var figures *figures
		if time.Since(counted) >= figureEvery {
			counted, figures = time.Now(), f.figures()
		}
		if next != nil || newest != totals || figures != nil {
			if next == nil {
				next = &change{}
			}
			next.Figures = figures
			next.Totals, totals = &newest, newest
			if sent = time.Now(); send(w, f.at, next) != nil {
				return
			}
		}
		if time.Since(sent) >= quietEvery {
			if sent = time.Now(); flush(w, ": still there\n\n") != nil {
				return
			}
		}
	}
}

// send sends a change, and the version that it leads to: a browser that connects again goes on from there.
func send(w http.ResponseWriter, at blocklist.Version, c *change) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return flush(w, fmt.Sprintf("id: %s\nevent: change\ndata: %s\n\n", at, text))
}

func flush(w http.ResponseWriter, text string) error {
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// nextInTurn returns next, for a few live lists at a time: each decodes up to liveChanges entries, and all of them
// together would take gigabytes when many keys are blocked at once. It is not ok when the context is done.
func (f *feed) nextInTurn(ctx context.Context) (_ *change, ok bool) {
	turns := f.console.following
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	defer func() { <-turns }()
	return f.next(), true
}

// next returns what has changed since the last call; nil is nothing that the page shows.
func (f *feed) next() *change {
	set := f.console.config.Set
	changes, version, ok := set.Changes(f.at, liveChanges)
	if !ok {
		if f.at == set.Version() || set.NotYet(f.at) {
			return nil
		}
		f.at = set.Version()
		return &change{Again: true}
	}
	f.at = version

	// Of several changes of a record only the last one matters.
	last := map[string]*blocklist.Entry{}
	var order []string
	note := func(place string, e *blocklist.Entry) {
		if _, known := last[place]; !known {
			order = append(order, place)
		}
		last[place] = e
	}
	for _, one := range changes {
		if e := one.Entry(); e != nil && !f.orders[e.ID] {
			f.note(e, note)
		} else if e != nil {
			delete(f.orders, e.ID)
		}
	}
	for _, o := range set.Pending() { // active, before the log has them
		if !f.orders[o.ID] {
			f.orders[o.ID] = true
			f.note(o.Entry(), note)
		}
	}
	return f.shown(last, order)
}

// note notes what an entry changes: itself, or the entry that a pardon ends.
func (f *feed) note(e *blocklist.Entry, note func(place string, e *blocklist.Entry)) {
	if e.Order == blocklist.OrderPardon {
		note(placeOf(e.Fields["rule"], e.Fields["key"]), nil)
		return
	}
	note(placeOf(e.Rule, e.Key), e)
}

// shown returns the newest changes that the page's filters select, and how many it leaves out.
func (f *feed) shown(last map[string]*blocklist.Entry, order []string) *change {
	now, c := f.console.config.Now(), &change{}
	lets := f.console.count().lets
	for i := len(order) - 1; i >= 0; i-- {
		e := last[order[i]]
		switch {
		case e == nil || e.Ended != 0 || e.Until <= now.UnixMilli():
			if len(c.Gone) < 4*pageRows { // the others leave the page when their time is over
				c.Gone = append(c.Gone, order[i])
			}
		case !f.query.wants(subject{e.Rule, []byte(e.Key), e.Mode == blocklist.Shadow, e.Order}) || !f.query.fields(e):
		case len(c.Rows) == pageRows:
			c.Left++
		default:
			c.Rows = append(c.Rows, f.console.row(e, now, lets))
		}
	}
	if len(c.Rows)+len(c.Gone) == 0 {
		return nil
	}
	return c
}
