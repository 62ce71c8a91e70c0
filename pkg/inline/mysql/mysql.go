// Package mysql keeps the cells of inline limits in MariaDB or MySQL.
//
// A commit is one request of several statements: a short transaction that locks the cells that have to be there, takes
// the clock, compares, and writes if all is as it was decided on. No lock waits for this process: the transaction ends on
// the server, also if the process stops. The row of a key that has none is inserted before, empty and expired, so that
// processes that make a key at the same time lock the same row. A commit that changes nothing reads only.
//
// # What holds
//
// A statement that is not answered within its context goes on for at most Options.Budget. MariaDB ends a statement
// by itself after that time (max_statement_time); MySQL knows that only of reading, and ends the waiting for a lock
// after a second. So with MariaDB a connection outlives a slow answer. All are given up when none has answered for a
// second. A commit that gets its locks after Commit.At+Slack changes nothing. Times are UTC, whatever the time zone
// of the server.
//
// How many commits a crash of the server may lose is its own configuration (innodb_flush_log_at_trx_commit).
//
// # Tables
//
// schema.sql has them; a Backend makes them if it may. It deletes expired cells, tables.SweepPage at a time, and only one
// process does at a time: it has a lock of GET_LOCK. Until then they only take up room.
//
// With Options.History there is also a table of attempts (schema_2.sql). The transaction of a commit then also adds and
// changes its rows. Rows that are too old are deleted by their time, after the cells.
//
// A Backend has at most Options.Connections connections, one for the schema and the sweep, with a goroutine that Close
// waits for, and one for Add.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"weir/pkg/inline/stored"
	"weir/pkg/inline/tables"
)

// Options locate the server.
type Options struct {
	// DSN is user@tcp(host:3306)/database, with the parameters of go-sql-driver, as tls=true.
	DSN  string
	User string // when not in the DSN
	// ReadPassword returns the password for a new connection. Without it the password is that of the DSN.
	ReadPassword func() (string, error)
	Connections  int           // at most; 16 unless given
	Budget       time.Duration // that callers wait at most; 20 ms unless given
	Create       bool          // the tables, if they are missing
	History      time.Duration // that rows of attempts are kept; 0 for no history
	Log          *slog.Logger
}

// A Backend keeps cells in MariaDB or MySQL.
type Backend struct {
	db      *sql.DB
	dials   *connector
	upkeep  *sql.DB
	tables  *tables.Keeper
	silence tables.Silence
	most    int // connections
	budget  time.Duration
	create  bool
	history time.Duration
	log     *slog.Logger
}

var _ stored.Backend = (*Backend)(nil)

func init() { _ = driver.SetLogger(silent{}) }

// silent drops the driver's log: its calls return the same errors.
type silent struct{}

func (silent) Print(...any) {}

// Open makes a Backend. It connects in the background: calls wait for it as long as their contexts allow.
func Open(o Options) (*Backend, error) {
	budget, connections := cmp.Or(o.Budget, 20*time.Millisecond), cmp.Or(o.Connections, 16)
	work, err := connectorOf(o, budget)
	if err != nil {
		return nil, err
	}
	alone, err := connectorOf(o, upkeepTimeout)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		dials: newConnector(work, connections), upkeep: sql.OpenDB(alone), most: connections, budget: budget, create: o.Create,
		history: o.History, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}
	b.db = sql.OpenDB(b.dials)
	b.db.SetMaxOpenConns(connections)
	b.db.SetMaxIdleConns(connections)
	b.db.SetConnMaxLifetime(time.Hour)
	b.upkeep.SetMaxOpenConns(2) // for the tables, and for Add
	b.upkeep.SetMaxIdleConns(2)
	b.tables = tables.Keep(b.look)
	return b, nil
}

// Check reports whether the server answers and has the tables. It waits for them as long as the context allows.
func (b *Backend) Check(ctx context.Context) error { return b.tables.Wait(ctx) }

// Close closes all connections.
func (b *Backend) Close() error {
	b.tables.Close()
	err := errors.Join(b.db.Close(), b.upkeep.Close())
	b.dials.close()
	return err
}

// CheckDSN reports what is wrong with a DSN for Options. It may not have a user or a password, which logs would show.
func CheckDSN(text string) error {
	if strings.Contains(text, "@") {
		return errors.New("the DSN contains a user or password, which logs would show; set user and password_file next to it")
	}
	if c, err := driver.ParseDSN(text); err != nil || c.DBName == "" {
		return fmt.Errorf("%q is not the address of a database in MySQL; write it as tcp(host:3306)/database", text)
	}
	return nil
}

// Plain returns the server that a DSN reaches without TLS, if only when it has none; empty for none.
func Plain(text string) string {
	c, err := driver.ParseDSN(text)
	if err != nil || c.Net != "tcp" || c.TLS != nil && !c.AllowFallbackToPlaintext {
		return ""
	}
	return c.Addr
}

// connectorOf makes connections whose statements end after a time.
func connectorOf(o Options, most time.Duration) (*session, error) {
	c, err := driver.ParseDSN(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("the DSN of MySQL: %w", err)
	}
	if c.DBName == "" {
		return nil, errors.New("the DSN of MySQL names no database: write user@tcp(host:3306)/database")
	}
	c.MultiStatements, c.InterpolateParams, c.ParseTime = true, true, false
	c.Timeout = cmp.Or(c.Timeout, tables.Patience)
	compressed := strings.Contains(c.FormatDSN(), "compress=true")
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address, compressed)
	}
	if o.User != "" {
		c.User = o.User
	}
	if o.ReadPassword != nil {
		err = c.Apply(driver.BeforeConnect(func(_ context.Context, c *driver.Config) (err error) {
			c.Passwd, err = o.ReadPassword()
			return err
		}))
		if err != nil {
			return nil, err
		}
	}
	inner, err := driver.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return &session{Connector: inner, most: most}, nil
}

const (
	duplicateEntry  = 1062
	lockWaitTimeout = 1205
	deadlock        = 1213
	recordChanged   = 1020 // MariaDB's, with innodb_snapshot_isolation
	noSuchTable     = 1146

	readOnlyServer      = 1290
	readOnlyTransaction = 1792
	readOnlyMode        = 1836
	notReady            = 1047 // a node of Galera without its cluster
)

// isConflict reports whether the server ended a statement for the sake of another.
func isConflict(err error) bool {
	switch codeOf(err) {
	case duplicateEntry, lockWaitTimeout, deadlock, recordChanged:
		return true
	}
	return false
}

// heard notes whether the server has answered a call.
func (b *Backend) heard(err error) {
	if err == nil || codeOf(err) != 0 || errors.Is(err, errMoving) {
		b.silence.Answered()
	} else if b.silence.Unanswered() {
		b.db.SetMaxIdleConns(-1) // closes those that are idle
		b.dials.drop()
		b.db.SetMaxIdleConns(b.most)
	}
}

func codeOf(err error) uint16 {
	if e := (*driver.MySQLError)(nil); errors.As(err, &e) {
		return e.Number
	}
	return 0
}
