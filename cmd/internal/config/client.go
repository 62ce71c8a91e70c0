package config

import (
	"strings"

	"weir/internal/yamlfile"
)

// Client says who the client of a request is. Collectors and enforcers read it alike.
type Client struct {
	// TrustedProxies are our own proxies: what they say in the header is believed, and the client is the rightmost
	// address there that is none of them. A list of addresses, prefixes and {file: path}, a prefix a line, reread
	// when it changes. Default: none, and the client is who connects.
	TrustedProxies yamlfile.Networks `yaml:"trusted_proxies"`
	// Header names who is behind a proxy; in logs it is the field that holds that header. Default: X-Forwarded-For.
	Header string `yaml:"header"`
}

// Validate checks that the header can be one.
func (c *Client) Validate(v yamlfile.Value) {
	if c.Header == "" || strings.ContainsAny(c.Header, " :\t\r\n") {
		v.Key("header").Faultf("write X-Forwarded-For, CF-Connecting-IP, True-Client-IP or X-Real-IP", "%q is no name of a header", c.Header)
	}
}
