// Package origin keeps requests and keys with the host that they are meant for.
//
// Pages refuses what web pages of other origins have a browser send, and, on loopback, requests for a host that is not
// this machine: a page whose name is rebound to 127.0.0.1 sends its own name as Host. Stay keeps a client from carrying
// an API key or a body along when it is redirected to another host.
//
// Nothing here starts a goroutine; everything may be used by several at once.
package origin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Pages refuses what pages in browsers send. The zero value refuses those of other origins.
type Pages struct {
	own   bool // only this machine's names are answered
	names []string
}

// Loopback is that of a listener that only this machine can reach and that asks for no key: it answers to localhost, to
// loopback addresses and to the names that are given, and to no other Host.
func Loopback(names []string) Pages { return Pages{own: true, names: names} }

// IsLoopback says whether only this machine can reach what listens there: localhost, or a loopback address.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

// ErrHost and ErrPage are why a request is refused.
var (
	ErrHost = errors.New("is not a name of this machine, and no API key is asked for here")
	ErrPage = errors.New("a web page of another origin sent this request")
)

// Check says why a request is refused. Nothing that comes over a unix socket is.
func (p Pages) Check(r *http.Request) error {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); ok && at != nil {
		return nil
	}
	if p.own && !p.answersTo(r.Host) {
		return fmt.Errorf("the Host %.100q %w: ask for localhost or 127.0.0.1, or add the name to hosts in weir.yaml", r.Host, ErrHost)
	}
	if fromOtherPage(r) {
		return ErrPage
	}
	return nil
}

// answersTo says whether a Host is this machine. Probes by HTTP/1.0 send none, browsers always do.
func (p Pages) answersTo(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "" || loopbackHost(host) || slices.Contains(p.names, host)
}

func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// fromOtherPage says whether a page of another origin sent a request. To open an address in a browser, by a link too, is
// no such request.
func fromOtherPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "": // no browser, or an old one
		from := r.Header.Get("Origin")
		if from == "" {
			return false
		}
		page, err := url.Parse(from)
		return err != nil || page.Host == "" || !strings.EqualFold(page.Host, r.Host)
	}

	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !safe || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
