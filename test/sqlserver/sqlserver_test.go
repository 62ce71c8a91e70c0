package sqlserver

import (
	"database/sql"
	"syscall"
	"testing"

	"weir/test/wait"
)

// A server that is killed has what it has confirmed, and one that is paused goes on.
func TestServersAreKilledAndPaused(t *testing.T) {
	for driver, start := range map[string]func(testing.TB, ...string) *Server{"pgx": Postgres, "mysql": MariaDB} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			db, err := sql.Open(driver, s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE cells (name varchar(10))"); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "INSERT INTO cells VALUES ('a')"); err != nil {
				t.Fatal(err)
			}

			s.Kill()
			if err := db.PingContext(t.Context()); err == nil {
				t.Error("a server that was killed answers")
			}
			s.Restart()
			resume := s.Pause()
			asked := make(chan error, 1)
			var n int
			go func() { asked <- db.QueryRowContext(t.Context(), "SELECT count(*) FROM cells").Scan(&n) }()
			resume()
			if err := <-asked; err != nil || n != 1 {
				t.Errorf("%d rows, %v\n%s", n, err, s.Output())
			}
			pids := s.processes()
			s.Kill()
			wait.Until(t, "its processes have ended", func() bool { return !anyAlive(pids) })
		})
	}
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			return true
		}
	}
	return false
}
