package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"weir/pkg/inline/stored"
	"weir/pkg/inline/tables"
)

// clock is the time in microseconds when a statement begins.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Commit does all changes or none.
func (b *Backend) Commit(ctx context.Context, c *stored.Commit) (r stored.Result, err error) {
	if err := b.tables.Wait(ctx); err != nil {
		return r, err
	}
	defer func() { b.heard(err) }()
	q, writes := requestOf(c)
	if !writes {
		return b.check(ctx, c)
	}
	for try := 1; ; try++ {
		r, err = b.commit(ctx, q)
		if r.Done || err != nil && !isConflict(err) {
			return r, err
		}
		failed := cmp.Or(err, errMoving)
		if codeOf(err) == duplicateEntry {
			err = b.deleteExpired(ctx, c)
		}
		if err == nil || isConflict(err) {
			r, err = b.check(ctx, c)
		}
		if err != nil && !isConflict(err) || err == nil && !r.Done { // others were faster
			return r, err
		}
		if !tables.Pause(ctx, try) {
			return stored.Result{}, failed
		}
	}
}

var errMoving = errors.New("the cells move too fast")

// A request is statements and their arguments.
type request struct {
	strings.Builder
	args []any
}

func (q *request) add(statement string, args ...any) {
	q.WriteString(statement)
	q.args = append(q.args, args...)
}

// list adds arguments with commas between them.
func (q *request) list(names []any) {
	q.add("("+strings.Repeat("?, ", len(names)-1)+"?)", names...)
}

func (b *Backend) commit(ctx context.Context, q *request) (r stored.Result, err error) {
	err = b.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		err := ask(ctx, conn, q, func(rows *sql.Rows) error { return rows.Scan(&r.Done, &r.Now) })
		if err != nil {
			_, _ = conn.ExecContext(ctx, "ROLLBACK")
		}
		return err
	})
	r.Done = r.Done && err == nil
	return r, err
}

// requestOf is the request that does a commit, and whether that writes anything.
func requestOf(c *stored.Commit) (q *request, writes bool) {
	q = &request{}
	var all, there []any // names
	var inserts []*stored.Change
	seed := c.Changes[0].Decided == 0 && c.Changes[0].Next != 0
	for i := range c.Changes {
		change := &c.Changes[i]
		name := []byte(change.Name)
		all = append(all, name)
		switch {
		case change.Decided != 0 || i == 0 && seed:
			there = append(there, name)
		case change.Next != 0:
			inserts = append(inserts, change)
		}
	}
	if !c.Writes() {
		return nil, false
	}

	if until := c.At + c.Slack; seed {
		q.add("INSERT IGNORE INTO weir_inline_cells SELECT ?, 0, '', ? FROM DUAL WHERE "+clock+" BETWEEN ? AND ?; ",
			all[0], c.At/1000, c.At, until)
	}
	q.add("START TRANSACTION; ")
	if q.add("SET @weir_there = 0; "); len(there) > 0 {
		q.add("SELECT COUNT(*) INTO @weir_there FROM weir_inline_cells FORCE INDEX (PRIMARY) WHERE name IN ")
		q.list(there)
		q.add(" FOR UPDATE; ")
	}
	q.add("SET @weir_now = " + clock + "; ")
	q.compare(c, all, len(there))
	for i := range c.Changes {
		if change := &c.Changes[i]; change.Next != 0 && (change.Decided != 0 || i == 0) {
			q.add("UPDATE weir_inline_cells SET version = ?, state = ?, expires = ? WHERE name = ? AND @weir_done; ",
				change.Next, stateOf(change), change.Expires, []byte(change.Name))
		}
	}
	for i, change := range inserts {
		q.add([]string{"INSERT INTO weir_inline_cells ", " UNION ALL "}[min(i, 1)])
		q.add("SELECT ?, ?, ?, ? FROM DUAL WHERE @weir_done", []byte(change.Name), change.Next, stateOf(change), change.Expires)
	}
	if len(inserts) > 0 {
		q.add("; ")
	}
	if len(c.Attempts) > 0 {
		q.rows(c.Attempts, " WHERE @weir_done")
		q.add("; ")
	}
	for i := range c.Settlements {
		q.settle(&c.Settlements[i])
	}
	q.add("COMMIT; SELECT @weir_done, @weir_now")
	return q, true
}

// compare sets @weir_done: whether all cells are as was decided on, and those that are to be changed are locked.
func (q *request) compare(c *stored.Commit, all []any, locked int) {
	decided := 0
	var cases request
	for i := range c.Changes {
		if change := &c.Changes[i]; change.Decided != 0 {
			decided++
			cases.add(" WHEN ? THEN version = ?", []byte(change.Name), change.Decided)
		}
	}
	q.add("SET @weir_done = @weir_there = ? AND @weir_now BETWEEN ? AND ? AND (SELECT COUNT(*) = ?", locked, c.At, c.At+c.Slack, decided)
	if decided > 0 {
		q.add(" AND COALESCE(SUM(CASE name"+cases.String()+" ELSE 0 END), 0) = ?", append(cases.args, decided)...)
	}
	q.add(" FROM weir_inline_cells FORCE INDEX (PRIMARY) WHERE expires > @weir_now DIV 1000 AND name IN ")
	q.list(all)
	q.add("); ")
}

func stateOf(change *stored.Change) []byte { return append([]byte{}, change.State...) }

// deleteExpired makes room for cells that are inserted.
func (b *Backend) deleteExpired(ctx context.Context, c *stored.Commit) error {
	q := &request{}
	q.add("DELETE FROM weir_inline_cells WHERE expires <= " + clock + " DIV 1000 AND name IN ")
	names := make([]any, len(c.Changes))
	for i := range c.Changes {
		names[i] = []byte(c.Changes[i].Name)
	}
	q.list(names)
	return b.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, q.String(), q.args...)
		return err
	})
}

// check is a commit that changes nothing.
func (b *Backend) check(ctx context.Context, c *stored.Commit) (stored.Result, error) {
	names := make([]string, len(c.Changes))
	for i := range c.Changes {
		names[i] = c.Changes[i].Name
	}
	cells, now, err := b.read(ctx, names)
	if err != nil {
		return stored.Result{}, err
	}
	return c.Checked(cells, now), nil
}

// Read returns cells and the time.
func (b *Backend) Read(ctx context.Context, _ uint16, names []string) (cells []stored.Cell, now int64, err error) {
	if err := b.tables.Wait(ctx); err != nil {
		return nil, 0, err
	}
	defer func() { b.heard(err) }()
	return b.read(ctx, names)
}

func (b *Backend) read(ctx context.Context, names []string) (cells []stored.Cell, now int64, err error) {
	q := &request{}
	q.add("SELECT " + clock)
	if len(names) > 0 {
		all := make([]any, len(names))
		for i, name := range names {
			all[i] = []byte(name)
		}
		q.add("; SELECT name, version, state FROM weir_inline_cells FORCE INDEX (PRIMARY) WHERE expires > " + clock + " DIV 1000 AND name IN ")
		q.list(all)
	}
	found := make(map[string]stored.Cell, len(names))
	err = b.on(ctx, func(ctx context.Context, conn *sql.Conn) error {
		return ask(ctx, conn, q, func(rows *sql.Rows) error {
			if now == 0 {
				return rows.Scan(&now)
			}
			var name []byte
			var cell stored.Cell
			err := rows.Scan(&name, &cell.Version, &cell.State)
			found[string(name)] = cell
			return err
		})
	})
	for _, name := range names {
		cells = append(cells, found[name])
	}
	return cells, now, err
}

// on calls do with a connection. Its context is longer than that of the caller, so that a late answer does not cost the
// connection.
func (b *Backend) on(ctx context.Context, do func(context.Context, *sql.Conn) error) error {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if deadline, limited := ctx.Deadline(); limited {
		cancel()
		longer, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(b.budget))
	}
	defer cancel()
	if err = do(longer, conn); codeOf(err) == noSuchTable {
		b.tables.Missing(err)
	}
	return err
}

// ask sends a request, and calls row for all rows of all of its answers.
func ask(ctx context.Context, conn *sql.Conn, q *request, row func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, q.String(), q.args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	some := false
	for {
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
			some = true
		}
		if !rows.NextResultSet() {
			break
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !some {
		return fmt.Errorf("%w: it has no rows", errAnswer)
	}
	return nil
}

var errAnswer = errors.New("the answer of MySQL cannot be used")
