package config

import (
	"net/netip"
	"strings"

	"weir/internal/network"
	"weir/internal/yamlfile"
)

// Client configures how the client of a request is found. Collectors and enforcers use it alike.
type Client struct {
	// TrustedProxies are our own proxies. Their header is trusted: the client is the rightmost address in it that is not a
	// trusted proxy. A list of addresses, prefixes and {file: path}, with one prefix a line, read again when it changes.
	// Default: none, and the client is the address that connects.
	TrustedProxies network.List `yaml:"trusted_proxies"`
	// Header is the header in which proxies name the client; in logs it is the field with that header. Default:
	// X-Forwarded-For.
	Header string `yaml:"header"`
}

// Validate checks that the header is a possible name, and warns of proxies that are half of the internet.
func (c *Client) Validate(v yamlfile.Value) {
	if c.Header == "" || strings.ContainsAny(c.Header, " :\t\r\n") {
		v.Key("header").Faultf("write X-Forwarded-For, CF-Connecting-IP, True-Client-IP or X-Real-IP", "%q is not the name of a header", c.Header)
	}
	for _, p := range c.TrustedProxies.Prefixes {
		if network.IsWide(p) {
			what, remedy := tooWide(p)
			v.Key("trusted_proxies").Warnf(remedy, "%s", what)
		}
	}
}

// tooWide says what follows if a prefix of trusted proxies has clients.
func tooWide(p netip.Prefix) (what, remedy string) {
	return p.String() + " is wide: each client in it can name any address as its own, and so evade rules and have others blocked", "name only your own proxies"
}
