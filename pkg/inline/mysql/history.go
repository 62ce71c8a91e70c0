package mysql

import (
	"context"
	"database/sql"
	"time"

	"weir/pkg/inline/stored"
	"weir/pkg/inline/tables"
)

var _ stored.Reader = (*Backend)(nil)

const (
	longestLimit = 255 // bytes, as in schema_2.sql
	// A row that is there already stays.
	once = " ON DUPLICATE KEY UPDATE weir_inline_history.part = weir_inline_history.part"
)

// rows adds the rows of a history to a request: all of them, or if they are of a commit, those of one that is done.
func (q *request) rows(all []stored.Attempt, where string) {
	q.add("INSERT INTO weir_inline_history (at, id, `rule`, `key`, part, cost, verdict, limit_text, remaining, store) SELECT * FROM (")
	for i := range all {
		a := &all[i]
		if i == 0 {
			q.add("SELECT ? AS c1, ? AS c2, ? AS c3, ? AS c4, ? AS c5, ? AS c6, ? AS c7, ? AS c8, ? AS c9, ? AS c10")
		} else {
			q.add(" UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?")
		}
		limit := []byte(a.Limit)
		q.args = append(q.args, instant(a.At), a.ID[:], []byte(a.Rule), []byte(a.Key), a.Part, a.Cost, []byte(a.Verdict), limit[:min(len(limit), longestLimit)],
			a.Remaining, sql.NullString{String: a.Store, Valid: a.Store != ""})
	}
	q.add(") AS added" + where + once)
}

// settle adds to the request of a commit what becomes of rows if it is done.
func (q *request) settle(s *stored.Settlement) {
	if s.Gone {
		q.add("DELETE FROM weir_inline_history")
	} else {
		q.add("UPDATE weir_inline_history SET settled = IF(? < 0, COALESCE(settled, cost), ?), settled_at = ?", s.Cost, s.Cost, instant(s.When))
	}
	q.add(" WHERE `key` = ? AND at = ? AND `rule` = ? AND id = ? AND verdict = 'admitted' AND @weir_done; ",
		[]byte(s.Key), instant(s.At), []byte(s.Rule), s.ID[:])
}

// instant is a time as the tables have it, whatever the time zones of the server and of the DSN.
func instant(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02 15:04:05.000") }

// Add adds rows of the history that no commit writes, on a connection of its own.
func (b *Backend) Add(ctx context.Context, rows []stored.Attempt) error {
	if err := b.tables.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	q := &request{}
	q.rows(rows, "")
	_, err := b.upkeep.ExecContext(ctx, q.String(), q.args...)
	if codeOf(err) == noSuchTable {
		b.tables.Missing(err)
	}
	return err
}

// retain deletes the rows of the history that are too old.
func (b *Backend) retain(ctx context.Context, c *sql.Conn) error {
	for b.history > 0 {
		done, err := c.ExecContext(ctx, "DELETE FROM weir_inline_history WHERE at < UTC_TIMESTAMP(3) - INTERVAL ? MICROSECOND ORDER BY at LIMIT ?",
			b.history.Microseconds(), tables.SweepPage)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n < tables.SweepPage {
			return err
		}
		if !tables.Sleep(ctx, tables.SweepPause) {
			return ctx.Err()
		}
	}
	return nil
}

// Rows are the newest rows of some keys, by the connection of Add.
func (b *Backend) Rows(ctx context.Context, of *stored.Query) (all []stored.Row, err error) {
	if err := b.tables.Wait(ctx); err != nil {
		return nil, err
	}
	q := &request{}
	q.add("SELECT id, `rule`, `key`, part, "+sinceEpoch("at")+", cost, verdict, limit_text, remaining, COALESCE(store, ''), settled, COALESCE("+sinceEpoch("settled_at")+
		", 0) FROM weir_inline_history WHERE at >= ?", instant(of.From))
	if of.Rule != "" {
		q.add(" AND `rule` = ?", []byte(of.Rule))
	}
	q.add(" AND `key` IN ")
	keys := make([]any, len(of.Keys))
	for i, key := range of.Keys {
		keys[i] = []byte(key)
	}
	q.list(keys)
	q.add(" ORDER BY at DESC, id DESC, `rule`, `key`, part LIMIT ?", of.Most)
	rows, err := b.upkeep.QueryContext(ctx, q.String(), q.args...)
	if codeOf(err) == noSuchTable {
		b.tables.Missing(err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r stored.Row
		var id []byte
		if err := rows.Scan(&id, &r.Rule, &r.Key, &r.Part, &r.At, &r.Cost, &r.Verdict, &r.Limit, &r.Remaining, &r.Store, &r.Settled, &r.SettledAt); err != nil {
			return nil, err
		}
		copy(r.ID[:], id)
		all = append(all, r)
	}
	return all, rows.Err()
}

// sinceEpoch is a time of the tables in milliseconds since 1970.
func sinceEpoch(column string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ") DIV 1000"
}
