package bench

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/test/port"
)

// streams starts the Kafka Streams job.
func streams(guarantee string) func(*testing.B, *river) *running {
	return func(b *testing.B, r *river) *running {
		for _, program := range []string{"mvn", "java"} {
			if _, err := exec.LookPath(program); err != nil {
				b.Skipf("%s is not installed", program)
			}
		}
		build := exec.Command("mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DincludeScope=runtime")
		build.Dir = "streams"
		if said, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}

		keys := map[bool]string{false: "unkeyed", true: "keyed"}[r.keyed]
		c := &running{groups: "offenders", topics: []string{linesTopic}, out: "offenders", offender: broken}
		c.add(b, exec.Command("java", "-Xmx2g", "-XX:+UseParallelGC", kafkatest.KeepCompilers,
			"-cp", "streams/target/streams-1.jar:streams/target/dependency/*", "weir.bench.Offenders",
			strings.Join(r.cluster.Addresses(), ","), linesTopic, c.out, keys, guarantee, b.TempDir(), strconv.Itoa(riverPartitions)))
		if !r.keyed {
			c.topics = append(c.topics, r.repartitioned(b, c.groups))
		}
		return c
	}
}

// broken reads a record of the job: an address, then the second of its break and the limit.
func broken(record topic.Record) (client string, at int64, valid bool) {
	address, valid := netip.AddrFromSlice(record.Key)
	second, _, _ := strings.Cut(string(record.Value), " ")
	at, err := strconv.ParseInt(second, 10, 64)
	return address.String(), at, valid && err == nil
}

// repartitioned waits for the topic that the job creates.
func (r *river) repartitioned(b *testing.B, id string) string {
	b.Helper()
	for range 600 {
		cluster, err := r.client.Cluster(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range cluster.Topics {
			if strings.HasPrefix(name, id) && strings.HasSuffix(name, "-repartition") {
				return name
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatal("the job never made its topic")
	return ""
}

// weir starts collectors, an aggregator and an enforcer with a Redis.
func weir(collectors int) func(*testing.B, *river) *running {
	return func(b *testing.B, r *river) *running { return startWeir(b, r, collectors) }
}

func startWeir(b *testing.B, r *river, collectors int) *running {
	folder := b.TempDir()
	redis := redistest.Start(b, "--appendonly", "yes")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min, 100/hour, 1000/day], block: {for: 1000d}}]\n")
	write("weir.yaml", fmt.Sprintf(`
data: data
kafka: {brokers: [%s], session: 45s, hits: {partitions: %d}}
store: {redis: "redis://%s/0"}
collector: {listen: "", sources: [{name: lines, kafka: [%s], envelope: none, format: combined}]}
aggregator: {listen: ""}
enforcer: {listen: %q, admin: ""}
`, strings.Join(r.cluster.Addresses(), ", "), riverPartitions, redis.Addr, linesTopic, port.Reserve(b, "127.0.0.1")))
	c := &running{groups: "weir.", topics: []string{linesTopic, "weir.hits"}, out: "weir.blocklist", offender: blocked, redis: redis}
	parts := []string{"collector", "aggregator", "enforcer"}
	for _, part := range parts {
		if said, err := exec.Command("go", "build", "-o", filepath.Join(folder, part), "weir/cmd/"+part).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}
	}
	for range collectors - 1 {
		parts = append(parts, "collector")
	}
	for n, part := range parts {
		data := "data=data" + strconv.Itoa(n)
		c.add(b, exec.Command(filepath.Join(folder, part), "--config", filepath.Join(folder, "weir.yaml"), "--set", data))
	}
	return c
}

// blocked is the client that an entry blocks, and since when.
func blocked(record topic.Record) (client string, at int64, valid bool) {
	decoded, err := blocklist.DecodeRecord(record.Key, record.Value)
	if err != nil || decoded.Entry == nil {
		return "", 0, false
	}
	return decoded.Entry.Key, decoded.Entry.From / 1000, true
}
