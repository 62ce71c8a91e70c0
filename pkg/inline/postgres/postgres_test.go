package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
	"weir/test/real"
	"weir/test/sqlserver"
)

func TestMain(m *testing.M) {
	if inlinetest.Child(func(url string) (stored.Backend, error) {
		return postgres.Open(postgres.Options{URL: url, Connections: 8, Budget: 5 * time.Second, Log: slog.New(slog.DiscardHandler)})
	}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// A place is a schema of its own, and thus new and empty.
type place struct {
	testing.TB
	url string
}

var places int

func newPlace(t testing.TB, s *sqlserver.Server) *place {
	t.Helper()
	places++
	schema := fmt.Sprint("place", places)
	run(t, s.URL, "CREATE SCHEMA "+schema)
	return &place{t, s.URL + "?search_path=" + schema}
}

func run(t testing.TB, url, statement string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(context.Background(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// open is a Backend whose tables are there.
func (p *place) open(o postgres.Options) *postgres.Backend {
	p.Helper()
	o.URL, o.Create, o.Log = p.url, true, slog.New(slog.DiscardHandler)
	b, err := postgres.Open(o)
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

func TestABackend(t *testing.T) { runBackend(t, false) }

func TestASerializableBackend(t *testing.T) {
	real.Long(t)
	runBackend(t, true)
}

func runBackend(t *testing.T, serializable bool) {
	s := sqlserver.Postgres(t)
	inlinetest.RunBackend(t, func(t *testing.T) *inlinetest.BackendPlace {
		p := newPlace(t, s)
		return &inlinetest.BackendPlace{
			Open: func(t testing.TB) stored.Backend {
				return (&place{t, p.url}).open(postgres.Options{Serializable: serializable, Connections: 8, Budget: 5 * time.Second})
			},
			Name:  p.url,
			Kill:  func() func() { s.Kill(); return s.Restart },
			Pause: s.Pause,
			Brief: serializable,
		}
	})
}

func schema(t testing.TB, from int) string {
	t.Helper()
	text, err := postgres.Schema(from)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
