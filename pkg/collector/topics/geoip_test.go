package topics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/rule"
	"weir/test/wait"
)

// byNetwork are rules that count by the network of an address. The n-th database has other networks for all addresses.
func byNetwork(t *testing.T, n uint32) *rule.Set {
	t.Helper()
	networks := map[string]geoiptest.Entry{}
	for i := range uint32(7) {
		networks[fmt.Sprintf("203.0.113.%d/32", i)] = geoiptest.Entry{ASN: n*100 + i}
	}
	folder := t.TempDir()
	database, err := geoip.Open(geoiptest.Write(t, filepath.Join(folder, "asn.mmdb"), int64(n), networks))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(path, []byte("rules: [{name: per-asn, key: asn, limits: [10/min]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := rule.Source{Patterns: []string{path}, GeoIP: geoip.Join(database)}
	set, _, err := source.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Every record is counted once while databases change: within open cuts, and between a kill and the start after it. Cuts in
// an unknown state are made again by the database that made them, although its file is gone.
func TestATopicIsCountedOnceWhileDatabasesChange(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 3)
		b.make()
		want := map[uint32]int64{} // by the last digit of the address, and of the network
		produce := func(lines int) {
			for range lines {
				line := b.line()
				want[uint32(b.lines%7)]++
				b.write(topic.Message{Partition: b.lines % b.partitions, Value: []byte(line)})
			}
		}
		counted := func() (all map[uint32]int64, conflicts int) {
			keys, conflicts := b.sink.Counted(t)
			all = map[uint32]int64{}
			for key, n := range keys {
				var asn uint32
				if _, err := fmt.Sscanf(key, "per-asn %d", &asn); err != nil {
					t.Fatal(key)
				}
				all[asn%100] += n
			}
			return all, conflicts
		}
		await := func() {
			t.Helper()
			wait.Until(t, "all to be counted once", func() bool {
				all, conflicts := counted()
				for digit, n := range all {
					if n > want[digit] || conflicts > 0 {
						t.Fatalf("%d requests of addresses with the end %d are counted %d times; %d conflicts", want[digit], digit, n, conflicts)
					}
				}
				return maps.Equal(all, want)
			})
		}

		folder, n := t.TempDir(), uint32(1)
		for range 3 {
			rules := byNetwork(t, n)
			c := b.start(b.sink, func(c *reading) { c.Folder, c.Rules = folder, rules })
			produce(20)
			await()
			b.sink.Set(func() { b.sink.Mute = true })
			for range 3 { // some cuts without an acknowledgement
				produce(10)
				await()
			}
			c.pipeline.SetRules(byNetwork(t, n+1), nil)
			produce(10)
			c.kill(b.sink)
			if len(b.cuts()) == 0 {
				t.Error("no cut is outstanding")
			}
			b.sink.Unmute()
			n += 2
		}
		c := b.start(b.sink, func(c *reading) { c.Folder, c.Rules = folder, byNetwork(t, n) })
		produce(20)
		await()
		if c.said.Has("does not know") || c.said.Has("by other rules") {
			t.Error(c.said.String())
		}
		if keys, _ := b.sink.Counted(t); keys["per-asn 101"] == 0 || keys[fmt.Sprintf("per-asn %d", n*100+1)] == 0 {
			t.Errorf("not every database was used: %v", keys)
		}
	})
}
