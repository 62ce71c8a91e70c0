package origin

import (
	"errors"
	"net/url"
	"strings"
)

var (
	// ErrUser reports a URL with a user or password.
	ErrUser = errors.New("a URL with a user or password is not taken, because logs and answers would show it; leave both out, and give an API key in its file")
	// ErrServer reports a text that is not the URL of an HTTP server.
	ErrServer = errors.New("not the URL of an HTTP server")
)

// Server parses the URL of an HTTP server.
func Server(text string) (*url.URL, error) {
	_, rest, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if strings.Contains(rest, "@") { // checked first, so that no other message shows the password
		return nil, ErrUser
	}
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, ErrServer
	}
	return at, nil
}
