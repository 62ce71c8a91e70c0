package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"weir/pkg/inline/stored"
)

var _ stored.Scanner = (*Backend)(nil)

// scanned is how many cells a statement returns.
const scanned = 500

const scanSQL = `
WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now)
SELECT now, name, version, state FROM weir_inline_cells, clock
WHERE name >= $1 AND name < $2 AND expires > now / 1000 ORDER BY name LIMIT $3`

// Scan lists cells in the order of their names, on the connection that rows of the history are added on.
func (b *Backend) Scan(ctx context.Context, prefix string, look func(name string, cell stored.Cell, now int64) bool) error {
	if err := b.tables.Wait(ctx); err != nil {
		return err
	}
	for from, to := []byte(prefix), []byte(stored.After(prefix)); ; {
		rows, err := b.adding.Query(ctx, scanSQL, from, to, scanned)
		if err != nil {
			return err
		}
		var now, version int64
		var name, state []byte
		n, more := 0, true
		_, err = pgx.ForEachRow(rows, []any{&now, &name, &version, &state}, func() error {
			n++
			more = more && look(string(name), cellOf(&version, state), now)
			return nil
		})
		if err != nil || !more || n < scanned {
			return b.noted(err)
		}
		from = append(append([]byte{}, name...), 0)
	}
}
