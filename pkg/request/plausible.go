package request

import (
	"net/netip"
	"strings"
)

// minEphemeral is the first port that systems give to clients rather than to servers: Linux begins at 32768.
const minEphemeral = 32768

// judge returns an error for a request that the format has read from its line but that no server writes like this: the
// line has another format, which happens to fit. It is for detection only. Text from a client must not make its line
// unread, and in a format that a user has configured "- -" may be a name.
func (t *trial) judge(r *Request) error {
	if t.format == "host_combined" && !t.known {
		t.hosts.add(r.Host)
	}
	if r.Forwarded != "" {
		t.named++
		if _, last := lastEntry(r.Forwarded); !namesAddress(last) {
			t.strange++
		}
	}

	// In a log with more fields before the time, the dash of the identity or of the user becomes part of the name. In a
	// log with the header for the client in front, the beginning of a list becomes the host.
	port, _ := r.Field("server_port")
	doubted := !t.known && (strings.HasPrefix(r.User, "- ") || strings.HasSuffix(r.User, " -") || strings.Contains(r.Host, ",") || strings.Contains(port, ","))
	switch {
	case !t.known && t.format == "lighttpd" && r.Host == "":
		return errFormat
	case isHostIn(r, "remote_logname"), t.format == "host_combined" && !r.IP.IsValid(), t.loose && endsAsTraefik(r):
		return errFormat
	case strings.ContainsAny(r.Host, " \t\""), hostIsClient(r), serverPortOfClient(r):
		return errFormat
	case doubted:
		return errDoubted
	}

	return nil
}

// errDoubted is the error for a user or a host that a client may write like this, or that is two fields of another
// format. If a line of the same log has a user of one word and an ordinary host, there are no two fields.
var errDoubted = &Unread{errFormat.Reason, errFormat.text}

// endsAsTraefik reports whether a line ends as Traefik's common log does (1 "router" "http://server" 12ms). That format
// is refused because a client can write anything into it. So no log of Traefik is read as a format with a tail, however
// much of the sample an attacker has written.
func endsAsTraefik(r *Request) bool {
	more, ok := r.Field(moreField)
	before, isDuration := strings.CutSuffix(more, "ms")
	quoted := strings.TrimRight(before, "0123456789")
	return ok && isDuration && len(quoted) < len(before) && strings.HasSuffix(quoted, `" `) && strings.Count(quoted, `"`) >= 4
}

func namesAddress(entry string) bool {
	_, ok := forwardedAddress(entry)
	return ok
}

// isHostIn reports whether a further field is the name of a host, with a dot, or an address, perhaps the first of a
// list.
func isHostIn(r *Request, name string) bool {
	text, _ := r.Field(name)
	return strings.ContainsAny(text, ".:")
}

// hostIsClient reports whether the format's server name is in fact a client: an address with a port on which no server
// listens.
func hostIsClient(r *Request) bool {
	address, ok := parseAddress(r.Host)
	if !ok || !address.IsValid() {
		return false
	}
	port, ok := portIn(r, "server_port")
	return ok && port >= minEphemeral
}

// serverPortOfClient reports whether the client's port, as the format reads it, is one on which servers listen.
func serverPortOfClient(r *Request) bool {
	port, ok := portIn(r, "remote_port")
	return ok && port < minEphemeral
}

func portIn(r *Request, name string) (int64, bool) {
	text, ok := r.Field(name)
	port, digits := decimal(text)
	return port, ok && digits
}

// clientOf is the client of a line that was read.
func clientOf(r *Request, err error) netip.Addr {
	if err != nil {
		return netip.Addr{}
	}
	return r.IP
}
