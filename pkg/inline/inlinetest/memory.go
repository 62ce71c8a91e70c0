package inlinetest

import (
	"context"
	"strings"
	"sync"
	"time"

	"weir/pkg/inline/stored"
)

// Memory is a Backend in this process.
type Memory struct {
	// Before, if it is set, is called before each commit is done. It may wait, and fail it.
	Before func(*stored.Commit) error

	mu    sync.Mutex
	cells map[string]memoryCell
	now   func() time.Time
}

type memoryCell struct {
	stored.Cell
	expires int64
}

// NewMemory makes one by a clock; nil is that of this machine.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{cells: map[string]memoryCell{}, now: now}
}

// Commit does all changes or none.
func (m *Memory) Commit(ctx context.Context, c *stored.Commit) (r stored.Result, err error) {
	if m.Before != nil {
		err = m.Before(c)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	r.Now = m.now().UnixMicro()
	r.Done = c.At <= r.Now && r.Now <= c.At+c.Slack
	for i := range c.Changes {
		cell := m.cell(c.Changes[i].Name, r.Now)
		r.Done = r.Done && cell.Version == c.Changes[i].Decided
		r.Cells = append(r.Cells, cell)
	}
	for i := range c.Changes {
		if change := &c.Changes[i]; r.Done && change.Next != 0 {
			m.cells[change.Name] = memoryCell{stored.Cell{Version: change.Next, State: change.State}, change.Expires}
		}
	}
	return r, nil
}

func (m *Memory) cell(name string, now int64) stored.Cell {
	cell := m.cells[name]
	if cell.expires <= now/1000 {
		delete(m.cells, name)
		return stored.Cell{}
	}
	return cell.Cell
}

// Read returns cells.
func (m *Memory) Read(ctx context.Context, _ uint16, names []string) (cells []stored.Cell, now int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = m.now().UnixMicro()
	for _, name := range names {
		cells = append(cells, m.cell(name, now))
	}
	return cells, now, ctx.Err()
}

// Scan lists cells.
func (m *Memory) Scan(ctx context.Context, prefix string, look func(name string, cell stored.Cell, now int64) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	for name := range m.cells {
		if cell := m.cell(name, now); cell.Version != 0 && strings.HasPrefix(name, prefix) && !look(name, cell, now) {
			break
		}
	}
	return nil
}

// Lose loses all cells.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.cells)
}

// Len is how many cells there are.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	for name := range m.cells {
		m.cell(name, now)
	}
	return len(m.cells)
}
