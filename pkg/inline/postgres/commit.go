package postgres

import (
	"context"
	_ "embed"
	"errors"

	"github.com/jackc/pgx/v5"

	"weir/pkg/inline/stored"
	"weir/pkg/inline/tables"
)

//go:embed commit.sql
var commitSQL string

// checkSQL is a commit that changes nothing, so that it locks nothing.
const checkSQL = `
WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
SELECT now, n, version, state
FROM clock LEFT JOIN unnest($1::bytea[]) WITH ORDINALITY AS w(name, n) ON true
LEFT JOIN weir_inline_cells c ON c.name = w.name AND c.expires > now / 1000
ORDER BY n`

const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	divisionByZero       = "22012" // how the commit ends when another process has inserted one of its cells
	undefinedTable       = "42P01"
	readOnly             = "25006"
)

// Commit does all changes or none.
func (b *Backend) Commit(ctx context.Context, c *stored.Commit) (r stored.Result, err error) {
	if err := b.tables.Wait(ctx); err != nil {
		return r, err
	}
	defer func() { b.heard(err) }()
	for try := 1; ; try++ {
		if r, err = b.commit(ctx, c); !isConflict(err) || !tables.Pause(ctx, try) {
			return r, err
		}
		if r, err = b.check(ctx, c); err != nil && !isConflict(err) || err == nil && !r.Done { // others were faster
			return r, err
		}
	}
}

// isConflict reports whether PostgreSQL ended a statement for the sake of another.
func isConflict(err error) bool {
	switch codeOf(err) {
	case serializationFailure, deadlockDetected, divisionByZero:
		return true
	}
	return false
}

func (b *Backend) commit(ctx context.Context, c *stored.Commit) (r stored.Result, err error) {
	if !c.Writes() {
		return b.check(ctx, c)
	}
	n := len(c.Changes)
	names, states := make([][]byte, n), make([][]byte, n)
	decided, next, expires := make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range c.Changes {
		change := &c.Changes[i]
		names[i], states[i], expires[i] = []byte(change.Name), change.State, change.Expires
		decided[i], next[i] = int64(change.Decided), int64(change.Next)
		if states[i] == nil {
			states[i] = []byte{}
		}
	}

	statement, history := historyOf(c)
	args := append([]any{names, decided, next, states, expires, c.At, c.At + c.Slack}, history...)
	rows, err := b.pool.Query(ctx, statement, args...)
	if err != nil {
		return r, err
	}
	var cell struct {
		version *int64
		state   []byte
	}
	_, err = pgx.ForEachRow(rows, []any{&r.Now, &r.Done, nil, &cell.version, &cell.state}, func() error {
		if !r.Done {
			r.Cells = append(r.Cells, cellOf(cell.version, cell.state))
		}
		return nil
	})
	return r, b.noted(err)
}

// noted notes if the tables are no longer there.
func (b *Backend) noted(err error) error {
	if codeOf(err) == undefinedTable {
		b.tables.Missing(err)
	}
	return err
}

// check is a commit that changes nothing.
func (b *Backend) check(ctx context.Context, c *stored.Commit) (stored.Result, error) {
	names := make([][]byte, len(c.Changes))
	for i := range c.Changes {
		names[i] = []byte(c.Changes[i].Name)
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
	all := make([][]byte, len(names))
	for i, name := range names {
		all[i] = []byte(name)
	}
	return b.read(ctx, all)
}

func (b *Backend) read(ctx context.Context, names [][]byte) (cells []stored.Cell, now int64, err error) {
	rows, err := b.pool.Query(ctx, checkSQL, names)
	if err != nil {
		return nil, 0, err
	}
	var n, version *int64
	var state []byte
	_, err = pgx.ForEachRow(rows, []any{&now, &n, &version, &state}, func() error {
		if n != nil {
			cells = append(cells, cellOf(version, state))
		}
		return nil
	})
	if err == nil && len(cells) != len(names) {
		err = errors.New("PostgreSQL has answered with too few cells")
	}
	return cells, now, b.noted(err)
}

func cellOf(version *int64, state []byte) stored.Cell {
	if version == nil || *version == 0 {
		return stored.Cell{}
	}
	return stored.Cell{Version: uint64(*version), State: append([]byte{}, state...)}
}
