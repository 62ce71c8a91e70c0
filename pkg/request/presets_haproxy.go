package request

import "strings"

func layoutHAProxy(o Options) (layout, error) {
	l, err := nginxLayout(haproxy, o)
	l.escape, l.syslog, l.tail = escapeHash, true, true
	l.rest = &variable{name: "ssl", text: "the rest of the line", always: true, set: setHAProxyTLS}
	l.nameOwn()
	for _, v := range variablesOf(l.tokens) {
		if v.name == "captures" {
			v.ending, v.set, v.raw, v.always = endCaptures, setCaptures, true, true
		}
	}
	return l, err
}

// capturesLength is the length of the captured headers that a text begins with: {of the request} {of the response}, or one
// of them, or nothing. HAProxy escapes the braces in them.
func capturesLength(s string) (size int) {
	for size < len(s) && s[size] == '{' {
		end := strings.IndexByte(s[size:], '}')
		if end < 0 {
			break
		}
		if size += end + 1; size < len(s) && s[size] == ' ' {
			size++
		}
	}
	return size
}

// setCaptures takes what is captured of the request, and of the response. One alone is taken for that of the request.
func setCaptures(_ *step, r *Request, text string) *Unread {
	for _, name := range [...]string{"captured_request_headers", "captured_response_headers"} {
		block, rest, ok := strings.Cut(text, "}")
		if !ok {
			break
		}
		r.add(name, escapeHash.undo(strings.TrimPrefix(block, "{")))
		text = strings.TrimPrefix(rest, " ")
	}
	return nil
}

// setHAProxyTLS takes what httpslog writes behind the request: codes of errors, and the name, version and cipher of TLS. The
// name is what the client says, and ends where the others begin.
func setHAProxyTLS(_ *step, r *Request, text string) *Unread {
	if text == "" {
		return nil
	}
	if text[0] != ' ' {
		return errFormat
	}
	codes, name, _ := strings.Cut(text[1:], " ")
	name, cipher := cutLast(name, '/')
	name, version := cutLast(name, '/')
	r.add("ssl_errors", codes)
	r.add("ssl_server_name", name)
	r.add("ssl_protocol", version)
	r.add("ssl_cipher", cipher)
	return nil
}

// cutLast cuts a text in two where a byte stands last.
func cutLast(text string, b byte) (before, after string) {
	at := strings.LastIndexByte(text, b)
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}
