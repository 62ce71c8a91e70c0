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

// migrations change the tables from one version to the next; the first makes them.
var migrations = []string{schemaSQL}

// Schema is the SQL that makes the tables.
func Schema() string { return schemaSQL }

const (
	upkeepTimeout = 30 * time.Second    // of one statement
	lockID        = 0x77656972_696e6c6e // weirinln
	command       = "weir inline schema postgres | psql DATABASE"
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
	if old, err := tables.Migrate(version, len(migrations), b.create, command); !old || err != nil {
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
				return fmt.Errorf("the tables of inline limits cannot be made: %w; run: %s", err, command)
			}
		}
		return nil
	})
}

// versionOf is the version of the tables, 0 without any.
func versionOf(ctx context.Context, c *pgx.Conn) (version int, err error) {
	var there bool
	err = c.QueryRow(ctx, "SELECT to_regclass('weir_inline_schema') IS NOT NULL").Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	err = c.QueryRow(ctx, "SELECT version FROM weir_inline_schema").Scan(&version)
	return version, err
}

// sweep deletes the cells that have expired, unless another process does.
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
			return nil
		}
		if err != nil {
			return err
		}
		if !tables.Sleep(ctx, tables.SweepPause) {
			return ctx.Err()
		}
	}
}
