package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/sqlserver"
	"weir/test/wait"
)

var ctx = context.Background()

// commit commits a change of cells at the database's time, within a budget.
func commit(b *mysql.Backend, budget time.Duration, changes ...stored.Change) (stored.Result, error) {
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

func query[T any](t testing.TB, dsn, statement string) (v T) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, statement).Scan(&v); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return v
}

// A connection to a server that has become a replica is given up, so that the next one reaches the new primary.
func TestAServerThatIsReadOnly(t *testing.T) {
	s := sqlserver.MariaDB(t)
	p := newPlace(t, s)
	b := p.open(mysql.Options{Connections: 1, Budget: time.Second, History: time.Hour})
	last := query[int](t, p.dsn, "SELECT CONNECTION_ID()")
	s.Admin(t, "SET GLOBAL read_only = 1")
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := b.Add(ctx, []stored.Attempt{{}}); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("rows of attempts: %v", err)
	}
	wait.Until(t, "the connections are others", func() bool {
		_, _ = commit(b, time.Minute, set("a", 0, 1))
		left := fmt.Sprintf("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '%s' AND ID < %d", sqlserver.User, last)
		return query[int](t, p.dsn, left) == 0
	})
	s.Admin(t, "SET GLOBAL read_only = 0")
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
}

// A commit waits for a locked cell no longer than its budget, and the connection outlives that.
func TestALockedCell(t *testing.T) {
	p := newPlace(t, sqlserver.MariaDB(t))
	b := p.open(mysql.Options{Connections: 1, Budget: 50 * time.Millisecond})
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Fatal(r, err)
	}
	own := "SELECT GROUP_CONCAT(ID ORDER BY ID) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
	before := query[string](t, p.dsn, own)

	db, err := sql.Open("mysql", p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE weir_inline_cells SET expires = 0"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := commit(b, 50*time.Millisecond, set("a", 1, 2)); err == nil {
			t.Errorf("a locked cell is changed: %+v", r)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if r, err := commit(b, time.Minute, set("a", 1, 3)); err != nil || !r.Done {
		t.Errorf("what was given up has counted: %+v, %v", r, err)
	}
	wait.Until(t, "the connections are those from before: "+before, func() bool { return query[string](t, p.dsn, own) == before })
}

// When all connections are busy, a call fails with its own context.
func TestAllConnectionsAreBusy(t *testing.T) {
	s := sqlserver.MariaDB(t)
	b := newPlace(t, s).open(mysql.Options{Connections: 2, Budget: time.Second})
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

// Transactions that the server ends for the sake of others are tried again.
func TestConflicts(t *testing.T) {
	p := newPlace(t, sqlserver.MariaDB(t))
	b := p.open(mysql.Options{Budget: time.Minute})
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Fatal(r, err)
	}
	// The trigger counts in a table that forgets nothing when a transaction is undone.
	exec(t, p.dsn, "CREATE TABLE tries (n int) ENGINE = MyISAM")
	version := uint64(1)
	for _, code := range []int{1213, 1205, 1020} {
		for _, times := range []int{3, 1000} {
			exec(t, p.dsn, "DELETE FROM tries", fmt.Sprintf(`CREATE TRIGGER conflict BEFORE UPDATE ON weir_inline_cells FOR EACH ROW BEGIN
				INSERT INTO tries VALUES (1);
				IF (SELECT COUNT(*) FROM tries) <= %d THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'forced'; END IF;
			END`, times, code))
			r, err := commit(b, time.Minute, set("a", version, version+1))
			switch tries := query[int](t, p.dsn, "SELECT COUNT(*) FROM tries"); {
			case times == 3 && (err != nil || !r.Done || tries != 4):
				t.Errorf("%d: %+v, %v after %d tries", code, r, err, tries)
			case times != 3 && (err == nil || !strings.Contains(err.Error(), fmt.Sprint(code)) || tries != 10):
				t.Errorf("%d without end: %v after %d tries", code, err, tries)
			}
			exec(t, p.dsn, "DROP TRIGGER conflict")
			if r.Done {
				version++
			}
		}
	}
}

// Two transactions that wait for each other: the server ends one, and both are done in the end or see the other.
func TestDeadlock(t *testing.T) {
	p := newPlace(t, sqlserver.MariaDB(t))
	b := p.open(mysql.Options{Budget: time.Minute})
	if r, err := commit(b, time.Minute, set("a", 0, 1), set("b", 0, 1)); err != nil || !r.Done {
		t.Fatal(r, err)
	}
	db, err := sql.Open("mysql", p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM weir_inline_cells WHERE name = 'b' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		r, err := commit(b, time.Minute, set("a", 1, 2), set("b", 1, 2))
		if err == nil && !r.Done {
			err = fmt.Errorf("%+v", r)
		}
		done <- err
	}()
	wait.Until(t, "the commit waits for b", func() bool {
		return query[int](t, p.dsn, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%FOR UPDATE' AND ID <> CONNECTION_ID()") > 0
	})
	_, failed := tx.ExecContext(ctx, "SELECT 1 FROM weir_inline_cells WHERE name = 'a' FOR UPDATE")
	_ = tx.Rollback()
	if err := <-done; err != nil {
		t.Errorf("%v; the other has ended with %v", err, failed)
	}
}

// Cells that have expired are deleted, and no others.
func TestSweep(t *testing.T) {
	p := newPlace(t, sqlserver.MariaDB(t))
	b := p.open(mysql.Options{})
	exec(t, p.dsn, fmt.Sprintf(`INSERT INTO weir_inline_cells
		SELECT CONCAT('cell', seq), 1, '', CASE WHEN seq %% 3 = 0 THEN %d ELSE 1000 END FROM seq_1_to_5000`, window.MaxTime))
	for range 2 {
		if err := b.SweepNow(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, p.dsn, "SELECT count(*) FROM weir_inline_cells WHERE expires > 1000"); n != 1666 {
		t.Errorf("%d cells are left of 1666", n)
	}
	if n := query[int](t, p.dsn, "SELECT count(*) FROM weir_inline_cells WHERE expires <= 1000"); n != 0 {
		t.Errorf("%d cells have expired and are left", n)
	}
}

// The tables are made by one of many processes, or by hand; without them a Backend says what to run.
func TestTables(t *testing.T) {
	s := sqlserver.MariaDB(t)
	p := newPlace(t, s)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() { p.open(mysql.Options{Budget: time.Minute}) })
	}
	running.Wait()
	if n := query[int](t, p.dsn, "SELECT count(*) FROM weir_inline_schema"); n != 1 {
		t.Errorf("there are %d versions", n)
	}
	exec(t, p.dsn, "UPDATE weir_inline_schema SET version = 1000")
	failsWith(t, p.dsn, "newer Weir")

	byHand := newPlace(t, s)
	failsWith(t, byHand.dsn, "weir inline schema mysql")
	b, err := mysql.Open(mysql.Options{DSN: byHand.dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	exec(t, byHand.dsn, schema(t, 0))
	wait.Until(t, "the tables are found", func() bool { return b.Check(ctx) == nil })
	if r, err := commit(b, time.Minute, set("krule\x00käy", 0, 1), set("a0123456789abcdef", 0, 2)); err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
	if got := query[string](t, byHand.dsn, "SELECT CONCAT(`rule`, ' ', `key`) FROM weir_inline_keys"); got != "rule käy" {
		t.Error(got)
	}
	if got := query[string](t, byHand.dsn, "SELECT id FROM weir_inline_attempts"); got != "30313233343536373839616263646566" {
		t.Error(got)
	}

	exec(t, byHand.dsn, "DROP VIEW weir_inline_keys, weir_inline_attempts", "DROP TABLE weir_inline_cells, weir_inline_schema")
	if r, err := commit(b, time.Second, set("a", 0, 1)); err == nil {
		t.Errorf("there are no tables: %+v", r)
	}
	exec(t, byHand.dsn, schema(t, 0))
	wait.Until(t, "the new tables are found", func() bool { return b.Check(ctx) == nil })
	if r, err := commit(b, time.Minute, set("a", 0, 1)); err != nil || !r.Done {
		t.Errorf("after they were made again: %+v, %v", r, err)
	}
}

func failsWith(t *testing.T, dsn, words string) {
	t.Helper()
	b, err := mysql.Open(mysql.Options{DSN: dsn})
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
	s := sqlserver.MariaDB(t)
	p := newPlace(t, s)
	exec(t, p.dsn, schema(t, 0))
	name := p.dsn[strings.LastIndex(p.dsn, "/")+1:]
	s.Admin(t, "CREATE USER least@'%' IDENTIFIED BY 'secret' REQUIRE SSL", "GRANT SELECT ON "+name+".weir_inline_schema TO least@'%'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".weir_inline_cells TO least@'%'")
	b, err := mysql.Open(mysql.Options{
		DSN: "tcp(" + s.Addr + ")/" + name + "?tls=skip-verify", User: "least",
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
}

// After a failover to another machine, the connections to the lost one do not cost a call each.
func TestConnectionsToALostServer(t *testing.T) {
	s := sqlserver.MariaDB(t)
	p := newPlace(t, s)
	relay := inlinetest.NewRelay(t, s.Addr)
	p.dsn = strings.Replace(p.dsn, s.Addr, relay.Addr, 1)
	inlinetest.LosesConnections(t, p.open(mysql.Options{Connections: 8, Budget: 50 * time.Millisecond}), relay, 8, s.Pause)
}
