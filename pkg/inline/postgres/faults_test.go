package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/sqlserver"
	"weir/test/wait"
)

var ctx = context.Background()

// commit commits a change of cells at the database's time, within a budget.
func commit(b *postgres.Backend, budget time.Duration, changes ...stored.Change) (stored.Result, error) {
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	_, now, err := b.Read(within, 0, nil)
	if err != nil {
		return stored.Result{}, err
	}
	return b.Commit(within, &stored.Commit{At: now, Slack: time.Minute.Microseconds(), Changes: changes})
}

func set(name string, decided, next uint64) stored.Change {
	return stored.Change{Name: name, Decided: decided, Next: next, State: []byte(name), Expires: window.MaxTime}
}

func query[T any](t testing.TB, url, statement string, args ...any) (v T) {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, statement, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}

// A commit waits for a locked cell no longer than its budget, and the connection outlives that.
func TestALockedCell(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	b := p.open(postgres.Options{Connections: 1, Budget: 50 * time.Millisecond})
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Fatal(r, err)
	}
	began := "SELECT max(backend_start)::text FROM pg_stat_activity WHERE application_name = 'weir'"
	before := query[string](t, p.url, began)

	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT FROM weir_inline_cells FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := commit(b, 50*time.Millisecond, set("a", 1, 2)); err == nil {
			t.Errorf("a locked cell is changed: %+v", r)
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err := commit(b, time.Minute, set("a", 1, 3)); err != nil || !r.Done {
		t.Errorf("what was given up has counted: %+v, %v", r, err)
	}
	if after := query[string](t, p.url, began); after > before { // the connection that made the tables may have ended
		t.Errorf("the last connection was of %s; now there is one of %s", before, after)
	}
}

// A connection to a server that has become a standby is given up, so that the next one reaches the new primary.
func TestAServerThatIsReadOnly(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	p.open(postgres.Options{}).Close()
	run(t, p.url, "ALTER ROLE "+sqlserver.User+" SET default_transaction_read_only = on")
	b := p.open(postgres.Options{Connections: 1, Budget: time.Second})
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("%+v, %v", r, err)
	}
	run(t, p.url+"&default_transaction_read_only=off", "ALTER ROLE "+sqlserver.User+" RESET default_transaction_read_only")
	wait.Until(t, "a connection that can write", func() bool {
		r, err := commit(b, time.Minute, set("a", 0, 1))
		return err == nil && r.Done
	})
}

// When all connections are busy, a call fails with its own context.
func TestAllConnectionsAreBusy(t *testing.T) {
	s := sqlserver.Postgres(t)
	b := newPlace(t, s).open(postgres.Options{Connections: 2, Budget: time.Second})
	resume := s.Pause()
	defer resume()
	var running sync.WaitGroup
	for i := range 2 {
		running.Go(func() { _, _, _ = b.Read(ctx, 0, []string{fmt.Sprint(i)}) })
	}
	wait.Until(t, "a call finds no connection", func() bool {
		within, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		_, err := b.Commit(within, &stored.Commit{Changes: []stored.Change{set("a", 0, 1)}})
		return errors.Is(err, context.DeadlineExceeded)
	})
	resume()
	running.Wait()
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
}

// Transactions that PostgreSQL ends for the sake of others are tried again: serialization failures and deadlocks.
func TestConflicts(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t, "deadlock_timeout=10ms"))
	for _, code := range []string{"40001", "40P01"} {
		b := p.open(postgres.Options{Serializable: true, Budget: time.Minute})
		// The first three updates of a cell fail.
		run(t, p.url, `CREATE SEQUENCE tries;
			CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'forced' USING ERRCODE = '`+code+`'; END IF;
				RETURN NEW;
			END $$;
			CREATE TRIGGER conflict BEFORE INSERT ON weir_inline_cells FOR EACH ROW EXECUTE FUNCTION conflict()`)
		if r, err := commit(b, time.Minute, set("forced "+code, 0, 1)); err != nil || !r.Done {
			t.Errorf("%s: %+v, %v", code, r, err)
		}
		if tries := query[int](t, p.url, "SELECT last_value FROM tries"); tries != 4 {
			t.Errorf("%s: tried %d times", code, tries)
		}
		run(t, p.url, `CREATE OR REPLACE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'forced' USING ERRCODE = '`+code+`'; END $$`)
		if _, err := commit(b, time.Minute, set("never "+code, 0, 1)); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%s without end: %v", code, err)
		}
		run(t, p.url, "DROP TRIGGER conflict ON weir_inline_cells; DROP FUNCTION conflict; DROP SEQUENCE tries")
	}
}

// Cells that have expired are deleted, and no others.
func TestSweep(t *testing.T) {
	p := newPlace(t, sqlserver.Postgres(t))
	b := p.open(postgres.Options{})
	run(t, p.url, `INSERT INTO weir_inline_cells
		SELECT convert_to('cell' || n, 'UTF8'), 1, '', CASE WHEN n % 3 = 0 THEN $1::bigint ELSE 1000 END FROM generate_series(1, 5000) n`, window.MaxTime)
	for range 2 {
		if err := b.SweepNow(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, p.url, "SELECT count(*) FROM weir_inline_cells WHERE expires > 1000"); n != 1666 {
		t.Errorf("%d cells are left of 1666", n)
	}
	if n := query[int](t, p.url, "SELECT count(*) FROM weir_inline_cells WHERE expires <= 1000"); n != 0 {
		t.Errorf("%d cells have expired and are left", n)
	}
}

// The tables are made by one of many processes, or by hand; without them a Backend says what to run.
func TestTables(t *testing.T) {
	s := sqlserver.Postgres(t)
	p := newPlace(t, s)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() { p.open(postgres.Options{Budget: time.Minute}) })
	}
	running.Wait()
	if n := query[int](t, p.url, "SELECT count(*) FROM weir_inline_schema"); n != 1 {
		t.Errorf("there are %d versions", n)
	}
	run(t, p.url, "UPDATE weir_inline_schema SET version = 1000")
	failsWith(t, p.url, "newer Weir")

	byHand := newPlace(t, s)
	failsWith(t, byHand.url, "weir inline schema postgres")
	b, err := postgres.Open(postgres.Options{URL: byHand.url, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	run(t, byHand.url, schema(t, 0))
	wait.Until(t, "the tables are found", func() bool { return b.Check(ctx) == nil })
	if r, err := commit(b, time.Minute, set("krule\x00k\xe4y", 0, 1), set("a0123456789abcdef", 0, 2)); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	if got := query[string](t, byHand.url, "SELECT rule || ' ' || key FROM weir_inline_keys"); got != `rule k\344y` {
		t.Error(got)
	}
	if got := query[string](t, byHand.url, "SELECT id FROM weir_inline_attempts"); got != "30313233343536373839616263646566" {
		t.Error(got)
	}

	run(t, byHand.url, "DROP VIEW weir_inline_keys, weir_inline_attempts; DROP TABLE weir_inline_cells, weir_inline_schema")
	if r, err := commit(b, time.Second, set("a", 0, 1)); err == nil {
		t.Errorf("there are no tables: %+v", r)
	}
	run(t, byHand.url, schema(t, 0))
	wait.Until(t, "the new tables are found", func() bool { return b.Check(ctx) == nil })
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Errorf("after they were made again: %+v, %v", r, err)
	}
}

func failsWith(t *testing.T, url, words string) {
	t.Helper()
	b, err := postgres.Open(postgres.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	wait.Until(t, "the reason is "+words, func() bool {
		within, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, _, err := b.Read(within, 0, nil)
		return err != nil && !errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), words)
	})
}

// These rights are enough where the tables are there, as the documentation says. The connection has TLS.
func TestLeastRights(t *testing.T) {
	s := sqlserver.Postgres(t)
	p := newPlace(t, s)
	run(t, p.url, schema(t, 0))
	schema := p.url[strings.LastIndex(p.url, "=")+1:]
	s.Admin(t, "CREATE ROLE least LOGIN PASSWORD 'secret'", "GRANT USAGE ON SCHEMA "+schema+" TO least",
		"GRANT SELECT ON "+schema+".weir_inline_schema TO least",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+schema+".weir_inline_cells TO least")
	b, err := postgres.Open(postgres.Options{
		URL: "postgres://" + s.Addr + "/" + sqlserver.Database + "?search_path=" + schema + "&sslmode=verify-full&sslrootcert=" + s.CA, User: "least",
		ReadPassword: func() (string, error) { return "secret", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	if err := b.SweepNow(ctx); err != nil {
		t.Error(err)
	}
	if n := query[int](t, s.AdminURL(), "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'least' AND ssl"); n == 0 {
		t.Error("no connection has TLS")
	}
}

// After a failover to another machine, the connections to the lost one do not cost a call each.
func TestConnectionsToALostServer(t *testing.T) {
	s := sqlserver.Postgres(t)
	p := newPlace(t, s)
	relay := inlinetest.NewRelay(t, s.Addr)
	p.url = strings.Replace(p.url, s.Addr, relay.Addr, 1)
	inlinetest.LosesConnections(t, p.open(postgres.Options{Connections: 8, Budget: 50 * time.Millisecond}), relay, 8, s.Pause)
}
