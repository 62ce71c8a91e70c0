package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/store/redis"
	"weir/pkg/enforcer"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
	inlineredis "weir/pkg/inline/redis"
	"weir/pkg/inline/stored"
)

// inlinePatience is how long a start waits for the store of inline rules.
const inlinePatience = 2 * time.Second

// An inlineBackend is a database for inline rules.
type inlineBackend interface {
	stored.Backend
	io.Closer
	// Check reports whether the database can be used.
	Check(ctx context.Context) error
}

// openInlineBackend opens the database for inline rules that is configured.
func openInlineBackend(c *config.Config, log *slog.Logger) (inlineBackend, error) {
	switch s := &c.Inline.Store; {
	case s.Postgres != "":
		return postgres.Open(InlinePostgresOptions(c, log))
	case s.MySQL != "":
		return mysql.Open(InlineMySQLOptions(c, log))
	}
	options, err := InlineRedisOptions(c)
	if err != nil {
		return nil, err
	}
	if c.Inline.Store.SortedSets() {
		return inlineredis.OpenSorted(options)
	}
	return inlineredis.Open(options)
}

// InlinePostgresOptions returns the options for the PostgreSQL that counts inline rules.
func InlinePostgresOptions(c *config.Config, log *slog.Logger) postgres.Options {
	s := &c.Inline.Store
	return postgres.Options{
		URL: s.Postgres, User: s.User, ReadPassword: inlinePassword(s), Connections: s.Connections, Budget: time.Duration(c.Inline.Budget),
		Serializable: s.Serializable(), Create: s.Create, History: time.Duration(c.Inline.History), Log: log,
	}
}

// InlineMySQLOptions returns the options for the MySQL that counts inline rules.
func InlineMySQLOptions(c *config.Config, log *slog.Logger) mysql.Options {
	s := &c.Inline.Store
	return mysql.Options{
		DSN: s.MySQL, User: s.User, ReadPassword: inlinePassword(s), Connections: s.Connections, Budget: time.Duration(c.Inline.Budget),
		Create: s.Create, History: time.Duration(c.Inline.History), Log: log,
	}
}

// inlinePassword reads the password for each connection, so that it may change; nil without a file.
func inlinePassword(s *config.InlineStore) func() (string, error) {
	if s.PasswordFile == "" {
		return nil
	}
	return func() (string, error) { return passwordIn(s.PasswordFile) }
}

// openInlineStore opens the store that enforcers share for inline rules; nil where they count in memory. A Redis that would
// lose counts is refused. A database that does not answer is not waited for: until it does, the rules' on_error decides.
func (r *RunningEnforcer) openInlineStore(ctx context.Context) (*enforcer.InlineStore, error) {
	c := r.process.Config
	if c.Inline.Store.Name() == "" {
		return nil, nil
	}
	backend, err := openInlineBackend(c, r.process.Logger)
	if err != nil {
		return nil, err
	}
	r.inline = backend

	ctx, cancel := context.WithTimeout(ctx, inlinePatience)
	defer cancel()
	if err := backend.Check(ctx); errors.Is(err, redis.ErrEvicts) {
		return nil, err
	} else if err != nil {
		r.process.Logger.Warn("the store of inline rules does not answer; the rules' on_error decides until it does", "error", err)
	}
	own := &enforcer.InlineStore{Backend: backend, Name: c.Inline.Store.Name(), Budget: time.Duration(c.Inline.Budget), Enforcers: c.Inline.Enforcers}
	if history, ok := backend.(stored.History); ok && c.Inline.History > 0 {
		own.History = history
	}
	return own, nil
}

func (r *RunningEnforcer) closeInlineStore() error {
	if r.inline == nil {
		return nil
	}
	return r.inline.Close()
}
