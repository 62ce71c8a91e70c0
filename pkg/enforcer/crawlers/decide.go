package crawlers

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"weir/internal/address"
	"weir/pkg/blocklist"
)

// A crawler is an address that is let through, as long as a block needs it. Times are Unix milliseconds.
type crawler struct {
	until   int64 // when its allow ends
	needed  int64 // when its last known block ends
	renewed int64 // when to look it up again
}

// A failure is an address for which DNS had no answer, or that could not be allowed. Times are Unix milliseconds.
type failure struct {
	needed int64 // when its last known block ends
	again  int64 // when to look it up again
	pause  time.Duration
}

// knows reports whether the list says what people have allowed and blocked: not while all is paused, nor before it is complete.
func (f *Finder) knows(now int64) bool { return f.config.Set.Whole() && !f.config.Set.Paused("", now) }

// offer looks up an address that is refused until a time, unless that is not needed.
func (f *Finder) offer(client netip.Addr, until int64) (taken bool) {
	client = address.Plain(client).WithZone("")
	now := f.now()
	if !f.knows(now) {
		return false
	}
	said := f.config.Set.Check(&blocklist.Asked{IP: client}, now)
	if c := f.crawlers[client]; c != nil {
		if said.Allowed.Found() {
			c.needed = max(c.needed, until)
			return true
		}
		f.lose(client, c, said.Entry.Found(), now)
	}
	if was := f.failed[client]; was != nil {
		was.needed = max(was.needed, until)
		if was.again > now {
			return true
		}
	}
	if f.others.has(client, now) {
		return true
	}
	switch {
	case !said.Allowed.Found():
		return f.ask(client, until)
	case isOurs(said.Allowed.Order()) && len(f.crawlers) < mostCrawlers: // of another enforcer, or from before a restart
		f.crawlers[client] = newCrawler(said.Allowed.Until(), until)
	default:
		f.others.add(client, min(said.Allowed.Until(), now+otherFor.Milliseconds()))
	}
	return true
}

// isEnded reports whether the list has no allow of an address.
func (f *Finder) isEnded(client netip.Addr, now int64) bool {
	return f.knows(now) && !f.config.Set.Check(&blocklist.Asked{IP: client}, now).Allowed.Found()
}

// lose forgets a crawler whose allow is not on the list. If a person has ended that, and has not blocked it since, the crawler
// is let through again only when its last known block has ended.
func (f *Finder) lose(client netip.Addr, c *crawler, blocked bool, now int64) {
	delete(f.crawlers, client)
	if c.until > now && !blocked {
		f.others.add(client, c.needed)
	}
}

// reason begins the reason of an allow of a crawler.
const reason = "crawler "

func isOurs(o *blocklist.Order) bool { return strings.HasPrefix(o.Why, reason) }

// finish acts on an answer of DNS.
func (f *Finder) finish(r result) {
	needed, now := f.asked[r.address], f.now()
	delete(f.asked, r.address)
	switch {
	case r.err != nil:
		f.lookups.WithLabelValues("failed").Inc()
		f.faults.Note("dns", fmt.Errorf("looking up the name of a blocked address: %w", r.err))
		f.fail(r.address, needed, now)
	case r.crawler == "":
		f.lookups.WithLabelValues("other").Inc()
		delete(f.crawlers, r.address)
		delete(f.failed, r.address)
		f.others.add(r.address, now+otherFor.Milliseconds())
	default:
		f.lookups.WithLabelValues("crawler").Inc()
		f.allow(r, needed, now)
	}
}

// fail notes when to look up an address again that had no answer, or no allow.
func (f *Finder) fail(client netip.Addr, needed, now int64) {
	was := f.failed[client]
	switch {
	case f.crawlers[client] != nil: // tick has noted it
		return
	case was == nil && len(f.failed) >= mostFailed:
		f.others.add(client, now+failedFor.Milliseconds())
		return
	case was == nil:
		was = &failure{pause: failedFor / 2}
		f.failed[client] = was
	}
	was.needed, was.pause = max(was.needed, needed), min(2*was.pause, otherFor)
	was.again = now + was.pause.Milliseconds()
}

// allow lets a crawler through, unless a person has blocked it. Another enforcer may have been faster.
func (f *Finder) allow(r result, needed, now int64) {
	said := f.config.Set.Check(&blocklist.Asked{IP: r.address}, now)
	until := now + keptFor.Milliseconds()
	switch {
	case !f.knows(now):
		f.fail(r.address, needed, now)
		return
	case said.Entry.Found() || len(f.crawlers) >= mostCrawlers && f.crawlers[r.address] == nil:
		delete(f.crawlers, r.address)
		delete(f.failed, r.address)
		f.others.add(r.address, now+failedFor.Milliseconds())
		return
	case said.Allowed.Found() && said.Allowed.Until() > until-keptFor.Milliseconds()/2:
		until = said.Allowed.Until()
	default:
		if err := f.config.Allow(r.address, until, reason+r.crawler+": "+r.name); err != nil {
			f.faults.Note("allow", fmt.Errorf("letting a crawler through: %w", err))
			f.fail(r.address, needed, now)
			return
		}
	}
	delete(f.failed, r.address)
	f.crawlers[r.address] = newCrawler(until, needed)
}

func newCrawler(until, needed int64) *crawler {
	early := renewedBefore.Milliseconds()
	return &crawler{until: until, needed: needed, renewed: until - early + rand.Int64N(early/2)}
}

// A memory keeps addresses until a time, at least the newest mostOthers and at most twice as many.
type memory struct{ young, old map[netip.Addr]int64 }

func newMemory() memory { return memory{young: map[netip.Addr]int64{}} }

func (m *memory) add(client netip.Addr, until int64) {
	if len(m.young) >= mostOthers {
		m.young, m.old = map[netip.Addr]int64{}, m.young
	}
	m.young[client] = until
}

func (m *memory) has(client netip.Addr, now int64) bool {
	until, is := m.young[client]
	if !is {
		until = m.old[client]
	}
	return until > now
}
