package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slots is the number of slots in a Cluster.
const slots = 16384

// Cluster starts a Cluster with that many masters, with arguments as those of Start.
func Cluster(t testing.TB, masters int, arguments ...string) (nodes []*Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	mustBeHad(t)
	for n := range masters {
		_, bus, _ := net.SplitHostPort(freeAddress(t))
		clustered := []string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000"}
		node := Start(t, append(clustered, arguments...)...)
		nodes = append(nodes, node)
		first, last := n*slots/masters, (n+1)*slots/masters-1
		if err := node.Client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			t.Fatal(err)
		}

		_, own, _ := net.SplitHostPort(node.Addr)
		for _, other := range nodes[:n] {
			if err := other.Client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", own, bus).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}

	for _, node := range nodes {
		node.await(ctx, "the Cluster is complete", func() bool {
			info, _ := node.Client.ClusterInfo(ctx).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))
		})
	}

	return nodes
}

// Sentinel starts a Sentinel that watches a master. It makes a replica the master when the
// master has not answered for a second.
func Sentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := newServer(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	_, own, _ := net.SplitHostPort(s.Addr)
	configuration := filepath.Join(s.Folder, "sentinel.conf")
	text := fmt.Sprintf("port %[1]s\nbind 127.0.0.1\ndir %[2]s\nsentinel monitor %[3]s %[4]s %[5]s 1\n"+
		"sentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 5000\n", own, s.Folder, name, host, port)
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.arguments = []string{configuration, "--sentinel"}
	s.Restart()
	return s
}

// await returns when something is true.
func (s *Server) await(ctx context.Context, what string, is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(filepath.Join(s.Folder, "output"))
			s.t.Fatalf("waiting until %s: %v\n%s", what, ctx.Err(), said)
		case <-tick.C:
		}
	}
}
