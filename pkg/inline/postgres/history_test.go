package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/sqlserver"
	"weir/test/wait"
)

func TestAHistory(t *testing.T) {
	s := sqlserver.Postgres(t)
	inlinetest.RunHistory(t, func(t *testing.T) *inlinetest.HistoryPlace {
		p := newPlace(t, s)
		return &inlinetest.HistoryPlace{
			BackendPlace: inlinetest.BackendPlace{
				Open: func(t testing.TB) stored.Backend {
					return (&place{t, p.url}).open(postgres.Options{Connections: 8, Budget: time.Second, History: time.Hour})
				},
				Kill: func() func() { s.Kill(); return s.Restart },
			},
			Rows: func(t testing.TB) []inlinetest.Row { return rows(t, p.url) },
		}
	})
}

// rows are those of the history.
func rows(t testing.TB, url string) (all []inlinetest.Row) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	found, err := c.Query(ctx, "SELECT id, rule, key, part, at, cost, verdict, limit_text, remaining, COALESCE(store, ''), settled, settled_at FROM weir_inline_history")
	if err != nil {
		t.Fatal(err)
	}
	var r inlinetest.Row
	var id [16]byte
	var at time.Time
	var settledAt *time.Time
	_, err = pgx.ForEachRow(found, []any{&id, &r.Rule, &r.Key, &r.Part, &at, &r.Cost, &r.Verdict, &r.Limit, &r.Remaining, &r.Store, &r.Settled, &settledAt}, func() error {
		one := r
		if one.ID, one.At = id, at.UnixMilli(); settledAt != nil {
			one.Settled, one.SettledAt = new(*r.Settled), settledAt.UnixMilli()
		}
		all = append(all, one)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// hour is a Backend with a history of an hour, whose commits may take long.
func (p *place) hour() *postgres.Backend {
	return p.open(postgres.Options{History: time.Hour, Budget: time.Minute})
}

// A history that is locked ends a commit after its budget, and nothing of it is done. Commits that write no row, as of
// attempts that are refused, do not wait; rows that are added wait by themselves.
func TestALockedHistory(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	b := p.open(postgres.Options{History: time.Hour, Budget: 200 * time.Millisecond, Connections: 1})
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE weir_inline_history IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	row := stored.Attempt{ID: inline.ID{1}, Rule: "quota", Key: "a", At: time.Now().UnixMilli(), Cost: 1, Verdict: "admitted", Limit: "5/min"}
	added := make(chan error, 1)
	go func() {
		other := row
		other.ID, other.Verdict = inline.ID{2}, "refused"
		added <- b.Add(ctx, []stored.Attempt{other})
	}()
	with := func(change stored.Change) error {
		_, now, err := b.Read(ctx, 0, nil)
		if err != nil {
			return err
		}
		r, err := b.Commit(ctx, &stored.Commit{At: now, Slack: time.Minute.Microseconds(), Changes: []stored.Change{change}, Attempts: []stored.Attempt{row}})
		if err == nil && !r.Done {
			t.Errorf("%+v", r)
		}
		return err
	}
	for range 3 {
		if err := with(set("a", 0, 1)); err == nil || !strings.Contains(err.Error(), "timeout") {
			t.Errorf("a row is written to a table that is locked: %v", err)
		}
	}
	if r, err := commit(b, time.Minute, stored.Change{Name: "a"}); err != nil || !r.Done {
		t.Errorf("a commit without rows: %+v, %v", r, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Error(err)
	}
	wait.Until(t, "the commit is done", func() bool { return with(set("a", 0, 1)) == nil })
	if all := rows(t, p.url); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}

// Rows that are older than the history are deleted, and no others.
func TestRetention(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	b := p.hour()
	run(t, p.url, `INSERT INTO weir_inline_history (at, id, rule, key, part, cost, verdict, limit_text, remaining)
		SELECT clock_timestamp() - n * interval '1 second', gen_random_uuid(), 'quota', 'a', 0, 1, 'admitted', '5/min', 0 FROM generate_series(1, 9000) n`)
	sweep(t, b, func() bool { return query[int](t, p.url, "SELECT count(*) FROM weir_inline_history") < 4000 })
	if n := query[int](t, p.url, "SELECT count(*) FROM weir_inline_history"); n < 3500 || n > 3599 {
		t.Errorf("%d rows are left of an hour", n)
	}
	if n := query[int](t, p.url, "SELECT count(*) FROM weir_inline_history WHERE at < clock_timestamp() - interval '1 hour 1 minute'"); n != 0 {
		t.Errorf("%d rows are too old", n)
	}
}

// Tables of version 1 are enough without a history. One that is turned on brings them to version 2, or says what to run.
func TestTablesWithoutHistory(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	run(t, p.url, strings.Replace(schema(t, 0), schema(t, 1), "", 1))
	version := "SELECT version FROM weir_inline_schema"
	p.open(postgres.Options{})
	if n := query[int](t, p.url, version); n != 1 {
		t.Errorf("without a history they have version %d", n)
	}

	b, err := postgres.Open(postgres.Options{URL: p.url, History: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wait.Until(t, "it says what to run", func() bool {
		within, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		err := b.Check(within)
		return err != nil && strings.Contains(err.Error(), "weir inline schema postgres --from 1 | psql")
	})
	p.hour()
	if n := query[int](t, p.url, version); n != 2 {
		t.Errorf("with a history they have version %d", n)
	}
	wait.Until(t, "the others find them", func() bool { return b.Check(ctx) == nil })
	if _, err := postgres.Schema(2); err == nil {
		t.Error("there is no change of the newest version")
	}
}

// Missing tables, and those that were never made, are made again, also by hand.
func TestSomeTables(t *testing.T) {
	s := sqlserver.Postgres(t)
	row := []stored.Attempt{{ID: inline.ID{1}, Rule: "quota", Key: "a", At: 1_795_000_000_000, Cost: 1, Verdict: "refused"}}
	for _, drop := range []string{
		"DROP TABLE weir_inline_history",
		"DROP VIEW weir_inline_keys, weir_inline_attempts; DROP TABLE weir_inline_cells",
		"DROP VIEW weir_inline_keys; DROP TABLE weir_inline_schema, weir_inline_history",
		"DELETE FROM weir_inline_schema",
	} {
		p := newPlace(t, s)
		b := p.hour()
		run(t, p.url, drop)
		counts := func() bool {
			within, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _, err := b.Read(within, 0, []string{"krule\x00a"})
			return err == nil && b.Add(within, row) == nil
		}
		wait.Until(t, "they count again after "+drop, counts)
		p.hour()
		if n := query[int](t, p.url, "SELECT SUM(version) FROM weir_inline_schema"); n != 2 {
			t.Errorf("after %s they have version %d", drop, n)
		}

		run(t, p.url, drop)
		run(t, p.url, schema(t, 0))
		wait.Until(t, "they count again by hand after "+drop, counts)
	}
}

// A database that cannot have all keys as texts has no history.
func TestAnEncoding(t *testing.T) {
	s := sqlserver.Postgres(t)
	s.Admin(t, "CREATE DATABASE latin1 OWNER weir ENCODING 'LATIN1' TEMPLATE template0")
	b, err := postgres.Open(postgres.Options{URL: strings.Replace(s.URL, "/"+sqlserver.Database, "/latin1", 1), Create: true, History: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wait.Until(t, "it says why", func() bool {
		within, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		err := b.Check(within)
		return err != nil && strings.Contains(err.Error(), "UTF8")
	})
}

// These rights are enough for the history, as the documentation says.
func TestLeastRightsOfTheHistory(t *testing.T) {
	s := sqlserver.Postgres(t)
	p := newPlace(t, s)
	run(t, p.url, schema(t, 0))
	name := p.url[strings.LastIndex(p.url, "=")+1:]
	s.Admin(t, "CREATE ROLE least LOGIN PASSWORD 'secret'", "GRANT USAGE ON SCHEMA "+name+" TO least",
		"GRANT SELECT ON "+name+".weir_inline_schema TO least",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".weir_inline_cells, "+name+".weir_inline_history TO least")
	b, err := postgres.Open(postgres.Options{
		URL: "postgres://" + s.Addr + "/" + sqlserver.Database + "?search_path=" + name, User: "least", Budget: time.Minute,
		ReadPassword: func() (string, error) { return "secret", nil }, History: time.Hour, Create: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	find := inlinetest.Rules{inlinetest.NewRule(t, "quota", window.Sliding, window.Limit{Hits: 5, Per: time.Hour})}
	store := stored.New(stored.Config{Backend: b, History: true, Rule: find.Find})
	defer store.Close()
	var v inline.Verdict
	if err := store.Take(ctx, &v, []inline.Want{{Rule: find[0], Key: []byte("a"), Cost: 1}}); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(store.Settle(ctx, v.Attempt, 0), b.Add(ctx, []stored.Attempt{{ID: inline.ID{1}, Verdict: "refused", At: 1_000_000_000_000}}))
	if err != nil {
		t.Error(err)
	}
	sweep(t, b, func() bool { return len(rows(t, p.url)) == 1 })
	if all := rows(t, p.url); all[0].Settled == nil {
		t.Errorf("%+v", all)
	}
}

// sweep sweeps until it is done: at its start a Backend sweeps by itself, and only one does at a time.
func sweep(t *testing.T, b *postgres.Backend, done func() bool) {
	t.Helper()
	wait.Until(t, "it is swept", func() bool {
		if err := b.SweepNow(ctx); err != nil {
			t.Fatal(err)
		}
		return done()
	})
}
