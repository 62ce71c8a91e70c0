package collector

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Hundreds of files in one glob, each written to, rotated and written to again, lose nothing.
func TestHundredsOfFilesInOneGlob(t *testing.T) {
	t.Parallel()
	const files = 300
	b := newBench(t, "*access.log")
	b.config.Logger = nil
	each := func(do func(name string)) {
		for n := range files {
			do(fmt.Sprintf("%d.access.log", n))
		}
	}
	each(func(name string) { b.Append(name, "# "+name+"\n"+b.Line()+b.Line()) })
	b.start()
	b.await()
	each(func(name string) { b.Log(name, 1) })
	each(func(name string) {
		if len(name)%2 == 0 {
			b.Rename(name, name+".1")
		}
		b.Append(name, "# anew "+name+"\n"+b.Line())
	})
	b.await()
	b.stop()
	each(func(name string) { b.Log(name, 1) })
	b.start()
	b.await()
}

// Between lines there is binary of every length up to some MiB, with newlines and zeros in it, and a file has holes.
// The lines are counted once, also when the collector is stopped in the middle.
func TestBinaryBetweenLines(t *testing.T) {
	t.Parallel()
	b := newBench(t, "access.log")
	b.config.Logger = nil
	random := rand.New(rand.NewChaCha8([32]byte{7}))
	for round := range 12 {
		b.start()
		for range 3 {
			b.Log("access.log", 3)
			rubbish := make([]byte, random.IntN(3<<20))
			for i := range rubbish {
				rubbish[i] = byte(random.Uint32())
			}
			switch round % 3 {
			case 0:
				rubbish = bytes.ReplaceAll(rubbish, []byte{'\n'}, []byte{0})
			case 1:
				clear(rubbish[:len(rubbish)/2]) // a hole
			}
			b.Append("access.log", string(rubbish)+"\n")
		}
		b.Log("access.log", 1)
		if round%2 == 0 {
			b.await()
		}
		b.stop()
	}
	b.start()
	b.await()
}

// Lines whose times jump back and forth by days are counted once each, except those ahead of our clock.
func TestTimesThatJump(t *testing.T) {
	b := newBench(t, "*access.log")
	line := func(at time.Time) string {
		return fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n", at.UTC().Format("02/Jan/2006:15:04:05 -0700"))
	}
	now := time.Now()
	for i, off := range []time.Duration{-48 * time.Hour, 0, -720 * time.Hour, 72 * time.Hour, -time.Hour, 24 * time.Hour, -30 * time.Second} {
		for _, name := range []string{"a.access.log", "b.access.log"} {
			b.Append(name, fmt.Sprintf("# %s %d\n", name, i)+line(now.Add(off)))
		}
		if off <= 0 {
			b.Want["per-ip 192.0.2.1"] += 2
		}
	}
	b.start()
	b.await()
}
