// Package postgres keeps the cells of inline limits in PostgreSQL.
//
// A commit is one statement (commit.sql), which is prepared once a connection: it locks the cells that are there, takes
// the clock, compares, and writes all or nothing. If two processes insert the same cell at the same time, the statement
// of the second fails completely, and it reads what the first has written. A commit that changes nothing reads only.
//
// # What holds
//
// A statement that is not answered within its context goes on for at most Options.Budget, and PostgreSQL ends it by
// itself after that time (statement_timeout, lock_timeout). So a connection outlives a slow answer; one to a server
// that hangs is given up, and all when none has answered for a second. So is one to a server that is read-only:
// after a failover that is a standby, and the next connection may reach the new primary. A commit that did not begin
// before Commit.At+Slack changes nothing.
//
// How many commits a crash of the server may lose is its own configuration (fsync, synchronous_commit).
//
// # Tables
//
// schema.sql has them; a Backend makes them if it may. It deletes expired cells, tables.SweepPage at a time, and only one
// process does at a time: it has an advisory lock. Until then they only take up room.
//
// With Options.History there is also a table of attempts (schema_2.sql). A commit then has two further steps, which add
// and change its rows. Rows that are too old are deleted by their time, after the cells.
//
// A Backend has at most Options.Connections connections, one for the schema and the sweep, with a goroutine that Close
// waits for, and one for Add.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"weir/pkg/inline/stored"
	"weir/pkg/inline/tables"
)

// Options locate PostgreSQL.
type Options struct {
	// URL is postgres://host:5432/database, with the parameters of libpq: sslmode, sslrootcert and so on.
	URL  string
	User string // when not in the URL
	// ReadPassword returns the password for a new connection. Without it the password is that of the URL or of libpq's
	// environment.
	ReadPassword func() (string, error)
	Connections  int           // at most; 16 unless given
	Budget       time.Duration // that callers wait at most; 20 ms unless given
	Serializable bool          // every commit is a serializable transaction, instead of one that locks its cells
	Create       bool          // the tables, if they are missing
	History      time.Duration // that rows of attempts are kept; 0 for no history
	Log          *slog.Logger
}

// A Backend keeps cells in PostgreSQL.
type Backend struct {
	pool    *pgxpool.Pool
	adding  *pgxpool.Pool // of a connection, which is made when there are rows to add
	tables  *tables.Keeper
	silence tables.Silence
	upkeep  *pgx.ConnConfig
	before  func(context.Context, *pgx.ConnConfig) error // a connection is made; may be nil
	create  bool
	history time.Duration
	log     *slog.Logger
}

var _ stored.Backend = (*Backend)(nil)

// Open makes a Backend. It connects in the background: calls wait for it as long as their contexts allow.
func Open(o Options) (*Backend, error) {
	c, err := configOf(o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	own := c.Copy()
	own.ConnConfig, own.MaxConns, own.MinConns = upkeepOf(c), 1, 0
	adding, err := pgxpool.NewWithConfig(context.Background(), own)
	if err != nil {
		pool.Close()
		return nil, err
	}
	b := &Backend{
		pool: pool, adding: adding, upkeep: upkeepOf(c), before: c.BeforeConnect, create: o.Create, history: o.History,
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
	}
	b.tables = tables.Keep(b.look)
	return b, nil
}

// Check reports whether the server answers and has the tables. It waits for them as long as the context allows.
func (b *Backend) Check(ctx context.Context) error { return b.tables.Wait(ctx) }

// Close closes all connections.
func (b *Backend) Close() error {
	b.tables.Close()
	b.pool.Close()
	b.adding.Close()
	return nil
}

// CheckURL reports what is wrong with a URL for Options. It may not have a user or a password, which logs would show.
func CheckURL(text string) error {
	const write = "write it as postgres://host:5432/database"
	u, err := url.Parse(text)
	if strings.Contains(text, "@") || err == nil && (u.Query().Has("password") || u.Query().Has("user")) {
		return errors.New("the URL contains a user or password, which logs would show; set user and password_file next to it")
	}
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || len(u.Path) < 2 {
		return fmt.Errorf("%q is not the address of a database in PostgreSQL; %s", text, write)
	}
	return nil
}

// Plain returns a server that a URL reaches without TLS, if only after a try with it; empty for none.
func Plain(text string) (host string) {
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return ""
	}
	for _, one := range append(c.Fallbacks, &pgconn.FallbackConfig{Host: c.Host, TLSConfig: c.TLSConfig}) {
		if one.TLSConfig == nil && !strings.HasPrefix(one.Host, "/") {
			host = one.Host
		}
	}
	return host
}

func configOf(o Options) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of PostgreSQL: %w", err)
	}
	budget := cmp.Or(o.Budget, 20*time.Millisecond)
	c.MaxConns, c.MinConns = int32(cmp.Or(o.Connections, 16)), 1
	c.PingTimeout = budget
	own := c.ConnConfig
	if o.User != "" {
		own.User = o.User
	}
	own.ConnectTimeout = cmp.Or(own.ConnectTimeout, tables.Patience)
	isolation := "read committed"
	if o.Serializable {
		isolation = "serializable"
	}
	for name, value := range map[string]string{
		"default_transaction_isolation": isolation,
		"statement_timeout":             milliseconds(budget),
		"lock_timeout":                  milliseconds(budget),
		"application_name":              "weir",
		// The statements are prepared while the tables may be empty, and are used when they have grown.
		"plan_cache_mode": "force_generic_plan",
		"enable_seqscan":  "off",
		"jit":             "off",
	} {
		if _, given := own.RuntimeParams[name]; !given {
			own.RuntimeParams[name] = value
		}
	}
	own.MaxProtocolMessageBodyLen = tables.MostAnswer
	own.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) {
		return brief{tables.Bound(c), budget + time.Second}, nil
	}
	ends := own.OnPgError
	own.OnPgError = func(c *pgconn.PgConn, e *pgconn.PgError) bool { return e.Code != readOnly && ends(c, e) }
	own.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: budget}
	}
	if o.ReadPassword != nil {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) (err error) {
			c.Password, err = o.ReadPassword()
			return err
		}
	}
	return c, nil
}

// A brief connection waits not long for a server that does not answer any more. The driver waits 15 s before it closes
// such a connection, which has its place in the pool meanwhile.
type brief struct {
	net.Conn
	most time.Duration
}

func (b brief) SetDeadline(t time.Time) error {
	if most := time.Now().Add(b.most); t.After(most) {
		t = most
	}
	return b.Conn.SetDeadline(t)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

// heard notes whether the server has answered a call.
func (b *Backend) heard(err error) {
	if err == nil || codeOf(err) != "" {
		b.silence.Answered()
	} else if b.silence.Unanswered() {
		b.pool.Reset()
	}
}

// codeOf is the SQLSTATE of an error, or empty.
func codeOf(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}
