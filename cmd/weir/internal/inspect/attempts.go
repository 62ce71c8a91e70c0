package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/blocklist"
)

const (
	mostTries = 1000 // that weir history shows
	someTries = 5    // that weir explain shows
)

// tries are the newest attempts of a key at inline rules.
type tries struct {
	of   *shown.Match
	rule string // empty is any
	most int

	inTable bool // these are of the table in SQL

	mu   sync.Mutex
	all  []try
	left int // left out, because there are too many
}

// A try is an attempt, and its record in the topic.
type try struct {
	attempts.Record
	line []byte
}

// read returns a function that adds the attempts of one partition.
func (t *tries) read(report func(*topic.Record, error)) func(*topic.Record) {
	var record attempts.Record
	var repeats attempts.Repeats
	return func(r *topic.Record) {
		if err := attempts.Parse(r.Value, &record); err != nil {
			report(r, err)
			return
		}
		if repeats.Has(record.Mark()) {
			return
		}
		repeats.See(record.Mark())
		if t.concerns(&record) {
			t.add(try{record, bytes.Clone(r.Value)})
			record = attempts.Record{} // its rules are in the try now
		}
	}
}

// concerns reports whether an attempt is of the key.
func (t *tries) concerns(r *attempts.Record) bool {
	return slices.ContainsFunc(r.Takes, func(take attempts.Take) bool {
		if t.rule != "" && t.rule != take.Rule {
			return false
		}
		return t.of.Covers(&shown.Entry{Entry: blocklist.Entry{Rule: take.Rule, Key: take.Key, Fields: map[string]string{"ip": r.IP, "user": r.User}}})
	})
}

func (t *tries) add(one try) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all = append(t.all, one); len(t.all) >= 2*t.most {
		t.trim()
	}
}

// trim sorts the attempts, the newest first, and drops the oldest when there are too many.
func (t *tries) trim() {
	slices.SortStableFunc(t.all, func(a, b try) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Order, a.Order), cmp.Compare(b.Attempt, a.Attempt))
	})
	if over := len(t.all) - t.most; over > 0 {
		t.left += over
		clear(t.all[t.most:])
		t.all = t.all[:t.most]
	}
}

// find reads the topic of attempts, from a place on. If it has none and enforcers keep a table, it reads that.
func (t *tries) find(ctx context.Context, settings *config.Config, stderr io.Writer, from catFrom) error {
	err := t.findInTopic(ctx, settings, stderr, from)
	if hasTable(settings) && len(t.all) == 0 { // an enforcer alone has no topics
		t.inTable = true
		return t.findInTable(ctx, settings, from)
	}
	return err
}

func (t *tries) findInTopic(ctx context.Context, settings *config.Config, stderr io.Writer, from catFrom) error {
	name := settings.Kafka.Prefix + daemon.Attempts
	client, err := live.Connect(settings, stderr, name)
	if err != nil {
		return err
	}
	defer client.Close()
	r := &catRun{client: client, topic: name, shown: newCatWriter(io.Discard, stderr, name, "text")}
	r.newShow = func(partition int) func(*topic.Record) {
		return t.read(func(record *topic.Record, err error) { r.shown.failed(partition, record, err) })
	}
	err = r.open(ctx, from, -1)
	if err == nil {
		err = r.run(ctx, false)
	}
	t.trim()
	return errors.Join(err, r.shown.end())
}

// attempts shows the attempts of a key, for weir history --attempts.
func (h *historyCommand) attempts(c *cobra.Command, key string, from catFrom) error {
	settings, err := h.enforcer.Live.LoadButRules()
	if err != nil {
		return err
	}
	found := &tries{of: shown.NewMatch(key), rule: h.query.Rule, most: mostTries}
	err = found.find(c.Context(), settings, c.ErrOrStderr(), from)
	var b strings.Builder
	times := shown.NewTimes(c.OutOrStdout(), time.Now())
	if h.output.Form == "text" && len(found.all) > 0 {
		b.WriteString(times.Note())
	}
	for i := range found.all {
		if h.output.Form == "json" {
			b.Write(append(found.all[i].line, '\n'))
		} else {
			fmt.Fprintln(&b, attemptText(&found.all[i].Record, times))
		}
	}
	if found.left > 0 && found.inTable && h.output.Form == "text" {
		b.WriteString("(older attempts are left out; --from selects fewer)\n")
	} else if found.left > 0 && h.output.Form == "text" {
		fmt.Fprintf(&b, "(%s before these are left out; --from selects fewer)\n", output.Counted(found.left, "attempt"))
	}
	if _, failed := io.WriteString(c.OutOrStdout(), b.String()); failed != nil {
		return failed
	}
	if err == nil && len(found.all) == 0 {
		where := settings.Kafka.Prefix + daemon.Attempts
		if found.inTable {
			where = "the table weir_inline_history"
		}
		err = exit.Unmetf("%s has no attempts of %s", where, key)
	}
	return err
}
