package crash

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/test/real"
)

// A node of a Cluster hangs, then loses its last second. Meanwhile the partitions of the other nodes go on.
func TestANodeOfAClusterIsAway(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 12, limited)
	nodes := redistest.Cluster(t, 3, append([]string{"--cluster-require-full-coverage", "no"}, appendOnly...)...)
	var addresses []string
	for _, node := range nodes {
		addresses = append(addresses, node.Addr)
	}
	r.place = "redis://" + strings.Join(addresses, ",")
	r.hotKeys = 1000
	r.install().start()
	r.install().start()
	f := r.feed("feed")
	r.somebody(f)

	resume := nodes[1].Pause()
	f.offenders("hangs", 60)
	r.awaitSomeListed("hangs", 60)
	resume()

	f.crowd("limited", "under-way", 3000, time.Now())
	r.crashRedis(nodes[1], rand.New(rand.NewPCG(uint64(begun.UnixNano()), 1)))
	f.offenders("since", 60)
	r.awaitListed(of("since-59"), true)
	f.hits(of("later"), every(time.Second, 3)...)
	r.finish(begun)
}

// A master is killed under load, and a Sentinel makes its replica the master. The former master comes back, perhaps
// before the Sentinel is done, so that there are two masters for a while. One of them becomes a replica, and loses
// everything that was written to it alone.
func TestASentinelThatMakesAReplicaTheMaster(t *testing.T) {
	real.Long(t)
	t.Parallel()
	begun := time.Now()
	r := newBranch(t, 4, limited)
	host, port, _ := net.SplitHostPort(r.redis.Addr)
	replica := redistest.Start(t, append([]string{"--replicaof", host + " " + port}, appendOnly...)...)
	r.awaitReplication(replica, "master_link_status", "up")
	sentinel := redistest.Sentinel(t, "weir-master", r.redis)
	r.place = "redis://" + sentinel.Addr + "?master=weir-master"
	r.install().start()
	r.install().start()
	f := r.feed("feed")
	r.somebody(f)

	f.crowd("limited", "under-way", 3000, time.Now())
	r.redis.Kill()
	f.offenders("without", 60)
	r.awaitReplication(replica, "role", "master")
	r.redis.Restart()
	f.hits(of("later"), every(time.Second, 3)...)
	r.awaitListed(of("without-59"), true)
	r.awaitListed(of("later"), true)
	r.awaitOneMaster(sentinel, r.redis, replica)
	f.crowd("limited", "since", 1000, time.Now())
	f.offenders("again", 20)
	r.awaitListed(of("again-19"), true)
	r.awaitWindow(of("early"))
	r.finish(begun)
}

func (r *river) awaitReplication(server *redistest.Server, field, value string) {
	r.t.Helper()
	r.eventually(field+" of "+server.Addr+" is "+value, func() error {
		if is := replication(r.t, server)[field]; is != value {
			return fmt.Errorf("it is %q", is)
		}
		return nil
	})
}

// awaitOneMaster waits until the server that a Sentinel names is the master, and the other one its replica.
func (r *river) awaitOneMaster(sentinel *redistest.Server, servers ...*redistest.Server) {
	r.t.Helper()
	r.eventually("there is one master", func() error {
		named, err := sentinel.Client.Do(r.t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "weir-master").StringSlice()
		if err != nil {
			return err
		}
		for _, server := range servers {
			is, want := replication(r.t, server), "up"
			if server.Addr == strings.Join(named, ":") {
				want = ""
			}
			if is["master_link_status"] != want {
				return fmt.Errorf("the master is %v, and %s is %v", named, server.Addr, is)
			}
		}
		return nil
	})
}

func replication(t testing.TB, server *redistest.Server) map[string]string {
	info, _ := server.Client.InfoMap(t.Context(), "replication").Result()
	return info["Replication"]
}

// offenders sends, for each of some keys, enough hits to break the limit.
func (f *feed) offenders(name string, keys int) {
	f.t.Helper()
	for n := range keys {
		f.hits(of(fmt.Sprint(name, "-", n)), every(time.Second, 6)...)
	}
}

// awaitSomeListed waits until at least a third of some offenders are blocked.
func (r *river) awaitSomeListed(name string, keys int) {
	r.t.Helper()
	r.eventually("some are listed", func() error {
		listed, now := 0, r.list().now
		for n := range keys {
			if e := now[of(fmt.Sprint(name, "-", n))]; e != nil && e.Ended == 0 {
				listed++
			}
		}
		if listed < keys/3 {
			return fmt.Errorf("%d of %d are listed", listed, keys)
		}
		return nil
	})
}
