package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/stored"
	"weir/test/sqlserver"
)

func TestMain(m *testing.M) {
	if inlinetest.Child(func(dsn string) (stored.Backend, error) {
		return mysql.Open(mysql.Options{DSN: dsn, Connections: 8, Budget: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
	}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// A place is a database of its own, and thus new and empty.
type place struct {
	testing.TB
	dsn string
}

var places int

func newPlace(t testing.TB, s *sqlserver.Server) *place {
	t.Helper()
	places++
	name := fmt.Sprint("place", places)
	s.Admin(t, "CREATE DATABASE "+name, "GRANT ALL ON "+name+".* TO "+sqlserver.User+"@'%'")
	return &place{t, strings.TrimSuffix(s.URL, sqlserver.Database) + name}
}

func exec(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// open is a Backend whose tables are there.
func (p *place) open(o mysql.Options) *mysql.Backend {
	p.Helper()
	o.DSN, o.Create, o.Log = p.dsn, true, slog.New(slog.DiscardHandler)
	b, err := mysql.Open(o)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { b.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, _, err := b.Read(ctx, 0, nil); err != nil {
		p.Fatal(err)
	}
	return b
}

func TestABackend(t *testing.T) {
	s := sqlserver.MariaDB(t, "--default-time-zone=+05:30")
	inlinetest.RunBackend(t, func(t *testing.T) *inlinetest.BackendPlace {
		p := newPlace(t, s)
		return &inlinetest.BackendPlace{
			Open: func(t testing.TB) stored.Backend {
				return (&place{t, p.dsn}).open(mysql.Options{Connections: 8, Budget: 5 * time.Second})
			},
			Name:  p.dsn,
			Kill:  func() func() { s.Kill(); return s.Restart },
			Pause: s.Pause,
		}
	})
}

func schema(t testing.TB, from int) string {
	t.Helper()
	text, err := mysql.Schema(from)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
