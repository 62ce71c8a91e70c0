package postgres_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/real"
	"weir/test/sqlserver"
)

const benchCallers = 16

// BenchmarkCommit compares commits of new keys from 16 callers with pgbench, which sends the same statement with the same
// sizes on as many connections to the same server, on the same disk settings. It reports commits a second of both.
func BenchmarkCommit(b *testing.B) {
	s := sqlserver.Postgres(b, "fsync=on")
	p := newPlace(b, s)
	backend := p.open(postgres.Options{Connections: benchCallers, Budget: time.Minute})
	state := bytes.Repeat([]byte{7}, 60)
	program := real.Program(b, "pgbench", "postgresql")
	for _, who := range []string{"backend", "pgbench", "backend", "pgbench"} {
		b.Run(who, func(b *testing.B) {
			if who == "pgbench" {
				b.ReportMetric(pgbench(b, program, strings.Replace(p.url, "?search_path=",
					"?options=-cplan_cache_mode%3Dforce_generic_plan%20-cenable_seqscan%3Doff%20-cjit%3Doff%20-csearch_path%3D", 1), state), "commits/s")
				return
			}
			b.SetParallelism(benchCallers / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					change := stored.Change{Name: fmt.Sprint("k", rand.Int64()), Next: 1, State: state, Expires: window.MaxTime}
					r, err := backend.Commit(ctx, &stored.Commit{Slack: window.MaxTime * 1000, Changes: []stored.Change{change}})
					if err != nil || !r.Done {
						b.Error(r, err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// seconds is how long pgbench runs: longer than -benchtime, so that it runs once.
const seconds = 10

func pgbench(b *testing.B, program, url string, state []byte) (rate float64) {
	statement := postgres.CommitSQL
	for i, value := range []string{
		"ARRAY[convert_to('k' || :n, 'UTF8')]", "ARRAY[0]", "ARRAY[1]", fmt.Sprintf(`ARRAY['\x%x'::bytea]`, state),
		fmt.Sprintf("ARRAY[%d]", window.MaxTime), "0", fmt.Sprint(window.MaxTime * 1000),
	} {
		statement = strings.ReplaceAll(statement, fmt.Sprintf("$%d", i+1), value)
	}
	script := filepath.Join(b.TempDir(), "commit.sql")
	text := "\\set n random(1, 9000000000000000000)\n" + strings.TrimSpace(regexp.MustCompile(`(?m)^--.*\n`).ReplaceAllString(statement, "")) + ";\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	out, err := exec.CommandContext(b.Context(), program, "-n", "-M", "prepared", "-f", script, "-c", fmt.Sprint(benchCallers), "-j", "2", "-T", fmt.Sprint(seconds), url).CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("%v\n%s", err, out)
	}
	if _, err := fmt.Sscan(string(found[1]), &rate); err != nil {
		b.Fatal(err)
	}
	return rate
}

func BenchmarkHistory(b *testing.B) {
	s := sqlserver.Postgres(b, "fsync=on")
	open := func(history time.Duration) *postgres.Backend {
		return newPlace(b, s).open(postgres.Options{Connections: benchCallers, Budget: time.Minute, History: history})
	}
	inlinetest.BenchmarkHistory(b, open(time.Hour), open(0))
}
