package enforcer

import (
	"net/http"
	"net/netip"
	"strings"

	"weir/pkg/request"
)

// A dialect is how an edge asks: where the request that it asks about stands, and with which status it wants a
// refusal.
type dialect struct {
	refusal int
	read    func(q *request.Request, r *http.Request)
}

// checkPath is where edges ask. Behind it may stand which edge it is, and behind envoy the path that it was asked for.
const checkPath = "/v1/check"

// dialects are those that have a path of their own. What they read is what that edge sets itself: what a client sends
// under another edge's names is not looked at.
var dialects = map[string]*dialect{
	"nginx":   {refusal: http.StatusForbidden, read: readOriginal},
	"traefik": {refusal: http.StatusTooManyRequests, read: readForwarded},
	"caddy":   {refusal: http.StatusTooManyRequests, read: readForwarded},
	"envoy":   {refusal: http.StatusTooManyRequests, read: readEnvoy},
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

// readOriginal reads what nginx is told to send with auth_request, and what ingress-nginx sends.
func readOriginal(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Original-Method"), r.Host
	if host := header(r, "X-Original-Host"); host != "" {
		q.Host = host
	}
	target := header(r, "X-Original-Uri")
	if target == "" {
		target = header(r, "X-Original-Url")
	}
	setTarget(q, target)
}

// readForwarded reads what Traefik and Caddy send.
func readForwarded(q *request.Request, r *http.Request) {
	q.Method, q.Host = header(r, "X-Forwarded-Method"), r.Host
	if host := header(r, "X-Forwarded-Host"); host != "" {
		q.Host = host
	}
	setTarget(q, header(r, "X-Forwarded-Uri"))
}

// readEnvoy reads the request itself: Envoy asks with the method, the host and, behind its path_prefix, the path that
// it was asked with.
func readEnvoy(q *request.Request, r *http.Request) {
	q.Method, q.Host = r.Method, r.Host
	setTarget(q, strings.TrimPrefix(r.RequestURI, checkPath+"/envoy"))
}

// readEither reads whichever of both is there, for edges that were told no path of their own.
func readEither(q *request.Request, r *http.Request) {
	if header(r, "X-Forwarded-Uri") != "" || header(r, "X-Forwarded-Method") != "" {
		readForwarded(q, r)
		return
	}
	readOriginal(q, r)
	if forwarded := header(r, "X-Forwarded-Host"); forwarded != "" && q.Host == r.Host {
		q.Host = forwarded
	}
}

// setTarget sets host, path and query from a request's target, which may be a whole URL.
func setTarget(q *request.Request, target string) {
	if scheme := strings.Index(target, "://"); scheme > 0 && target[0] != '/' {
		rest := target[scheme+len("://"):]
		end := strings.IndexAny(rest, "/?")
		if end < 0 {
			end = len(rest)
		}
		q.Host, target = rest[:end], rest[end:]
	}
	q.Path, q.Query, _ = strings.Cut(target, "?")
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
	return at.Addr().Unmap().WithZone("")
}
