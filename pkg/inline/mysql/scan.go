package mysql

import (
	"context"

	"weir/pkg/inline/stored"
)

var _ stored.Scanner = (*Backend)(nil)

// scanned is how many cells a statement returns.
const scanned = 500

const scanSQL = "SELECT " + clock + ", name, version, state FROM weir_inline_cells FORCE INDEX (PRIMARY) WHERE name >= ? AND name < ? AND expires > " +
	clock + " DIV 1000 ORDER BY name LIMIT ?"

// Scan lists cells in the order of their names, on the connection that rows of the history are added on.
func (b *Backend) Scan(ctx context.Context, prefix string, look func(name string, cell stored.Cell, now int64) bool) error {
	if err := b.tables.Wait(ctx); err != nil {
		return err
	}
	for from, to := []byte(prefix), []byte(stored.After(prefix)); ; {
		last, n, more, err := b.scan(ctx, from, to, look)
		if codeOf(err) == noSuchTable {
			b.tables.Missing(err)
		}
		if err != nil || !more || n < scanned {
			return err
		}
		from = append(append([]byte{}, last...), 0)
	}
}

// scan lists some cells, and returns the name of the last one.
func (b *Backend) scan(ctx context.Context, from, to []byte, look func(string, stored.Cell, int64) bool) (last []byte, n int, more bool, err error) {
	rows, err := b.upkeep.QueryContext(ctx, scanSQL, from, to, scanned)
	if err != nil {
		return nil, 0, false, err
	}
	defer func() { _ = rows.Close() }()
	for more = true; more && rows.Next(); n++ {
		var now int64
		var cell stored.Cell
		if err := rows.Scan(&now, &last, &cell.Version, &cell.State); err != nil {
			return nil, 0, false, err
		}
		more = look(string(last), cell, now)
	}
	return last, n, more, rows.Err()
}
