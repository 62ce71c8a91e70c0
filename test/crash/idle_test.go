package crash

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/test/real"
)

// TestAnIdleCollectorCostsNextToNothing measures the collector's processor time while nothing is written to twenty log
// files.
func TestAnIdleCollectorCostsNextToNothing(t *testing.T) {
	real.Long(t)
	t.Parallel()
	brokers := kafkatest.Shared(t).Addresses()
	logs := t.TempDir()
	for n := range 20 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d.access.log", logs, n), []byte("203.0.113.1 - - [03/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 2 \"-\" \"-\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	collector := install(t, brokers, sharedPrefix(t), logs+"/*access.log")
	collector.start()
	c := newCounter(t, brokers, sharedPrefix(t))
	c.await(t, map[string]int64{"per-ip 203.0.113.1": 20, "per-path /": 20})
	const span = 8 * time.Second
	time.Sleep(time.Second)
	before := collector.processorTime()
	time.Sleep(span)
	share := float64(collector.processorTime()-before) / float64(span)
	t.Logf("%.2f%% of a core", 100*share)
	if share > 0.01 {
		t.Errorf("an idle collector takes %.1f%% of a core", 100*share)
	}
}

// processorTime is the processor time that the process has used.
func (i *installation) processorTime() time.Duration {
	i.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.process.Process.Pid))
	if err != nil {
		i.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ")
	var user, system int64
	if _, err := fmt.Sscan(strings.Join(strings.Fields(after)[11:13], " "), &user, &system); err != nil {
		i.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
