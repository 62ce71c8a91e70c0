package request

import (
	"slices"
	"strings"
)

// hosts are the first words of the lines that host_combined reads. They may be X-Forwarded-For instead, with the proxy
// behind it ("%{X-Forwarded-For}i %h %l …"): the proxy would then be taken for the client.
type hosts struct {
	names, addresses int // lines that begin with a name, and lines that begin with an address or a list
	different        []string
}

// maxHostAddresses bounds the addresses by which a server with a name is also reached: IPv4, IPv6 and loopback.
const maxHostAddresses = 3

func (h *hosts) add(host string) {
	switch {
	case namesAddress(host) || strings.Contains(host, ","):
		h.addresses++
		if len(h.different) <= maxHostAddresses && !slices.Contains(h.different, host) {
			h.different = append(h.different, strings.Clone(host))
		}
	// Also written where a request has no X-Forwarded-For, by proxies that hide it, and for the peer of a unix socket.
	case host == "", host == "-", strings.EqualFold(host, "unknown"), host == "unix", host == "unix:":
	default:
		h.names++
	}
}

// shown reports whether the words are hosts. A client can write a name into X-Forwarded-For, and an address into Host.
// So one name is enough where the addresses can be the server's own; with more addresses, most lines must have a name.
func (h *hosts) shown() bool {
	return h.addresses == 0 || h.names >= h.addresses || h.names > 0 && len(h.different) <= maxHostAddresses
}
