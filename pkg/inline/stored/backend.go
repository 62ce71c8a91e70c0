package stored

import (
	"context"
	"slices"
)

// A Backend keeps cells, and changes several of them as one step if none has moved. It knows nothing of limits, and
// keeps no state of its own but connections. Any number of goroutines, and of processes, use one database.
//
// Names are any bytes, at most MaxName of them, and each is of one Group only. The cells of a Group have to be in one
// place, such as a slot of a Redis Cluster; a database that has all of its cells in one place need not look at it.
//
// A cell whose time has come is as if it were not there, by the database's clock, also if it still takes up room.
type Backend interface {
	// Commit does all changes, if each cell has the version that was decided on and the database's clock is from At to
	// At+Slack. Otherwise it does none, and returns the present cells. It tries once, and returns when the context is
	// over, because a request waits for it. After an error the changes may have been done.
	Commit(ctx context.Context, c *Commit) (Result, error)
	// Read returns the cells of a group, in the order of their names, and the database's time.
	Read(ctx context.Context, group uint16, names []string) (cells []Cell, now int64, err error)
}

// MaxName is the longest name of a cell in bytes.
const MaxName = 512

// A Cell is some bytes, and their version: a number that no other contents of the cell have had. 0 is no cell.
type Cell struct {
	Version uint64
	State   []byte
}

// A Commit is changes that are one step. It is valid until Commit returns.
type Commit struct {
	Group   uint16
	At      int64 // microseconds since 1970: the database's time, as far as the caller knows
	Slack   int64 // microseconds
	Changes []Change
	Longest int64 // milliseconds: an attempt that is older counts at no limit

	// A Backend that is a History or a Lister does these with the changes, or not at all.
	Attempts    []Attempt
	Settlements []Settlement
}

// Writes reports whether the commit writes anything, or only asks whether the cells are as was decided on.
func (c *Commit) Writes() bool {
	return len(c.Attempts) > 0 || len(c.Settlements) > 0 || slices.ContainsFunc(c.Changes, func(change Change) bool { return change.Next != 0 })
}

// A Change of one cell.
type Change struct {
	Name    string
	Decided uint64 // the version that the cell must have; 0 if there must be none
	Next    uint64 // the version afterwards; 0 changes nothing
	State   []byte
	Expires int64 // milliseconds since 1970; a cell that expires at or before the database's time is removed
}

// A Result is what a Commit did.
type Result struct {
	Done  bool
	Now   int64  // the database's time in microseconds
	Cells []Cell // if not Done the present cells of all changes, in their order
}

// Checked is the result of a Commit that changes nothing, by the present cells of its changes and the database's time.
func (c *Commit) Checked(cells []Cell, now int64) Result {
	r := Result{Done: c.At <= now && now <= c.At+c.Slack, Now: now, Cells: cells}
	for i := range c.Changes {
		r.Done = r.Done && cells[i].Version == c.Changes[i].Decided
	}
	return r
}
