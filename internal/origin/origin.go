// Package origin keeps requests and keys with the host that they are meant for.
//
// Pages refuses requests that web pages of other origins make a browser send. On loopback it also refuses requests for
// a host that is not this machine: a page whose name is rebound to 127.0.0.1 sends its own name as Host. Stay prevents
// a client from sending an API key or a body to another host after a redirect.
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

// Pages refuses requests of web pages. The zero value refuses those of other origins.
type Pages struct {
	own   bool // answer only to this machine's names
	names []string
}

// Loopback returns the Pages of a listener that only this machine can reach and that asks for no key. It answers to
// localhost, to loopback addresses and to the given names, and to no other Host.
func Loopback(names []string) Pages { return Pages{own: true, names: names} }

// IsLoopback reports whether only this machine can reach a listener at the address: localhost, or a loopback address.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopbackHost(host)
}

// ErrHost and ErrPage are the reasons to refuse a request.
var (
	ErrHost = errors.New("is not a name of this machine, and no API key is asked for here")
	ErrPage = errors.New("a web page of another origin sent this request")
)

// Check returns an error for a refused request. It refuses nothing that comes over a unix socket.
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

// answersTo reports whether a Host is this machine. Probes by HTTP/1.0 send none, browsers always do.
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

// fromOtherPage reports whether a page of another origin sent a request. An address that the user opens in a browser,
// also by a link, is not such a request.
func fromOtherPage(r *http.Request) bool {
	// A request with an Origin was sent by a page, even if Sec-Fetch-Site says none.
	for _, from := range r.Header.Values("Origin") {
		page, err := url.Parse(from)
		if err != nil || page.Host == "" || !strings.EqualFold(page.Host, r.Host) {
			return true
		}
	}

	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin", "": // without it, the client is not a browser, or an old one
		return false
	}

	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !safe || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
