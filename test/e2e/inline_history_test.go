package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/test/sqlserver"
	"weir/test/wait"
)

const historyRules = `
rules:
  - {name: quota, key: user, limits: [1000000/hour], inline: true, on_error: refuse}
  - {name: few, key: user, limits: [50/hour], inline: true, on_error: refuse}
`

func TestAHistoryInPostgres(t *testing.T) {
	s := sqlserver.Postgres(t)
	historyOutlastsKills(t, "pgx", s.URL, "postgres: 'postgres://"+s.Addr+"/"+sqlserver.Database+"'", "encode(uuid_send(id), 'hex')")
}

func TestAHistoryInMariaDB(t *testing.T) {
	s := sqlserver.MariaDB(t)
	historyOutlastsKills(t, "mysql", s.URL, "mysql: 'tcp("+s.Addr+")/"+sqlserver.Database+"'", "LOWER(HEX(id))")
}

// While something locks the table of the history, attempts that would count are answered by on_error, and what is refused
// is refused. Afterwards all is as before, and the rows of refusals are there.
func TestAHistoryThatIsLocked(t *testing.T) {
	s := sqlserver.Postgres(t)
	f := newFleet(t, historyRules, "inline: {history: 1h, budget: 200ms, store: {postgres: 'postgres://"+s.Addr+"/"+sqlserver.Database+"', user: "+
		sqlserver.User+", password_file: password}}\n")
	f.write("password", sqlserver.Password)
	f.start(build(t, "weir"), "run")
	wait.Until(t, "it takes", func() bool {
		_, status := f.take("few", "full", 50)
		return status == http.StatusOK || status == http.StatusTooManyRequests
	})

	db, err := sql.Open("pgx", s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE weir_inline_history IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, status := f.take("quota", "a", 1); status != http.StatusServiceUnavailable {
			t.Errorf("an attempt that would count: %d", status)
		}
		if _, status := f.take("few", "full", 50); status != http.StatusTooManyRequests {
			t.Errorf("an attempt that is refused: %d", status)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it takes again", func() bool {
		_, status := f.take("quota", "a", 1)
		return status == http.StatusOK
	})
	if n := f.counted("quota", "a"); n != 1 {
		t.Errorf("%d are counted of one that was admitted", n)
	}
	f.stop()
	var refused, failed int
	err = db.QueryRowContext(t.Context(), "SELECT count(*) FILTER (WHERE verdict = 'refused'), count(*) FILTER (WHERE store = 'refuse') FROM weir_inline_history").Scan(&refused, &failed)
	if err != nil || refused < 3 || failed < 3 {
		t.Errorf("%d rows of refusals, %d of attempts without the store, %v", refused, failed, err)
	}
}

// A ledger is what callers were answered.
type ledger struct {
	mu       sync.Mutex
	admitted map[string]bool
	refused  int
	stopped  atomic.Bool
}

// historyOutlastsKills: what two processes count in a database is in its history, each attempt once, while one of them is
// killed again and again.
func historyOutlastsKills(t *testing.T, driver, dsn, store, id string) {
	t.Helper()
	weir := build(t, "weir")
	var sites []*fleet
	for range 2 {
		f := newFleet(t, historyRules, "inline: {history: 1h, budget: 500ms, store: {"+store+", user: "+sqlserver.User+", password_file: password}}\n")
		f.write("password", sqlserver.Password)
		sites = append(sites, f)
		f.start(weir, "run")
	}
	answers := func(f *fleet) bool {
		_, status := f.take("few", "nobody", 0)
		return status == http.StatusOK
	}
	for _, f := range sites {
		wait.Until(t, "it takes", func() bool { return answers(f) })
	}

	l := &ledger{admitted: map[string]bool{}}
	var running sync.WaitGroup
	for n := range 16 {
		running.Go(func() { l.calls(sites[n%2], n) })
	}
	killed := sites[0]
	for range 3 {
		time.Sleep(500 * time.Millisecond)
		killed.processes[len(killed.processes)-1].end(t, syscall.SIGKILL)
		killed.start(weir, "run")
		wait.Until(t, "it takes again", func() bool { return answers(killed) })
	}
	time.Sleep(500 * time.Millisecond)
	l.stopped.Store(true)
	running.Wait()
	killed.stop()

	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key := map[string]string{"pgx": "key", "mysql": "`key`"}[driver]
	rows, err := db.QueryContext(t.Context(), "SELECT "+id+", CONCAT(rule, ' ', "+key+"), COALESCE(settled, cost) FROM weir_inline_history WHERE verdict = 'admitted' AND cost > 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	counted, seen := map[string]int64{}, map[string]bool{}
	for rows.Next() {
		var attempt, of string
		var cost int64
		if err := rows.Scan(&attempt, &of, &cost); err != nil {
			t.Fatal(err)
		}
		if seen[attempt+of] {
			t.Errorf("%s %s is there twice", attempt, of)
		}
		seen[attempt+of] = true
		counted[of] += cost
		delete(l.admitted, attempt)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for attempt := range l.admitted {
		t.Errorf("the attempt %s was admitted, and is not there", attempt)
	}
	for _, user := range []string{"a", "b"} {
		for _, rule := range []string{"quota", "few"} {
			if got, want := counted[rule+" "+user], sites[1].counted(rule, user); got != want {
				t.Errorf("%s %s: %d are counted, and the history has %d", rule, user, want, got)
			}
		}
	}

	// The one that was not killed has written all that it refused.
	sites[1].stop()
	var refused int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM weir_inline_history WHERE verdict = 'refused'").Scan(&refused); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d admitted, %d refused by the process that was not killed, %d rows of refusals", len(seen), l.refused, refused)
	if refused < l.refused || l.refused == 0 || len(seen) < 100 {
		t.Error("rows of refusals are missing, or the traffic shows too little")
	}
}

// calls takes again and again, and settles some.
func (l *ledger) calls(f *fleet, n int) {
	for i := n; !l.stopped.Load(); i++ {
		rule, user := "quota", []string{"a", "b"}[i%2]
		if i%5 == 0 {
			rule = "few"
		}
		attempt, status := f.take(rule, user, 2)
		switch status {
		case http.StatusOK:
			l.mu.Lock()
			l.admitted[attempt] = true
			l.mu.Unlock()
			if i%3 == 0 {
				f.post("/v1/settle", fmt.Sprintf(`{"attempt": %q, "cost": 1}`, attempt), nil)
			}
		case http.StatusTooManyRequests:
			if n%2 == 1 {
				l.mu.Lock()
				l.refused++
				l.mu.Unlock()
			}
		default:
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// take takes from a rule for a user. The status is 0 if there is no answer.
func (f *fleet) take(rule, user string, cost int) (attempt string, status int) {
	var said struct{ Attempt string }
	status = f.post("/v1/take", fmt.Sprintf(`{"rule": %q, "fields": {"user": %q}, "cost": %d}`, rule, user, cost), &said)
	return said.Attempt, status
}

func (f *fleet) post(path, body string, said any) (status int) {
	answer, err := http.Post("http://"+f.enforcer+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		return 0
	}
	if said != nil && json.Unmarshal(text.Bytes(), said) != nil {
		return 0
	}
	return answer.StatusCode
}

// counted is what a key has counted.
func (f *fleet) counted(rule, user string) int64 {
	f.t.Helper()
	answer, err := http.Get("http://" + f.enforcer + "/v1/keys?rule=" + rule + "&key=" + url.QueryEscape(user))
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	var said struct{ Limits []struct{ Count int64 } }
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || len(said.Limits) != 1 {
		f.t.Fatalf("%d %+v %v", answer.StatusCode, said, err)
	}
	return said.Limits[0].Count
}
