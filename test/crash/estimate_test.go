package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/test/real"
)

// countlessPaths are lines of ten clients, which ask for up to 11,200 different paths each, again and again. Some lines are
// minutes late. The last lines are of other clients, so many that each partition has some: they move its time on.
func countlessPaths(random *rand.Rand, lines int) (text []string) {
	begin := time.Now().Add(-80 * time.Minute)
	line := func(client string, at time.Time, path int) {
		text = append(text, fmt.Sprintf("%s - - [%s] \"GET /p%d HTTP/1.1\" 404 5 \"-\" \"a\"\n", client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), path))
	}
	for n := range lines {
		at := begin.Add(time.Duration(n) * 60 * time.Minute / time.Duration(lines))
		if random.IntN(10) == 0 {
			at = at.Add(-time.Duration(random.IntN(300)) * time.Second)
		}
		client := random.IntN(10)
		line(fmt.Sprintf("198.51.100.%d", client), at, random.IntN(4000+800*client))
	}
	for n := range 200 {
		line(fmt.Sprintf("203.0.113.%d", n), time.Now(), 1)
	}
	return text
}

// A rule of different values that are estimated blocks the same keys from the same times on as a backtest, though the process
// is killed again and again. No client knows the values, and so both hash them alike.
func TestEstimatesUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "hash.key")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	i, weir := killedWhileWriting(t, random, fmt.Sprintf(`rules:
  - {name: hour, key: ip, distinct: path, limits: [4100/30m], late: 6m, block: {for: 3h}}
secret_file: %s
`, secret), "", countlessPaths(random, 120_000))

	wantOfBacktest(t, i, weir, 2, 8)
}
