package limited

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Places bound how many answers are made at the same time, in total and per address (IPv6: a /64), so that one client
// that reads slowly cannot take all of them. Loopback has no limit of its own. Places may be used by several goroutines
// at once.
type Places struct {
	all chan struct{}

	mu sync.Mutex
	of map[netip.Addr]*placesOf
}

// placesOf are the places of one address.
type placesOf struct {
	taken chan struct{}
	users int // that have or want one; the address is removed with its last one
}

// NewPlaces makes a number of places, half of them for one address.
func NewPlaces(n int) *Places {
	return &Places{all: make(chan struct{}, n), of: map[netip.Addr]*placesOf{}}
}

// All is the number of places.
func (p *Places) All() int { return cap(p.all) }

// Taken is the number of places that are taken.
func (p *Places) Taken() int { return len(p.all) }

// TryTake takes a place for a request, and does not wait.
func (p *Places) TryTake(r *http.Request) (leave func(), ok bool) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	return p.Take(done, r)
}

// Take takes a place for a request. If there is none, it waits until the context is done; ok is then false.
func (p *Places) Take(ctx context.Context, r *http.Request) (leave func(), ok bool) {
	from := requestSource(r)
	own := p.enter(from)
	if own != nil && !take(ctx, own.taken) {
		p.exit(from, own)
		return nil, false
	}

	if !take(ctx, p.all) {
		if own != nil {
			<-own.taken
			p.exit(from, own)
		}
		return nil, false
	}

	return func() {
		<-p.all
		if own != nil {
			<-own.taken
			p.exit(from, own)
		}
	}, true
}

// requestSource returns the unit of the limit per address, as for connections.
func requestSource(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	return Source(net.TCPAddrFromAddrPort(at))
}

// take takes a free place also when the context is done.
func take(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// enter returns the places of an address; nil when it has no limit of its own.
func (p *Places) enter(from netip.Addr) *placesOf {
	if !from.IsValid() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.of[from]
	if own == nil {
		own = &placesOf{taken: make(chan struct{}, max(1, cap(p.all)/2))}
		p.of[from] = own
	}
	own.users++
	return own
}

func (p *Places) exit(from netip.Addr, own *placesOf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(p.of, from)
	}
}
