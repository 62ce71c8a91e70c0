package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"weir/internal/origin"
	"weir/internal/yamlfile"
)

// ServerTLS configures connections to us.
type ServerTLS struct {
	// Cert is the file of the certificate that we show. Default: none, and connections are not encrypted.
	Cert string `yaml:"cert"`
	// Key is the file of the certificate's key.
	Key string `yaml:"key"`
	// Clients is the file of the roots that sign the certificates of clients that may connect. Default: none, and clients
	// need no certificate.
	Clients string `yaml:"clients"`
}

// URL returns the URL for an address that a part listens on with this configuration.
func (t *ServerTLS) URL(address string) string {
	if t.Cert != "" {
		return "https://" + reachable(address)
	}
	return "http://" + reachable(address)
}

// reachable returns the address to connect to for an address that a part listens on.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if host != "" && (err != nil || !ip.IsUnspecified()) {
		return address
	}
	return net.JoinHostPort("localhost", port)
}

// Validate checks that the files go together.
func (t *ServerTLS) Validate(v yamlfile.Value) {
	if (t.Cert == "") != (t.Key == "") {
		v.Faultf("give both or neither", "only one of cert and key is given")
	}
	if t.Clients != "" && t.Cert == "" {
		v.Key("clients").Faultf("add cert and key", "clients need a certificate, but the server has none")
	}
}

// checkListen returns what is wrong with an address to listen on.
func checkListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address to listen on; write it as 127.0.0.1:7401 or \"[::1]:7401\"", address)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && strings.Trim(host, "0123456789.") == "" {
		return fmt.Errorf("%q is not an address to listen on; %s is not an IP address", address, host)
	}
	return checkPort(port)
}

// guard adds a fault when an address that other machines can reach requires neither keys nor certificates. An empty
// address does not listen.
func guard(v yamlfile.Value, address, remedy string, guarded bool) {
	if address == "" {
		return
	}
	if err := checkListen(address); err != nil {
		v.Fault(err)
		return
	}
	if !guarded && !origin.IsLoopback(address) {
		v.Faultf(remedy, "%s can be reached from other machines without a key or a certificate", address)
	}
}

// checkHosts checks the names of hosts, and changes them to the form in which they are compared.
func (c *Config) checkHosts(v yamlfile.Value) {
	for i, host := range c.Hosts {
		if strings.ContainsAny(host, ":/* \t") || strings.Trim(host, ".") == "" {
			nth(v, i).Faultf("write it as weir.internal, without a scheme and a port", "%q is not the name of a host", host)
		}
		c.Hosts[i] = strings.TrimSuffix(strings.ToLower(host), ".")
	}
}
