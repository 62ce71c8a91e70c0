package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
)

// tablePatience is how long the table of attempts is asked.
const tablePatience = 10 * time.Second

// hasTable reports whether enforcers keep the attempts in a table, and have no topic elsewhere.
func hasTable(c *config.Config) bool {
	return c.Inline.History > 0 && c.Inline.Store.Postgres+c.Inline.Store.MySQL != "" && len(c.Kafka.Brokers) == 0
}

// A table has the history of attempts in SQL.
type table interface {
	stored.Reader
	io.Closer
}

// openTable opens the table of attempts, and makes or deletes nothing there.
func openTable(c *config.Config) (table, error) {
	if c.Inline.Store.Postgres != "" {
		options := daemon.InlinePostgresOptions(c, nil)
		options.Create, options.History = false, 0
		return postgres.Open(options)
	}
	options := daemon.InlineMySQLOptions(c, nil)
	options.Create, options.History = false, 0
	return mysql.Open(options)
}

// findInTable reads the table of attempts, from a time on.
func (t *tries) findInTable(ctx context.Context, settings *config.Config, from catFrom) error {
	in, err := openTable(settings)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tablePatience)
	defer cancel()
	q := &stored.Query{Keys: t.of.Keys(), Rule: t.rule, Most: 2 * t.most} // an attempt may have several rows
	if from.offset == beforeNow {
		q.From = time.Now().Add(-from.before).UnixMilli()
	}
	rows, err := in.Rows(ctx, q)
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("reading the table of attempts: %w", err)
	}
	// The rules of an attempt may have decided some milliseconds apart.
	of := map[inline.ID][]stored.Row{}
	for i := range rows {
		of[rows[i].ID] = append(of[rows[i].ID], rows[i])
	}
	for _, rows := range of {
		slices.SortFunc(rows, func(a, b stored.Row) int {
			return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Part, b.Part))
		})
		t.addRows(rows)
	}
	t.trim()
	return nil
}

// addRows adds an attempt by its rows, and its settlements.
func (t *tries) addRows(rows []stored.Row) {
	first := &rows[0]
	record := attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(first.At), Admitted: first.Store != inline.Refuse.String(), Store: first.Store}
	settled := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		record.Time = min(record.Time, attempts.Instant(r.At))
		record.Takes = append(record.Takes, attempts.Take{Rule: r.Rule, Key: r.Key, Cost: r.Cost, Verdict: r.Verdict, Limit: r.Limit, Remaining: r.Remaining})
		switch r.Verdict {
		case attempts.Refused, attempts.Other:
			record.Admitted = false
		case attempts.Admitted:
			if r.Cost > 0 && r.Store == "" {
				record.Attempt = r.ID.String()
			}
		}
		if r.Settled != nil && !settled[r.Rule] {
			settled[r.Rule] = true
			t.addRecord(&attempts.Record{Kind: attempts.Settlement, Time: attempts.Instant(r.SettledAt), Attempt: r.ID.String(), Rule: r.Rule, Cost: *r.Settled})
		}
	}
	t.addRecord(&record)
}

func (t *tries) addRecord(r *attempts.Record) {
	t.add(try{*r, attempts.AppendSequence(r.Append(nil), 0)})
}
