package crash

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/test/real"
)

const guardedRules = `rules:
  - {name: per-ip, key: ip, limits: [8/min, 60/hour], block: {for: 24h}, guard: {%s}}
  - {name: per-path, key: path, limits: [4000/hour], mode: shadow}
`

// A process whose guard holds blocks back is killed again and again. Which blocks are guarded is what a plain count of the
// log says, for every record that was ever published. So is which clients are blocked before their guarded block has ended.
func TestAGuardedRunUnderFire(t *testing.T) {
	real.Long(t)
	guardedUnderFire(t, "most_new: 50/min", "guarded")
}

// The same for a share of the keys.
func TestARunWithAShareUnderFire(t *testing.T) {
	real.Long(t)
	guardedUnderFire(t, "most_share: 2%", "guarded by share")
}

func guardedUnderFire(t *testing.T, guard, by string) {
	kills := 3 * number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	begun := time.Now()
	s := newWholeSite(t, seed)
	s.clock = func() time.Time { return begun.Add(-20*time.Minute + 12*time.Since(begun)) } // a minute lasts five seconds
	r, _ := installRunOf(t, s, fmt.Sprintf(guardedRules, guard))
	r.agreeSeed()
	s.run(20)
	random := rand.New(rand.NewPCG(seed, 11))
	for range kills {
		r.members[0].start()
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		r.members[0].kill()
	}
	s.close()
	r.members[0].start()
	r.connect()
	newCounterOf(r.client, r.prefix).await(t, s.want)
	r.drained()
	w := r.truth()
	r.compareList(w, begun)
	r.compareEvents(w, time.Now().UnixMilli())
	r.stop()
	r.compareWindows(w)
	guarded := w.seen[by] - w.seen["goes on"]
	if guarded == 0 || guarded == w.seen["broke"] {
		t.Errorf("%d of %d blocks are guarded: the traffic shows too little", guarded, w.seen["broke"])
	}
	if w.seen["goes on"]+w.seen["enforced"] == 0 {
		t.Error("no client of a guarded block goes on: the traffic shows too little")
	}
	t.Logf("seed %d: %d of %d blocks are guarded; %d go on, %d are enforced before they end", seed, guarded, w.seen["broke"], w.seen["goes on"], w.seen["enforced"])
}

// agreeSeed takes the place of the aggregator that first starts: the truth has to estimate keys with the same hashes.
func (r *river) agreeSeed() {
	r.t.Helper()
	s := r.cold()
	defer s.Close()
	seed, err := s.Agree(r.t.Context(), "guard.seed", []byte("a seed of a test"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.guardSeed = xxhash.Sum64(seed)
}

// Two thousand clients break a limit within a minute, as when a rule is wrong. As many are refused as the guard lets
// through, and the others when a person has confirmed the rule, until that ends.
func TestAGuardAgainstMassBlocking(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 42,000 lines")
	}
	const clients, most = 2000, 500
	rules := fmt.Sprintf("rules:\n  - {name: per-ip, key: ip, limits: [20/min], block: {for: 24h}, guard: {most_new: %d/min}}\n", most)
	s := newSite(t, 1)
	defer s.file.Close()
	r, enforcer := installRunOf(t, s, rules)
	r.members[0].start()
	r.connect()

	ip := func(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250) }
	at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	var lines strings.Builder
	for n := range clients {
		for range 21 {
			fmt.Fprintf(&lines, "%s - - [%s] \"GET /?n=%d HTTP/1.1\" 200 2 \"-\" \"test\"\n", ip(n), at, n)
		}
	}
	if _, err := s.file.WriteString(lines.String()); err != nil {
		t.Fatal(err)
	}

	share := mustParse(t, rules).Rules[0].Guard.Share(partitions)
	refused := func() (n int) {
		for i := range clients {
			status, err := check(enforcer, ip(i))
			if err != nil {
				t.Fatal(err)
			}
			if status == http.StatusTooManyRequests {
				n++
			}
		}
		return n
	}
	held := 0
	r.eventually("all clients are on the list", func() error {
		held = 0
		now := r.list().now
		for _, e := range now {
			if e.Guarded {
				held++
			}
		}
		if len(now) != clients {
			return fmt.Errorf("%d entries", len(now))
		}
		return nil
	})

	let := clients - held
	if let < most || int64(let) > share*partitions {
		t.Errorf("%d are not guarded, want %d to %d", let, most, share*partitions)
	}
	r.eventually("as many are refused as the guard lets through", func() error { return refusedIs(refused(), let) })
	member := r.members[0]
	shows := func(want string) {
		t.Helper()
		if said := strings.Join(strings.Fields(member.types("guard")), " "); !strings.Contains(said, want) {
			t.Errorf("%s, want %s", said, want)
		}
	}
	shows(fmt.Sprintf("per-ip 500/min %d most_new not refused", held))
	if said := member.said.String(); !strings.Contains(said, "its guard lets through") {
		t.Errorf("the guard is not logged:\n%s", tail(said, 3000))
	}

	member.types("guard", "confirm", "per-ip", "--why", "a real attack")
	r.eventually("all are refused", func() error { return refusedIs(refused(), clients) })
	shows(fmt.Sprintf("per-ip 500/min %d most_new confirmed", held))
	member.kill()
	member.start()
	r.eventually("all are refused after a restart", func() error {
		if _, err := check(enforcer, ip(0)); err != nil {
			return err
		}
		return refusedIs(refused(), clients)
	})
	member.types("guard", "end", "per-ip", "--why", "these were customers")
	r.eventually("the others pass again", func() error { return refusedIs(refused(), let) })
	shows(fmt.Sprintf("per-ip 500/min %d most_new not refused", held))
}

// types runs a command of the tool next to the configuration.
func (i *installation) types(arguments ...string) string {
	i.t.Helper()
	command := exec.Command(build(i.t, "weir"), arguments...)
	command.Dir = i.folder
	out, err := command.CombinedOutput()
	if err != nil {
		i.t.Fatalf("weir %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func refusedIs(got, want int) error {
	if got != want {
		return fmt.Errorf("%d are refused, want %d", got, want)
	}
	return nil
}
