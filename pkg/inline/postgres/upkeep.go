package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/pkg/inline/tables"
)

//go:embed schema.sql
var schemaSQL string

//go:embed sweep.sql
var sweepSQL string

//go:embed schema_2.sql
var schema2SQL string

// migrations change the tables from one version to the next; the first makes them.
var migrations = tables.Migrations{schemaSQL, schema2SQL}

// Schema is the SQL that brings tables of a version to the newest one; it makes those of version 0.
func Schema(from int) (string, error) { return migrations.From(from) }

const (
	upkeepTimeout = 30 * time.Second    // of one statement
	lockID        = 0x77656972_696e6c6e // weirinln
	command       = "weir inline schema postgres%s | psql DATABASE"
)

func upkeepOf(c *pgxpool.Config) *pgx.ConnConfig {
	own := c.ConnConfig.Copy()
	own.RuntimeParams = maps.Clone(own.RuntimeParams)
	own.RuntimeParams["statement_timeout"] = milliseconds(upkeepTimeout)
	own.RuntimeParams["lock_timeout"] = milliseconds(upkeepTimeout)
	own.RuntimeParams["default_transaction_isolation"] = "read committed"
	return own
}

// look connects, has the tables made, and sweeps.
func (b *Backend) look(ctx context.Context, ready func()) error {
	c, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := b.prepare(ctx, c); err != nil {
		return err
	}
	ready()
	if err := b.sweep(ctx, c); err != nil && ctx.Err() == nil {
		b.log.Warn("inline limits: expired cells are not deleted from PostgreSQL", "error", err)
	}
	return nil
}

func (b *Backend) connect(ctx context.Context) (*pgx.Conn, error) {
	own := b.upkeep.Copy()
	if b.before != nil {
		if err := b.before(ctx, own); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, own)
}

// prepare makes the tables, or checks that they are there.
func (b *Backend) prepare(ctx context.Context, c *pgx.Conn) error {
	version, err := versionOf(ctx, c)
	if err != nil {
		return err
	}
	if b.history > 0 {
		if err := isUTF8(ctx, c); err != nil {
			return err
		}
	}
	if old, err := migrations.Due(version, tables.Needed(b.history), b.create, command); !old || err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lockID+1)); err != nil {
			return err
		}
		version, err := versionOf(ctx, c) // another process may have been faster
		if err != nil {
			return err
		}
		for _, migration := range migrations[min(version, len(migrations)):] {
			if _, err := tx.Exec(ctx, migration); err != nil {
				return migrations.Failed(version, err, command)
			}
		}
		return nil
	})
}

// versionOf is the version of the tables that are there, 0 without any.
func versionOf(ctx context.Context, c *pgx.Conn) (version int, err error) {
	var there, cells, history bool
	const are = "SELECT to_regclass('weir_inline_schema') IS NOT NULL, to_regclass('weir_inline_cells') IS NOT NULL, " +
		"to_regclass('weir_inline_history') IS NOT NULL"
	err = c.QueryRow(ctx, are).Scan(&there, &cells, &history)
	if err != nil || !there {
		return 0, err
	}
	err = c.QueryRow(ctx, "SELECT version FROM weir_inline_schema").Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return migrations.Version(version, cells, history), err
}

var errEncoding = errors.New("a history of attempts needs a database whose encoding is UTF8; make one, or leave inline.history out")

// isUTF8 checks that a database can have all keys as texts.
func isUTF8(ctx context.Context, c *pgx.Conn) error {
	var encoding string
	err := c.QueryRow(ctx, "SHOW server_encoding").Scan(&encoding)
	if err == nil && encoding != "UTF8" {
		return fmt.Errorf("%w (it is %s)", errEncoding, encoding)
	}
	return err
}

// sweep deletes the cells and the history that have expired, unless another process does.
func (b *Backend) sweep(ctx context.Context, c *pgx.Conn) error {
	var mine bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(lockID)).Scan(&mine); err != nil || !mine {
		return err
	}
	after := []byte{} // the lock ends with the connection
	for {
		var gone int64
		err := c.QueryRow(ctx, sweepSQL, after, tables.SweepPage).Scan(&after, &gone)
		if errors.Is(err, pgx.ErrNoRows) {
			return b.retain(ctx, c)
		}
		if err != nil {
			return err
		}
		if !tables.Sleep(ctx, tables.SweepPause) {
			return ctx.Err()
		}
	}
}

// retain deletes the rows of the history that are too old.
func (b *Backend) retain(ctx context.Context, c *pgx.Conn) error {
	if b.history == 0 {
		return nil
	}
	for after := new(time.Time{}); ; {
		var gone int64
		var last *time.Time
		if err := c.QueryRow(ctx, retainSQL, after, b.history.Milliseconds(), tables.SweepPage).Scan(&gone, &last); err != nil || last == nil {
			return err
		}
		if after = last; !tables.Sleep(ctx, tables.SweepPause) {
			return ctx.Err()
		}
	}
}
