package mysql_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/sqlserver"
)

const benchCallers = 16

// BenchmarkCommit compares commits of new keys from 16 callers with a bare loop, which sends the same requests on as many
// connections to the same server. It reports commits a second of both.
func BenchmarkCommit(b *testing.B) {
	s := sqlserver.MariaDB(b, "--innodb-flush-log-at-trx-commit=1")
	p := newPlace(b, s)
	backend := p.open(mysql.Options{Connections: benchCallers, Budget: time.Minute})
	bare, err := sql.Open("mysql", p.dsn+"?multiStatements=true&interpolateParams=true&tx_isolation='READ-COMMITTED'")
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	bare.SetMaxOpenConns(benchCallers)
	bare.SetMaxIdleConns(benchCallers)
	state := bytes.Repeat([]byte{7}, 60)
	for _, who := range []string{"backend", "bare loop", "backend", "bare loop"} {
		b.Run(who, func(b *testing.B) {
			b.SetParallelism(benchCallers / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					change := stored.Change{Name: fmt.Sprint("k", rand.Int64()), Next: 1, State: state, Expires: window.MaxTime}
					c := &stored.Commit{Slack: window.MaxTime * 1000, Changes: []stored.Change{change}}
					var done bool
					var err error
					if who == "backend" {
						var r stored.Result
						r, err = backend.Commit(ctx, c)
						done = r.Done
					} else {
						text, args := mysql.RequestOf(c)
						var now int64
						err = bare.QueryRowContext(ctx, text, args...).Scan(&done, &now)
					}
					if err != nil || !done {
						b.Error(done, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

func BenchmarkHistory(b *testing.B) {
	s := sqlserver.MariaDB(b, "--innodb-flush-log-at-trx-commit=1")
	open := func(history time.Duration) *mysql.Backend {
		return newPlace(b, s).open(mysql.Options{Connections: benchCallers, Budget: time.Minute, History: history})
	}
	inlinetest.BenchmarkHistory(b, open(time.Hour), open(0))
}
