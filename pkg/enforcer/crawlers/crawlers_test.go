package crawlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
	"weir/test/dns"
	"weir/test/running"
	"weir/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const allowing = `
rules: [{name: per-ip, key: ip, limits: [1/s]}]
crawlers: {monitor: [probes.example]}
allow: [{crawler: [googlebot, bingbot, monitor]}]
`

// A lab is a Finder over a list, whose allows are orders of that list.
type lab struct {
	*Finder
	t      *testing.T
	set    *blocklist.Set
	mu     sync.Mutex
	whys   []string
	full   atomic.Bool  // no allow can be made
	ahead  atomic.Int64 // of the clock
	offset int64
	active atomic.Pointer[rule.Set]
}

func (l *lab) rule(text string) {
	l.t.Helper()
	rules, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		l.t.Fatal(err)
	}
	l.active.Store(rules)
}

func newLab(t *testing.T, server string, addresses ...string) *lab {
	t.Helper()
	l := &lab{t: t, offset: 1000}
	l.rule(allowing)
	var entries []*blocklist.Entry
	for _, address := range addresses {
		entries = append(entries, blocked(address, time.Hour))
	}
	l.set = running.List(1, entries...)
	l.offset = l.set.Version().Offset
	l.Finder = New(Config{Set: l.set, Rules: l.active.Load, Server: server, Allow: l.allow, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: prometheus.NewRegistry(), Now: l.now})
	return l
}

func (l *lab) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
}

func (l *lab) now() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }

func (l *lab) allow(client netip.Addr, until int64, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full.Load() {
		return errors.New("the disk is full")
	}
	l.whys = append(l.whys, client.String()+" "+why)
	return l.order(blocklist.OrderAllow, client.String(), until, why)
}

func (l *lab) order(kind blocklist.Kind, target string, until int64, why string) error {
	now := l.now().UnixMilli()
	return l.set.Order(&blocklist.Order{ID: fmt.Sprint(now), Kind: kind, Scope: "ip", Value: target, From: now, Until: until, By: "someone", Why: why}, now)
}

// put puts a block on the list.
func (l *lab) put(e *blocklist.Entry) {
	l.t.Helper()
	value, err := e.Append(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.offset++
	if err := l.set.Apply(l.now().UnixMilli(), blocklist.Change{Offset: l.offset, Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) passes(client string) bool {
	return l.set.Check(&blocklist.Asked{IP: netip.MustParseAddr(client)}, l.now().UnixMilli()).Allowed.Found()
}

func (l *lab) looked(result string) int {
	return int(testutil.ToFloat64(l.lookups.WithLabelValues(result)))
}

func (l *lab) allowed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.whys))
}

func blocked(key string, lasts time.Duration) *blocklist.Entry {
	from := time.Now().Add(-time.Second).UnixMilli()
	return &blocklist.Entry{ID: blocklist.ID("per-ip", key, from, 1), Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: from, Until: from + lasts.Milliseconds(),
		Decided: from, Limit: "1/s", Count: 2, Level: 1, By: "weir"}
}

// names are those of a crawler, and of addresses that only claim to be one.
var names = []string{
	"--host-record=crawl-1.googlebot.com,192.0.2.1",
	"--ptr-record=2.2.0.192.in-addr.arpa,crawl-1.googlebot.com",
	"--host-record=crawl-4.googlebot.com.evil.example,192.0.2.4",
	"--host-record=evilgooglebot.com,192.0.2.5",
	"--host-record=applebot.apple.com,192.0.2.6",
	"--host-record=One.Probes.Example,192.0.2.7",
	"--ptr-record=8.2.0.192.in-addr.arpa,nowhere.googlebot.com",
	"--host-record=msnbot-9.search.msn.com,2001:db8::9",
	"--host-record=crawl-10.googlebot.com,192.0.2.10",
	"--host-record=crawl-11.googlebot.com,192.0.2.11",
}

func TestOnlyAddressesThatTheirNameLeadsTo(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8", "2001:db8::9", "198.51.100.0/24")
	l.run()
	wait.Until(t, "all are looked up", func() bool { return l.looked("crawler")+l.looked("other")+l.looked("failed") == 9 })
	want := []string{"192.0.2.1 crawler googlebot: crawl-1.googlebot.com", "192.0.2.7 crawler monitor: one.probes.example", "2001:db8::9 crawler bingbot: msnbot-9.search.msn.com"}
	wait.Until(t, "the crawlers pass", func() bool { return slices.Equal(l.allowed(), want) })
	if l.looked("crawler") != 3 || l.looked("other") != 6 {
		t.Errorf("%d crawlers, %d others, %d failed", l.looked("crawler"), l.looked("other"), l.looked("failed"))
	}

	// A new entry, and a client that a check refuses because of its network.
	l.put(blocked("192.0.2.10", time.Hour))
	wait.Until(t, "a new entry's address passes", func() bool { return l.passes("192.0.2.10") })
	l.Saw(blocked("192.0.2.0/28", time.Hour), netip.MustParseAddr("::ffff:192.0.2.11"))
	wait.Until(t, "a refused client passes", func() bool { return l.passes("192.0.2.11") })
	if l.passes("192.0.2.2") || l.passes("192.0.2.12") {
		t.Error("others pass too")
	}

	// Known addresses are not looked up again.
	before := l.looked("crawler") + l.looked("other")
	for range 100 {
		l.Saw(blocked("192.0.2.0/28", time.Hour), netip.MustParseAddr("192.0.2.2"))
		l.Saw(blocked("192.0.2.0/28", time.Hour), netip.MustParseAddr("192.0.2.11"))
	}
	wait.Until(t, "all are read", func() bool { return len(l.seen) == 0 })
	if after := l.looked("crawler") + l.looked("other"); after != before {
		t.Errorf("%d look-ups more", after-before)
	}
}

func TestABlockByHandStays(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.1")
	if err := l.order(blocklist.OrderBlock, "192.0.2.0/29", blocklist.Never, "a scraper"); err != nil {
		t.Fatal(err)
	}
	l.run()
	wait.Until(t, "it is looked up", func() bool { return l.looked("crawler") == 1 })
	e := blocked("192.0.2.1", time.Hour)
	e.Source, e.Rule = blocklist.Manual, blocklist.ManualRule
	l.Saw(e, netip.MustParseAddr("192.0.2.10"))
	l.Saw(blocked("192.0.2.0/28", time.Hour), netip.MustParseAddr("192.0.2.11"))
	l.Saw(blocked("192.0.2.0/28", time.Hour), netip.Addr{})
	wait.Until(t, "another passes", func() bool { return l.passes("192.0.2.11") })
	if got := l.allowed(); len(got) != 1 || l.passes("192.0.2.1") || l.passes("192.0.2.10") {
		t.Errorf("%q pass", got)
	}
}

// While everything is paused, the list does not say what people have blocked: so nothing is looked up or allowed. Nor are
// crawlers forgotten, whatever is blocked meanwhile.
func TestAPauseOfEverythingChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.10")
	if l.step(); !l.passes("192.0.2.10") {
		t.Fatal("it does not pass")
	}
	for _, target := range []string{"192.0.2.1", "192.0.2.8/29"} {
		if err := l.order(blocklist.OrderBlock, target, blocklist.Never, "a scraper"); err != nil {
			t.Fatal(err)
		}
	}
	pause := &blocklist.Order{ID: "p", Kind: blocklist.OrderPause, Rule: blocklist.EveryRule, From: l.now().UnixMilli(), Until: l.now().Add(time.Hour).UnixMilli(), By: "ann", Why: "a mistake"}
	if err := l.set.Order(pause, l.now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.10", "192.0.2.11"} {
		l.put(blocked(client, 5*time.Hour))
		l.step()
	}
	l.found(t, "192.0.2.1") // its look-up had begun before
	if got := l.allowed(); len(got) != 1 || l.crawlers[netip.MustParseAddr("192.0.2.10")] == nil {
		t.Errorf("%q", got)
	}

	l.ahead.Add(int64(2 * time.Hour))
	l.step()
	if got := l.allowed(); len(got) != 1 || l.passes("192.0.2.1") || l.passes("192.0.2.11") || !l.passes("192.0.2.10") {
		t.Errorf("after it, %q", got)
	}
}

// found finishes the look-up of a crawler.
func (l *lab) found(t *testing.T, client string) {
	t.Helper()
	l.finish(result{address: netip.MustParseAddr(client), crawler: "googlebot", name: "crawl-1.googlebot.com"})
}

// A block by hand ends the allow of a crawler. After that block it is let through again, and not only when its allow would
// have ended.
func TestACrawlerAfterABlockByHand(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...))
	l.put(blocked("192.0.2.10", 5*time.Hour))
	if l.step(); !l.passes("192.0.2.10") {
		t.Fatal("it does not pass")
	}
	l.ahead.Add(int64(time.Minute))
	if err := l.order(blocklist.OrderBlock, "192.0.2.10", l.now().Add(time.Hour).UnixMilli(), "by mistake"); err != nil {
		t.Fatal(err)
	}

	l.put(blocked("192.0.2.10", 6*time.Hour))
	if l.step(); l.passes("192.0.2.10") {
		t.Fatal("a block by hand does not stand")
	}
	l.ahead.Add(int64(2 * time.Hour))
	l.put(blocked("192.0.2.10", 8*time.Hour))
	if l.step(); !l.passes("192.0.2.10") {
		t.Errorf("it does not pass after the block by hand: %q", l.allowed())
	}
}

// An allow that a person ends does not come back for as long as the block lasts, neither when a check refuses the crawler nor
// when the allow would have been renewed. It does with the next block.
func TestAnAllowThatAPersonEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...))
	l.put(blocked("192.0.2.10", 50*time.Hour))
	if l.step(); !l.passes("192.0.2.10") {
		t.Fatal("it does not pass")
	}
	l.ahead.Add(int64(time.Minute))
	if err := l.order(blocklist.OrderAllow, "192.0.2.10", l.now().UnixMilli()+1, "no crawler of ours"); err != nil {
		t.Fatal(err)
	}
	l.ahead.Add(int64(time.Second))
	for range 48 {
		if l.step(); l.passes("192.0.2.10") {
			t.Fatalf("it passes again: %q", l.allowed())
		}
		l.ahead.Add(int64(time.Hour))
	}
	l.offer(netip.MustParseAddr("192.0.2.10"), l.now().Add(time.Hour).UnixMilli())
	if l.step(); l.passes("192.0.2.10") {
		t.Fatalf("it passes again after a refusal: %q", l.allowed())
	}
	l.ahead.Add(int64(3 * time.Hour))
	l.put(blocked("192.0.2.10", 60*time.Hour))
	if l.step(); !l.passes("192.0.2.10") {
		t.Errorf("it does not pass when it is blocked again: %q", l.allowed())
	}
}

// An allow by a person needs no look-up, and takes no place of a crawler. One from before a restart is renewed.
func TestAnAllowThatIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.1", "192.0.2.2", "192.0.2.3")
	l.put(blocked("192.0.2.10", 100*time.Hour))
	if err := l.order(blocklist.OrderAllow, "192.0.2.0/29", blocklist.Never, "a customer"); err != nil {
		t.Fatal(err)
	}
	l.step()
	if l.looked("crawler") != 1 || l.looked("other") != 0 || len(l.crawlers) != 1 {
		t.Errorf("%d crawlers and %d others are looked up, %d are known", l.looked("crawler"), l.looked("other"), len(l.crawlers))
	}

	again := New(Config{Set: l.set, Rules: l.active.Load, Server: l.config.Server, Allow: l.allow, Logger: l.config.Logger, Metrics: prometheus.NewRegistry(), Now: l.now})
	l.Finder = again
	l.step()
	if l.looked("crawler") != 0 || len(l.crawlers) != 1 {
		t.Errorf("%d are looked up after a restart, %d are known", l.looked("crawler"), len(l.crawlers))
	}
	l.ahead.Add(int64(keptFor))
	l.step()
	if !l.passes("192.0.2.10") || l.looked("crawler") != 1 {
		t.Errorf("it is not renewed after %d look-ups", l.looked("crawler"))
	}
}

func TestRulesWithoutCrawlersAskNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.1")
	l.rule("rules: [{name: per-ip, key: ip, limits: [1/s]}]")
	l.tick()
	l.Saw(blocked("192.0.2.1", time.Hour), netip.MustParseAddr("192.0.2.1"))
	if l.follow() || len(l.seen) > 0 || len(l.queue) > 0 {
		t.Errorf("%d are seen, %d wait", len(l.seen), len(l.queue))
	}
	l.rule(allowing)
	l.run()
	wait.Until(t, "it is looked up with the new rules", func() bool { return l.passes("192.0.2.1") })
}

// A relay is between the Finder and the DNS server; while it is dead, it takes questions and never answers.
func relay(t *testing.T, server string, dead *atomic.Bool) string {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		question := make([]byte, 4096)
		for {
			n, from, err := socket.ReadFrom(question)
			if err != nil {
				return
			}
			if dead.Load() {
				continue
			}
			to, err := net.Dial("udp", server)
			if err != nil {
				continue
			}
			answer := make([]byte, 4096)
			to.SetDeadline(time.Now().Add(time.Second))
			to.Write(question[:n])
			if n, err = to.Read(answer); err == nil {
				socket.WriteTo(answer[:n], from)
			}
			to.Close()
		}
	})
	t.Cleanup(func() {
		socket.Close()
		running.Wait()
	})
	return socket.LocalAddr().String()
}

// While DNS is dead a block stands. It is lifted when DNS answers again.
func TestADeadServerLiftsNothing(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	dead.Store(true)
	l := newLab(t, relay(t, dns.Start(t, names...), &dead), "192.0.2.1")
	l.patience = 300 * time.Millisecond
	l.run()
	wait.Until(t, "it fails", func() bool { return l.looked("failed") == 1 })
	dead.Store(false)
	client := netip.MustParseAddr("192.0.2.1")
	l.Saw(blocked("192.0.2.1", time.Hour), client)
	wait.Until(t, "it is read", func() bool { return len(l.seen) == 0 })
	if l.passes("192.0.2.1") {
		t.Error("it passes without an answer")
	}
	wait.Until(t, "it is asked again", func() bool {
		l.ahead.Add(int64(time.Second))
		l.Saw(blocked("192.0.2.1", time.Hour), client)
		return l.passes("192.0.2.1")
	})
}

// However many addresses are refused, what waits is bounded, no one waits for DNS, and a crawler of another network is found.
func TestAFloodOfAddresses(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	dead.Store(true)
	l := newLab(t, relay(t, dns.Start(t, names...), &dead))
	l.patience = 200 * time.Millisecond
	l.run()
	wait.Until(t, "it runs", l.on.Load)
	flood := blocked("2001:db8::/32", time.Hour)
	for i := range 50_000 {
		l.Saw(flood, netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if waiting := l.waiting.Load(); waiting > mostOfNetwork {
		t.Errorf("%d wait", waiting)
	}
	if testutil.ToFloat64(l.dropped) == 0 {
		t.Error("none is dropped")
	}
	dead.Store(false)
	wait.Until(t, "the crawler passes", func() bool {
		l.ahead.Add(int64(time.Second))
		l.Saw(flood, netip.MustParseAddr("192.0.2.1"))
		return l.passes("192.0.2.1")
	})
}

func TestTheMemoryIsBounded(t *testing.T) {
	m := newMemory()
	one := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 5 * mostOthers {
		m.add(one(i), 100)
		if len(m.young)+len(m.old) > 2*mostOthers {
			t.Fatalf("%d and %d are kept", len(m.young), len(m.old))
		}
	}
	if last := 5*mostOthers - 1; !m.has(one(last), 99) || !m.has(one(last-mostOthers+1), 99) || m.has(one(last), 100) || m.has(one(0), 99) {
		t.Error("the newest are not kept until their time")
	}
}

// step does what Run does from one tick to the next.
func (l *lab) step() {
	l.tick()
	for l.follow() {
	}
	for len(l.queue) > 0 {
		l.finish(l.lookUp(l.t.Context(), l.take(), l.active.Load()))
	}
}

// A look-up that fails is tried again while the block lasts, less and less often, also if no check refuses the address.
func TestAFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	dead.Store(true)
	l := newLab(t, relay(t, dns.Start(t, names...), &dead), "192.0.2.1", "192.0.2.2")
	l.put(blocked("192.0.2.10", 10*time.Hour))
	l.patience = time.Millisecond
	for range 6 * 60 {
		l.step()
		l.ahead.Add(int64(time.Minute))
	}
	if n := l.looked("failed"); n < 6+6+10 || n > 6+6+12 { // of an hour, an hour and six hours
		t.Errorf("%d look-ups within 6 hours", n)
	}
	dead.Store(false)
	l.patience = patience
	l.put(blocked("192.0.2.11", 100*time.Hour))
	for range 61 {
		l.step()
		l.ahead.Add(int64(time.Minute))
	}
	if !l.passes("192.0.2.10") || !l.passes("192.0.2.11") || len(l.failed) > 0 {
		t.Errorf("%q pass, and %d are tried again", l.allowed(), len(l.failed))
	}
}

// An allow that cannot be made, as while the disk is full, is made later, also if no check refuses the address.
func TestAnAllowThatFailsIsMadeLater(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...))
	l.put(blocked("192.0.2.1", 10*time.Hour))
	l.full.Store(true)
	for range 5 {
		l.step()
		l.ahead.Add(int64(time.Minute))
	}
	if l.passes("192.0.2.1") {
		t.Fatal("it passes without an allow")
	}

	l.full.Store(false)
	for range 10 {
		l.step()
		l.ahead.Add(int64(time.Minute))
	}
	if !l.passes("192.0.2.1") || len(l.failed) > 0 {
		t.Errorf("%q pass, and %d are tried again", l.allowed(), len(l.failed))
	}
}

// An allow is renewed while a block needs it, and ends otherwise.
func TestAnAllowIsRenewedWhileABlockNeedsIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, dns.Start(t, names...), "192.0.2.1")
	l.put(blocked("192.0.2.10", 100*time.Hour))
	l.step()
	if !l.passes("192.0.2.1") || !l.passes("192.0.2.10") {
		t.Fatalf("%q pass", l.allowed())
	}
	for range 20 {
		l.ahead.Add(int64(2 * time.Hour))
		l.step()
	}
	if !l.passes("192.0.2.10") || l.passes("192.0.2.1") || len(l.crawlers) != 1 {
		t.Errorf("after 40 hours: %q passed, %d are known", l.allowed(), len(l.crawlers))
	}
	if n := strings.Count(strings.Join(l.allowed(), "\n"), "192.0.2.10 "); n > 3 {
		t.Errorf("%d allows in 40 hours", n)
	}
	for range 60 {
		l.ahead.Add(int64(2 * time.Hour))
		l.step()
	}
	if len(l.crawlers) > 0 || l.passes("192.0.2.10") {
		t.Error("an allow outlives what it was for")
	}
}
