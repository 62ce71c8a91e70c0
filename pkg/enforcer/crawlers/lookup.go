package crawlers

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/address"
	"weir/pkg/rule"
)

func resolverOf(server string) *net.Resolver {
	r := &net.Resolver{PreferGo: true}
	if server != "" {
		var dialer net.Dialer
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, server)
		}
	}
	return r
}

// lookUp asks DNS for the names of an address, and whether one under a domain of a crawler leads back to it.
func (f *Finder) lookUp(ctx context.Context, client netip.Addr, rules *rule.Set) (r result) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	r.address = client
	names, err := f.resolver.LookupAddr(ctx, client.String())
	if err != nil && len(names) == 0 { // with an error and names, others were not valid
		r.err = f.temporary(err)
		return r
	}

	network := "ip6"
	if client.Is4() {
		network = "ip4"
	}
	followed := 0
	for _, name := range names {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		crawler := rules.CrawlerOf(name)
		if crawler == "" || followed == mostNames {
			continue
		}
		followed++
		found, err := f.resolver.LookupNetIP(ctx, network, name+".") // absolute: no domain is appended
		if slices.ContainsFunc(found, func(ip netip.Addr) bool { return address.Plain(ip) == client }) {
			return result{address: client, crawler: crawler, name: name}
		}
		if err != nil {
			r.err = errors.Join(r.err, f.temporary(err))
		}
	}
	return r
}

// temporary returns the error, unless it says that there is no such name.
func (f *Finder) temporary(err error) error {
	of := (*net.DNSError)(nil)
	if !errors.As(err, &of) {
		return err
	}
	if of.IsNotFound {
		return nil
	}
	if f.config.Server != "" {
		of.Server = f.config.Server // and not the system's, which it names
	}
	return of
}
