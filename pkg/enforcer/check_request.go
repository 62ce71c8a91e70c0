package enforcer

import (
	"net/http"
	"net/netip"
	"strings"

	"weir/internal/address"
	"weir/pkg/request"
)

// A dialect is how an edge asks: where the request that it asks about stands, and with which status it wants a
// refusal.
//
// An edge sets one kind of headers, and passes on what its client sends. Where a path stands for several kinds, a request
// that bears headers of more than one was written by two hands, and which is the edge's cannot be known: it is read as
// each of them, and refused when it is refused as any.
type dialect struct {
	refusal  int
	readings []reading
}

// A reading is how a request is read from one kind of headers.
type reading struct {
	there func(r *http.Request) bool // nil: always
	read  func(q *request.Request, r *http.Request)
}

// checkPath is where edges ask. Behind it may stand which edge it is, and behind envoy the path that it was asked for.
const checkPath = "/v1/check"

// The kinds of headers.
var (
	byForwarded = reading{hasForwarded, readForwarded}
	byURI       = reading{func(r *http.Request) bool { return header(r, "X-Original-Uri") != "" }, readOriginalURI}
	byURL       = reading{func(r *http.Request) bool { return header(r, "X-Original-Url") != "" }, readOriginalURL}
	byItself    = reading{nil, readEnvoy}
)

// dialects are those that have a path of their own. What they read is what that edge sets itself: what a client sends
// under another edge's names is not looked at.
var dialects = map[string]*dialect{
	"nginx":         {http.StatusForbidden, []reading{byURI, byURL}},
	"ingress-nginx": {http.StatusForbidden, []reading{{nil, readOriginalURL}}},
	"traefik":       {http.StatusTooManyRequests, []reading{{nil, readForwarded}}},
	"caddy":         {http.StatusTooManyRequests, []reading{{nil, readForwarded}}},
	"envoy":         {http.StatusTooManyRequests, []reading{byItself}},
}

// anyEdge is the dialect of checkPath itself, for edges that have no path of their own.
func anyEdge(refusal int) *dialect { return &dialect{refusal, []reading{byForwarded, byURI, byURL}} }

// readingOf gives the first reading from the one numbered on whose headers a request bears, and the number of the next one;
// nil when there is none. A request without any such header is read as the first.
func (d *dialect) readingOf(from int, r *http.Request) (read func(*request.Request, *http.Request), next int) {
	for i := from; i < len(d.readings); i++ {
		if there := d.readings[i].there; there == nil || there(r) {
			return d.readings[i].read, i + 1
		}
	}
	if from == 0 {
		return d.readings[0].read, len(d.readings)
	}
	return nil, from
}

// dialectOf is the dialect that a path asks for: the one given for checkPath itself; nil when there is none such.
func dialectOf(path string, plain *dialect) *dialect {
	rest := path[len(checkPath):]
	if rest == "" {
		return plain
	}
	name, _, below := strings.Cut(rest[1:], "/")
	if below && name != "envoy" {
		return nil
	}
	return dialects[name]
}

// asksCheck says whether a path is a check's. It is asked before any router, which would redirect what Envoy's clients
// write with two slashes or dots.
func asksCheck(path string) bool {
	return strings.HasPrefix(path, checkPath) && (len(path) == len(checkPath) || path[len(checkPath)] == '/')
}

// readOriginalURI reads what nginx is configured to send with auth_request.
func readOriginalURI(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Original-Method"), r.Host
	setTarget(q, header(r, "X-Original-Uri"))
}

// readOriginalURL reads what ingress-nginx sends, which names the host in the URL.
func readOriginalURL(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Original-Method"), r.Host
	if host := setTarget(q, header(r, "X-Original-Url")); host != "" {
		q.Host = host
	}
}

// readForwarded reads what Traefik and Caddy send.
func readForwarded(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Forwarded-Method"), r.Host
	if host := header(r, "X-Forwarded-Host"); host != "" {
		q.Host = host
	}
	setTarget(q, header(r, "X-Forwarded-Uri"))
}

func hasForwarded(r *http.Request) bool {
	return header(r, "X-Forwarded-Uri") != "" || header(r, "X-Forwarded-Method") != ""
}

// readEnvoy reads the request itself: Envoy asks with the method, the host and, behind its path_prefix, the path that
// it was asked with.
func readEnvoy(q *request.Request, r *http.Request) {
	q.Method, q.Host = r.Method, r.Host
	setTarget(q, strings.TrimPrefix(r.RequestURI, checkPath+"/envoy"))
}

// setTarget sets path and query from a request's target, and gives the host of one that is a complete URL.
func setTarget(q *request.Request, target string) (host string) {
	if scheme := strings.Index(target, "://"); scheme > 0 && target[0] != '/' {
		rest := target[scheme+len("://"):]
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		host, target = rest[:end], rest[end:]
	}

	q.Path, q.Query, _ = strings.Cut(target, "?")
	if q.Path == "" && (host != "" || target != "") {
		q.Path = "/" // of http://host?query, which nginx passes on as ?query
	}
	return host
}

// header is the first header of a name that is canonical.
func header(r *http.Request, name string) string {
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// joined are all headers of a name, as one list.
func joined(r *http.Request, name string) string {
	values := r.Header[name]
	if len(values) <= 1 {
		return header(r, name)
	}
	return strings.Join(values, ",")
}

// peer is the address of whoever asks; none over a unix socket.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Plain(at.Addr())
}
