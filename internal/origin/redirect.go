package origin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

const mostRedirects = 10

// ErrRedirect reports a redirect to another host that was not followed.
var ErrRedirect = errors.New("API keys and bodies are not sent to another host")

// redirectError is an ErrRedirect that names the other host. It wraps nothing, because messages of the tool show only the
// error at the bottom.
type redirectError struct{ to string }

func (e redirectError) Error() string {
	return fmt.Sprintf("it redirects to %s, and %v: if you trust it, write that address", e.to, ErrRedirect)
}

func (e redirectError) Is(target error) bool { return target == ErrRedirect }

// Stay returns a copy of a client that does not follow a redirect to another host with an API key or a body. It follows
// one from http to https of the same host.
func Stay(c *http.Client) *http.Client {
	stays, before := *c, c.CheckRedirect
	stays.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		first := via[0]
		if confides(first, next) && !sameHost(first.URL, next.URL) {
			return redirectError{to: next.URL.Scheme + "://" + next.URL.Host}
		}
		if before != nil {
			return before(next, via)
		}
		if len(via) >= mostRedirects {
			return fmt.Errorf("it redirects more than %d times", mostRedirects)
		}
		return nil
	}

	return &stays
}

// confides reports whether a request carries data that is meant only for its host.
func confides(first, next *http.Request) bool {
	for _, field := range []string{"X-Api-Key", "Authorization", "Cookie"} {
		if first.Header.Get(field) != "" {
			return true
		}
	}
	return next.Method != http.MethodGet && next.Method != http.MethodHead
}

func sameHost(a, b *url.URL) bool {
	if a.Hostname() != b.Hostname() {
		return false
	}
	return a.Scheme == b.Scheme && portOf(a) == portOf(b) || a.Scheme == "http" && b.Scheme == "https"
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
