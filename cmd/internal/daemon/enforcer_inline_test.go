package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/store/redis/redistest"
	"weir/test/sqlserver"
)

// Two enforcers count together in Redis, and one that starts again goes on.
func TestEnforcersThatCountInRedis(t *testing.T) {
	countTogether(t, "redis: 'redis://"+redistest.Start(t).Addr+"'")
}

func TestEnforcersThatCountInSortedSets(t *testing.T) {
	server := redistest.Start(t)
	countTogether(t, "redis: 'redis://"+server.Addr+"', layout: sorted_set")
	all := server.Client.Keys(t.Context(), "*inline:*counted:quota:203.0.113.8").Val()
	if len(all) != 1 || server.Client.ZCard(t.Context(), all[0]).Val() != 6 {
		t.Errorf("%q", all)
	}
}

func TestEnforcersThatCountInPostgres(t *testing.T) {
	server := sqlserver.Postgres(t)
	countTogether(t, "postgres: 'postgres://"+server.Addr+"/"+sqlserver.Database+"', isolation: serializable, "+userOf(t))
}

func TestEnforcersThatCountInMariaDB(t *testing.T) {
	countTogether(t, "mysql: 'tcp("+sqlserver.MariaDB(t).Addr+")/"+sqlserver.Database+"', connections: 4, "+userOf(t))
}

// userOf is the user of a database with a file of the password.
func userOf(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(sqlserver.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "user: " + sqlserver.User + ", password_file: '" + file + "'"
}

func countTogether(t *testing.T, store string) {
	t.Helper()
	broker := newMortal(t)
	open := func() *edge {
		e := newEdge(t, broker.yaml(), "\ninline: {store: {"+store+"}, budget: 2s}")
		e.write("rules.yaml", "rules: [{name: quota, key: ip, limits: [6/hour], inline: true, on_error: refuse}]")
		return e.start()
	}
	e, other := open(), open()
	serves := func(e *edge) {
		e.await("serves", func() bool { return e.check("203.0.113.9") != 0 })
	}
	serves(e)
	serves(other)
	for n := range 6 {
		at := []*edge{e, other}[n%2]
		if code := at.check("203.0.113.8"); code != http.StatusOK {
			t.Errorf("%d of 6: %d", n+1, code)
		}
	}
	e.stop()
	e.start()
	serves(e)
	for _, at := range []*edge{e, other} {
		if code := at.check("203.0.113.8"); code != http.StatusTooManyRequests {
			t.Errorf("the seventh of 6: %d", code)
		}
	}
}

func TestARedisThatWouldLoseCounts(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	e := newEdge(t, newMortal(t).yaml(), "")
	settings, _, err := config.Load(config.Options{File: e.folder + "/weir.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	settings.Inline.Store.Redis = "redis://" + server.Addr
	r := &RunningEnforcer{process: &Process{Config: settings}}
	defer r.closeInlineStore()
	if _, err := r.openInlineStore(t.Context()); err == nil || !strings.Contains(fmt.Sprint(err), "set maxmemory-policy noeviction") {
		t.Errorf("%v", err)
	}
}

func TestARedisThatBeginsToLoseCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := newEdge(t, newMortal(t).yaml(), "\ninline: {store: {redis: 'redis://"+server.Addr+"'}}")
	e.write("rules.yaml", "rules: [{name: quota, key: ip, limits: [6/hour], inline: true}]")
	e.start()
	for _, policy := range []string{"allkeys-lru", "noeviction"} {
		if err := server.Client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		e.await("the status has "+policy, func() bool {
			_, text := e.ask(http.MethodGet, e.admin, "/status", "")
			return strings.Contains(text, "allkeys-lru") == (policy == "allkeys-lru")
		})
	}
}
