// Package crawlers lets blocked crawlers through whose addresses prove by DNS who they are.
//
// A [Finder] looks up addresses that the blocklist refuses: those of new entries, if the key has exactly one address, and
// clients that checks refuse. An address is a crawler's if its name in DNS is under a domain of a crawler that the rules
// allow, and that name leads back to the address. The owner of an address can give it any name, but only the owner of the
// domain can make the name lead to the address. Such an address gets a manual entry, an allow, for keptFor. Nothing else
// changes: requests count as before, so a batch that is made again gets the same decisions, and rules go on to block the
// address. The allow hides these blocks at every edge. It is renewed while a block needs it, and ends by itself otherwise.
//
// Until DNS has answered, and when it does not, a block stands. A look-up takes at most patience. One that failed is tried
// again after failedFor, and then after twice as long each time, up to otherFor, while the block lasts. So is one whose
// allow cannot be made, as when the disk is full. An address that is no crawler's is remembered for otherFor. A block by
// hand is left alone. While everything is paused nothing is looked up or allowed: the list does not say then what people
// have blocked.
//
// At most atOnce look-ups run at the same time. At most mostWaiting addresses wait, and mostOfNetwork of each /24, or /48 of
// IPv6, so that one network cannot keep out all others. Further ones are dropped and counted: they are found again when
// they are refused once more, or when the list is read again. At least mostOthers addresses are remembered that are no
// crawlers', and at most mostCrawlers that are. At most mostFailed are tried again by themselves, and others when they are
// refused again.
//
// A walk over a list, at the start and when changes were missed, keeps a copy of its table until all addresses were taken.
//
// Saw never waits. Run starts a goroutine for each look-up, and ends when they have ended.
package crawlers

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

const (
	patience      = 3 * time.Second // for both directions together
	keptFor       = 24 * time.Hour
	renewedBefore = time.Hour // its end, or up to half of that later: enforcers do not renew an allow all at once
	otherFor      = time.Hour
	failedFor     = time.Minute
	every         = 10 * time.Second

	atOnce        = 16
	mostWaiting   = 4096
	mostOfNetwork = 64
	mostOthers    = 32768
	mostCrawlers  = 10_000
	mostFailed    = 1024
	mostNames     = 4 // that are followed, of those that one address has
)

// Config configures a Finder.
type Config struct {
	Set    *blocklist.Set
	Rules  func() *rule.Set // the active rules
	Server string           // of DNS, as host:port; the system's if it is empty
	// Allow lets an address through until a time (Unix milliseconds).
	Allow func(address netip.Addr, until int64, why string) error

	Logger  *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// A Finder finds crawlers.
type Finder struct {
	config   Config
	resolver *net.Resolver
	patience time.Duration
	faults   *telemetry.Faults
	seen     chan sighting
	on       atomic.Bool  // the rules allow crawlers
	waiting  atomic.Int64 // the length of queue
	dropped  prometheus.Counter
	lookups  *prometheus.CounterVec

	// Of Run's goroutine:
	rules    []rule.Crawler // nil before the first
	queue    []netip.Addr
	networks map[netip.Prefix]int // how many of each are in queue
	asked    map[netip.Addr]int64 // those in queue or being looked up, with the end of their block
	running  int
	others   memory
	crawlers map[netip.Addr]*crawler
	failed   map[netip.Addr]*failure
	list     following
}

// A sighting is a client that an entry refuses until a time.
type sighting struct {
	client netip.Addr
	until  int64
}

// A result is the answer about an address: no error and no crawler if it is another's.
type result struct {
	address       netip.Addr
	crawler, name string
	err           error
}

// New makes a Finder. It starts nothing: Run does.
func New(c Config) *Finder {
	f := &Finder{
		config: c, resolver: resolverOf(c.Server), patience: patience, faults: telemetry.NewFaults(c.Logger), seen: make(chan sighting, 1024),
		networks: map[netip.Prefix]int{}, asked: map[netip.Addr]int64{}, others: newMemory(), crawlers: map[netip.Addr]*crawler{}, failed: map[netip.Addr]*failure{},
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_enforcer_crawler_lookups_total",
			Help: "Addresses that were looked up in DNS, by result: a crawler's (crawler), not (other), or not known (failed)."}, []string{"result"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_enforcer_crawler_dropped_total", Help: "Addresses that found no room to wait."}),
	}
	for _, result := range []string{"crawler", "other", "failed"} {
		f.lookups.WithLabelValues(result)
	}
	c.Metrics.MustRegister(f.lookups)
	c.Metrics.MustRegister(f.dropped, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_enforcer_crawler_waiting", Help: "Addresses that wait to be looked up in DNS."},
		func() float64 { return float64(f.waiting.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_enforcer_crawler_waiting_capacity", Help: "How many of them can wait."}, func() float64 { return mostWaiting }))
	return f
}

// Saw notes a client that an entry refuses.
func (f *Finder) Saw(entry *blocklist.Entry, client netip.Addr) {
	if f == nil || !f.on.Load() || entry.Source != blocklist.Verdict || !client.IsValid() {
		return
	}
	select {
	case f.seen <- sighting{client, entry.Until}:
	default:
		f.dropped.Inc()
	}
}

// Run looks up addresses until the context is done.
func (f *Finder) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.list.end()
	results := make(chan result, atOnce)
	ticker := time.NewTicker(every)
	defer ticker.Stop()

	f.tick()
	changed, more := f.config.Set.Changed(), true
	for {
		if more {
			more = f.follow()
		}
		for f.running < atOnce && len(f.queue) > 0 {
			next := f.take()
			f.running++
			running.Go(func() { results <- f.lookUp(ctx, next, f.config.Rules()) })
		}

		var further <-chan struct{}
		if more && f.hasRoom() {
			further = ready
		}
		select {
		case <-further:
		case <-changed:
			changed, more = f.config.Set.Changed(), true
		case one := <-f.seen:
			f.offer(one.client, one.until)
		case one := <-results:
			f.running--
			f.finish(one)
		case <-ticker.C:
			f.tick()
			more = true
		case <-ctx.Done():
			return nil
		}
	}
}

// ready is always ready.
var ready = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// tick applies new rules, looks up crawlers again whose allow ends, and begins another walk over the list where one is
// needed.
func (f *Finder) tick() {
	now := f.now()
	if rules := f.config.Rules(); f.rules == nil || !slices.EqualFunc(rules.Crawlers, f.rules, rule.Crawler.Is) {
		f.rules, f.others = append([]rule.Crawler{}, rules.Crawlers...), newMemory()
		f.on.Store(len(rules.Crawlers) > 0)
		f.list.end()
		f.list.version = blocklist.Version{}
	}
	if !f.on.Load() {
		f.queue, f.networks = nil, map[netip.Prefix]int{}
		f.asked, f.crawlers, f.failed = map[netip.Addr]int64{}, map[netip.Addr]*crawler{}, map[netip.Addr]*failure{}
		f.waiting.Store(0)
	}
	for address, c := range f.crawlers {
		switch {
		case c.needed <= now:
			delete(f.crawlers, address)
		case c.until > now && f.isEnded(address, now):
			f.lose(address, c, f.config.Set.Check(&blocklist.Asked{IP: address}, now).Entry.Found(), now)
		case c.needed > c.until && c.renewed <= now:
			c.renewed = now + failedFor.Milliseconds()
			f.ask(address, c.needed)
		}
	}
	for address, was := range f.failed {
		switch {
		case was.needed <= now:
			delete(f.failed, address)
		case was.again <= now:
			f.ask(address, was.needed)
		}
	}
	if f.list.again && len(f.queue) == 0 && f.list.next == nil {
		f.list.version = blocklist.Version{}
	}
}

func (f *Finder) now() int64 { return f.config.Now().UnixMilli() }

// ask puts an address into the queue, if there is room.
func (f *Finder) ask(client netip.Addr, until int64) (taken bool) {
	if before, is := f.asked[client]; is {
		f.asked[client] = max(before, until)
		return true
	}
	network := networkOf(client)
	if len(f.queue) >= mostWaiting || f.networks[network] >= mostOfNetwork {
		f.dropped.Inc()
		return false
	}
	f.queue = append(f.queue, client)
	f.networks[network]++
	f.asked[client] = until
	f.waiting.Store(int64(len(f.queue)))
	return true
}

// take takes the first address out of the queue.
func (f *Finder) take() netip.Addr {
	first := f.queue[0]
	f.queue = f.queue[1:]
	network := networkOf(first)
	if f.networks[network]--; f.networks[network] == 0 {
		delete(f.networks, network)
	}
	f.waiting.Store(int64(len(f.queue)))
	return first
}

func networkOf(client netip.Addr) netip.Prefix {
	bits := 48
	if client.Is4() {
		bits = 24
	}
	network, _ := client.Prefix(bits)
	return network
}
