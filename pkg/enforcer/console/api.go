package console

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

// maxAnswer bounds an answer of the API that a page shows.
const maxAnswer = 8 << 20

// An answer is an answer of the API. It is in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is for http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps bytes up to the bound.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(b) > maxAnswer {
		return 0, io.ErrShortWrite
	}
	return a.body.Write(b)
}

// ask sends a request to the enforcer's own API for a visitor.
func (c *Console) ask(from *http.Request, v *visitor, method, path string, query url.Values, body map[string]any) *answer {
	a := &answer{header: http.Header{}}
	c.config.API.ServeHTTP(a, c.request(from, v, method, path, query, body))
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a
}

// request makes a request to the API with the rights of a visitor. It has the address and the connection of the request
// that it comes from, because the API asks whether an order affects its caller.
func (c *Console) request(from *http.Request, v *visitor, method, path string, query url.Values, body map[string]any) *http.Request {
	ctx := from.Context()
	if v.session != nil {
		ctx = c.config.As(ctx, v.Name, v.Role)
	}
	var content io.Reader = http.NoBody
	if body != nil {
		text, _ := json.Marshal(body) // texts and booleans
		content = bytes.NewReader(text)
	}
	r, _ := http.NewRequestWithContext(ctx, method, path+"?"+query.Encode(), content) // the paths are constants
	r.RemoteAddr, r.TLS, r.Host, r.RequestURI = from.RemoteAddr, from.TLS, from.Host, r.URL.RequestURI()
	for name, values := range from.Header {
		switch name {
		case "Cookie", "Origin", "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "If-None-Match":
		default:
			r.Header[name] = values // of proxies, and the API key of a visitor without a session
		}
	}
	if v.session != nil { // a session counts, whatever key a proxy adds
		r.Header.Del("X-Api-Key")
		r.Header.Del("Authorization")
	}
	return r
}

// detail is the text of a problem document.
func (a *answer) detail() string {
	var problem struct{ Detail string }
	if json.Unmarshal(a.body.Bytes(), &problem) != nil || problem.Detail == "" {
		return http.StatusText(a.status)
	}
	return problem.Detail
}
