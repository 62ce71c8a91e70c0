package request

import "strings"

// A requestLine is the content of the first line of an HTTP request. Parts that are missing or unreadable are empty:
// binary rubbish has neither method nor path.
type requestLine struct{ method, host, path, query string }

// splitRequestLine splits METHOD TARGET PROTOCOL. The target may contain spaces, the protocol may be missing, and a
// bare path is a path. Spaces around the target are dropped: nginx and HAProxy serve a line with several.
func splitRequestLine(s string) requestLine {
	if s != "" && s[0] == '/' {
		return targetOf(requestLine{}, dropProtocol(s))
	}
	space := strings.IndexByte(s, ' ')
	if space <= 0 || !isMethod(s[:space]) {
		return requestLine{}
	}
	return targetOf(requestLine{method: known(s[:space])}, strings.Trim(dropProtocol(s[space+1:]), " "))
}

// dropProtocol cuts the last word off when it is a protocol, or the dash that stands for one.
func dropProtocol(s string) string {
	const protocol = " HTTP/1.1"
	if at := len(s) - len(protocol); at >= 0 && s[at:at+6] == " HTTP/" && s[at+6]-'0' <= 9 && s[at+7] == '.' && s[at+8]-'0' <= 9 {
		return s[:at]
	}

	s = strings.TrimRight(s, " ")
	space := strings.LastIndexByte(s, ' ')
	if space < 0 {
		return s
	}
	if last := s[space+1:]; last == "-" || strings.HasPrefix(last, "HTTP/") {
		return s[:space]
	}

	return s
}

// targetOf adds a request's target in one of its forms: /path?query, http://host/path?query, http:/path?query (which
// servers in Go serve), host:port (after CONNECT, which Caddy passes on with a path too), *.
func targetOf(l requestLine, target string) requestLine {
	target = known(target)
	// Only CONNECT has a target that is a host; "example.com:443" would otherwise be taken for a path.
	if l.method == "CONNECT" && (target == "" || target[0] != '/') {
		l.host = hostOnly(target)
		return l
	}

	if target != "" && target[0] != '/' {
		l.host, target = absolute(target)
	}
	// HAProxy passes on */path. An application that puts a host in front of it serves /path.
	if end := strings.IndexAny(target, "/?"); end > 0 && target[0] == '*' && target[end] == '/' {
		target = target[end:]
	}
	l.path = target
	if question := strings.IndexByte(target, '?'); question >= 0 {
		l.path, l.query = target[:question], target[question+1:]
	}

	// A URL without a path asks for the root, and Apache serves ?query so.
	if l.path == "" && (l.host != "" || target != "") && l.method != "" {
		l.path = "/"
	}

	return l
}

// absolute cuts scheme://user@host:port off a target, or scheme: before a path. It returns other targets unchanged.
func absolute(target string) (host, rest string) {
	colon := strings.IndexByte(target, ':')
	if colon <= 0 || !strings.HasPrefix(target[colon:], ":/") || !isMethod(target[:colon]) {
		return "", target
	}
	if !strings.HasPrefix(target[colon:], "://") {
		return "", target[colon+1:]
	}

	authority := target[colon+3:]
	end := 0
	for end < len(authority) && authority[end] != '/' && authority[end] != '?' {
		end++
	}

	return hostOnly(authority[:end]), authority[end:]
}

// hostOnly is an authority without user, port and trailing dot.
func hostOnly(authority string) string {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	colon := strings.LastIndexByte(authority, ':')
	switch bare := authority == "" || authority[0] != '['; {
	case colon < 0 || strings.IndexByte(authority[colon:], ']') >= 0:
	case bare && strings.IndexByte(authority, ':') < colon: // an IPv6 address without brackets has no port
	default:
		authority = authority[:colon]
	}
	return strings.TrimSuffix(authority, ".")
}

// isMethod reports whether s is a token of HTTP.
func isMethod(s string) bool {
	for i := 0; i < len(s); i++ {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenBytes = func() (is [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		is[b] = true
	}
	return is
}()
