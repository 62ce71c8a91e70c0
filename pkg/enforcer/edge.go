package enforcer

import (
	"net/http"
	"net/netip"
	"strings"

	"weir/pkg/request"
)

// An EdgeRequest is a request that an edge asks about by another protocol than HTTP.
type EdgeRequest struct {
	Edge   string     // the edge's own address and port
	Sender netip.Addr // who sent the request to the edge; not valid where the edge does not know an address

	Method, Host, Target string
	Header               func(name string) string // a header of the request by its lower-case name; several are joined
}

// described are the checks by EdgeRequest. They have the request itself, as those of Envoy over HTTP.
var described = &dialect{http.StatusTooManyRequests, http.StatusServiceUnavailable, []headerReader{{nil, readDescribed}}}

func readDescribed(q *request.Request, r *http.Request) {
	q.Method, q.Host = r.Method, r.Host
	setTarget(q, r.RequestURI)
}

// CheckFor answers whether a request may go on, as a check over HTTP does. The sender of the request is the last proxy in
// its header of clients, so what a client writes there counts only behind a trusted one.
func (e *Enforcer) CheckFor(w http.ResponseWriter, q *EdgeRequest) {
	ruling := e.ruling.Load()
	r := &http.Request{Method: q.Method, Host: q.Host, RequestURI: q.Target, RemoteAddr: q.Edge, Header: make(http.Header, len(ruling.headers))}
	for _, name := range ruling.headers {
		if value := q.Header(name.lower); value != "" {
			r.Header[name.canonical] = []string{value}
		}
	}

	if q.Sender.IsValid() {
		forwarded := q.Sender.String()
		if before := header(r, ruling.forwarded); before != "" {
			forwarded = before + ", " + forwarded
		}
		r.Header[ruling.forwarded] = []string{forwarded}
	}
	e.checkBy(ruling, w, r, described)
}

// A headerName is the name of a header in both forms.
type headerName struct{ canonical, lower string }

// nameHeaders notes the headers that checks read.
func (r *ruling) nameHeaders() {
	add := func(name string) {
		if name != "" {
			r.headers = append(r.headers, headerName{name, strings.ToLower(name)})
		}
	}
	for _, name := range []string{"User-Agent", "Referer", r.forwarded, r.userHeader, r.requestID} {
		add(name)
	}
	for _, f := range r.fields {
		add(f.header)
	}
}
