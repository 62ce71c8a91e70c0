package enforcer

import (
	"net/http"
	"net/netip"
	"strings"

	"weir/internal/address"
	"weir/pkg/request"
)

// A dialect describes the checks of one kind of edge: where the headers have the request, the status of a refusal, and that
// of one that is not the client's fault. Envoy takes 5xx for an error, and may let the request pass then.
//
// An edge sets one kind of headers, and passes on those of its client. On a path for several kinds, a request may carry
// headers of more than one. Then two senders wrote them, and the edge's cannot be recognised. Such a request is read in
// each way, and refused when any of the readings is refused.
type dialect struct {
	refusal, without int
	readers          []headerReader
}

// A headerReader reads a request from one kind of headers.
type headerReader struct {
	there func(r *http.Request) bool // whether the headers are there; nil: always
	read  func(q *request.Request, r *http.Request)
}

// checkPath is the path of checks. The kind of edge may follow it, and after envoy the path of the original request.
const checkPath = "/v1/check"

// The kinds of headers.
var (
	byForwarded = headerReader{hasForwarded, readForwarded}
	byURI       = headerReader{func(r *http.Request) bool { return header(r, "X-Original-Uri") != "" }, readOriginalURI}
	byURL       = headerReader{func(r *http.Request) bool { return header(r, "X-Original-Url") != "" }, readOriginalURL}
	byOddURL    = headerReader{hasOddURL, readOddURL}
	byItself    = headerReader{nil, readEnvoy}
)

// dialects are those with their own path. They read only headers that their edge sets itself, and ignore headers of
// other kinds from clients.
var dialects = map[string]*dialect{
	"nginx":         {http.StatusForbidden, http.StatusForbidden, []headerReader{byURI, byURL, byOddURL}},
	"ingress-nginx": {http.StatusForbidden, http.StatusForbidden, []headerReader{{nil, readOriginalURL}, byOddURL}},
	"traefik":       {http.StatusTooManyRequests, http.StatusServiceUnavailable, []headerReader{{nil, readForwarded}}},
	"caddy":         {http.StatusTooManyRequests, http.StatusServiceUnavailable, []headerReader{{nil, readCaddy}}},
	"envoy":         {http.StatusTooManyRequests, http.StatusTooManyRequests, []headerReader{byItself}},
}

// anyEdge is the dialect of checkPath itself, for edges without their own path.
func anyEdge(refusal int) *dialect {
	without := refusal
	if refusal == http.StatusTooManyRequests {
		without = http.StatusServiceUnavailable
	}
	return &dialect{refusal, without, []headerReader{byForwarded, byURI, byURL, byOddURL}}
}

// readerOf returns the first reader, at the index from or later, whose headers a request carries, and the index after
// it; nil when there is none. A request without any such header gets the first reader.
func (d *dialect) readerOf(from int, r *http.Request) (read func(*request.Request, *http.Request), next int) {
	for i := from; i < len(d.readers); i++ {
		if there := d.readers[i].there; there == nil || there(r) {
			return d.readers[i].read, i + 1
		}
	}
	if from == 0 {
		return d.readers[0].read, len(d.readers)
	}
	return nil, from
}

// dialectOf returns the dialect for a path: plain for checkPath itself; nil when there is none.
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

// asksCheck reports whether a path is a check's. It is called before any router, which would redirect paths of Envoy's
// clients with two slashes or dots.
func asksCheck(path string) bool {
	return strings.HasPrefix(path, checkPath) && (len(path) == len(checkPath) || path[len(checkPath)] == '/')
}

// readOriginalURI reads the headers of nginx's documented auth_request configuration.
func readOriginalURI(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Original-Method"), r.Host
	setTarget(q, header(r, "X-Original-Uri"))
}

// readOriginalURL reads the headers of ingress-nginx, which names the host in the URL.
func readOriginalURL(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Original-Method"), r.Host
	if host := setTarget(q, header(r, "X-Original-Url")); host != "" {
		q.Host = host
	}
}

// hasOddURL reports whether a question mark in ingress-nginx's URL may belong to the host: nginx takes one in the header Host,
// but no slash, and puts the path behind it. The URL looks the same if a client asks for http://host?query.
func hasOddURL(r *http.Request) bool {
	_, rest, _ := strings.Cut(header(r, "X-Original-Url"), "://")
	slash := strings.IndexByte(rest, '/')
	return slash >= 0 && strings.IndexByte(rest[:slash], '?') >= 0
}

// readOddURL reads the URL of ingress-nginx with the question mark as a part of the host.
func readOddURL(q *request.Request, r *http.Request) {
	readOriginalURL(q, r)
	_, rest, _ := strings.Cut(header(r, "X-Original-Url"), "://")
	slash := strings.IndexByte(rest, '/')
	q.Host = rest[:slash]
	setTarget(q, rest[slash:])
}

// readForwarded reads the headers of Traefik.
func readForwarded(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Forwarded-Method"), r.Host
	if hosts := r.Header["X-Forwarded-Host"]; len(hosts) > 0 {
		q.Host = hosts[0] // also an empty one: the Host of a check may be the enforcer's
	}
	setTarget(q, header(r, "X-Forwarded-Uri"))
}

// readCaddy reads the headers of Caddy. Its target may be the one that the client sent (orig_uri), in a form that servers
// in Go serve: scheme:/path, or host:port after CONNECT, which is passed on as /. A # is a part of the path.
func readCaddy(q *request.Request, r *http.Request) {
	readForwarded(q, r)
	target := header(r, "X-Forwarded-Uri")
	if colon := strings.IndexByte(target, ':'); colon > 0 && target[0] != '/' && !strings.HasPrefix(target[colon:], "://") {
		switch {
		case strings.HasPrefix(target[colon:], ":/"):
			setTarget(q, target[colon+1:])
		case q.Method == http.MethodConnect:
			setTarget(q, "/")
		}
	}
	if strings.IndexByte(q.Path, '#') >= 0 {
		q.Path = strings.ReplaceAll(q.Path, "#", "%23")
	}
}

func hasForwarded(r *http.Request) bool {
	return header(r, "X-Forwarded-Uri") != "" || header(r, "X-Forwarded-Method") != ""
}

// readEnvoy reads the request itself: Envoy sends the original method and host, and the original path after its
// path_prefix.
func readEnvoy(q *request.Request, r *http.Request) {
	q.Method, q.Host = r.Method, r.Host
	setTarget(q, strings.TrimPrefix(r.RequestURI, checkPath+"/envoy"))
}

// setTarget sets path and query from a request's target, and returns the host of a complete URL.
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

// header returns the first header of a canonical name.
func header(r *http.Request, name string) string {
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// joined returns all headers of a name as one list.
func joined(r *http.Request, name string) string {
	values := r.Header[name]
	if len(values) <= 1 {
		return header(r, name)
	}
	return strings.Join(values, ",")
}

// peer returns the address of the sender; not valid over a unix socket.
func peer(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return address.Plain(at.Addr())
}
