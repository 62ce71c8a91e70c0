package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"time"

	"weir/pkg/inline/tables"
)

//go:embed schema.sql
var schemaSQL string

//go:embed schema_2.sql
var schema2SQL string

// migrations change the tables from one version to the next; the first makes them.
var migrations = tables.Migrations{schemaSQL, schema2SQL}

// Schema is the SQL that brings tables of a version to the newest one; it makes those of version 0.
func Schema(from int) (string, error) { return migrations.From(from) }

const (
	upkeepTimeout = 30 * time.Second // of one statement
	command       = "weir inline schema mysql%s | mariadb DATABASE"
)

// look connects, has the tables made, and sweeps.
func (b *Backend) look(ctx context.Context, ready func()) error {
	c, err := b.upkeep.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := b.prepare(ctx, c); err != nil {
		return err
	}
	ready()
	if err := b.sweep(ctx, c); err != nil && ctx.Err() == nil {
		b.log.Warn("inline limits: expired cells are not deleted from MySQL", "error", err)
	}
	return nil
}

// prepare makes the tables, or checks that they are there. No transaction has the making of tables in these servers: the
// version is written last.
func (b *Backend) prepare(ctx context.Context, c *sql.Conn) error {
	version, err := versionOf(ctx, c)
	if err != nil {
		return err
	}
	if old, err := migrations.Due(version, tables.Needed(b.history), b.create, command); !old || err != nil {
		return err
	}
	unlock, err := lock(ctx, c, "tables", upkeepTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	if version, err = versionOf(ctx, c); err != nil { // another process may have been faster
		return err
	}
	for _, migration := range migrations[min(version, len(migrations)):] {
		if _, err := c.ExecContext(ctx, migration); err != nil {
			return migrations.Failed(version, err, command)
		}
	}
	return nil
}

// versionOf is the version of the tables that are there, 0 without any.
func versionOf(ctx context.Context, c *sql.Conn) (version int, err error) {
	err = c.QueryRowContext(ctx, "SELECT version FROM weir_inline_schema").Scan(&version)
	if codeOf(err) == noSuchTable || errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var cells, history bool
	const there = "EXISTS (SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?)"
	err = c.QueryRowContext(ctx, "SELECT "+there+", "+there, "weir_inline_cells", "weir_inline_history").Scan(&cells, &history)
	return migrations.Version(version, cells, history), err
}

var errLocked = errors.New("another process has the lock")

// lock takes a lock of the database by its name.
func lock(ctx context.Context, c *sql.Conn, name string, within time.Duration) (unlock func(), err error) {
	var mine sql.NullBool
	const all = "CONCAT('weir_inline_', ?, '_', MD5(DATABASE()))"
	err = c.QueryRowContext(ctx, "SELECT GET_LOCK("+all+", ?)", name, int(within.Seconds())).Scan(&mine)
	if err == nil && !mine.Bool {
		err = errLocked
	}
	return func() { _, _ = c.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+all+")", name) }, err
}

// sweep deletes the cells and the history that have expired, unless another process does.
func (b *Backend) sweep(ctx context.Context, c *sql.Conn) error {
	unlock, err := lock(ctx, c, "sweep", 0)
	if errors.Is(err, errLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	for after := []byte(""); after != nil; {
		if after, err = sweepPage(ctx, c, after); err != nil {
			return err
		}
		if !tables.Sleep(ctx, tables.SweepPause) {
			return ctx.Err()
		}
	}
	return b.retain(ctx, c)
}

// long is the time up to which cells have expired that are deleted: one that a commit makes room for has just expired.
const long = clock + " DIV 1000 - 60000"

// sweepPage is one step of the sweep: the cells after a name. It returns the last name, or nil if there is none.
func sweepPage(ctx context.Context, c *sql.Conn, after []byte) (last []byte, err error) {
	q := &request{}
	q.add("SELECT name, expires <= "+long+" FROM weir_inline_cells WHERE name > ? ORDER BY name LIMIT ?", after, tables.SweepPage)
	rows, err := c.QueryContext(ctx, q.String(), q.args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var gone []any
	for rows.Next() {
		var name []byte
		var expired bool
		if err := rows.Scan(&name, &expired); err != nil {
			return nil, err
		}
		if last = name; expired {
			gone = append(gone, name)
		}
	}
	if err := rows.Err(); err != nil || len(gone) == 0 {
		return last, err
	}
	remove := &request{}
	remove.add("DELETE FROM weir_inline_cells WHERE expires <= " + long + " AND name IN ")
	remove.list(gone)
	_, err = c.ExecContext(ctx, remove.String(), remove.args...)
	return last, err
}
