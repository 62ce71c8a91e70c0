package request

import "strings"

// An haproxyLines parser reads HAProxy's log. HAProxy escapes neither a captured cookie nor the name of TLS. A line
// with more quotes than those of the request is read from its ends, so that no cookie is mistaken for the request.
type haproxyLines struct{ twoParsers } // of all of a line, and of its ends

const haproxyQuotes = 2

func haproxyParser(o Options) (Parser, error) {
	all, err := scanned(layoutHAProxy)(o)
	if err != nil {
		return nil, err
	}
	o.Fields = o.fieldsIn(haproxyHead)
	ends, err := scanned(layoutHAProxyEnds)(o)
	return &haproxyLines{twoParsers{all, ends}}, err
}

func (p *haproxyLines) Parse(line string, r *Request) error {
	if strings.Count(line, `"`) > haproxyQuotes {
		if _, message := CutSyslog(line); strings.Count(message, `"`) > haproxyQuotes {
			return p.second.Parse(line, r)
		}
	}
	return p.first.Parse(line, r)
}

func layoutHAProxyEnds(o Options) (layout, error) {
	l, err := nginxLayout(haproxyHead, o)
	l.escape, l.syslog, l.tail = escapeHash, true, true
	l.rest = &variable{name: moreField, text: "the rest of the line", always: true, raw: true, set: setHAProxyEnd}
	l.nameOwn()
	return l, err
}

// setHAProxyEnd reads the request at the end of a line, and the headers before it. In httpslog the name of TLS behind
// the request may contain quotes too; then the request's own quotes cannot be found.
func setHAProxyEnd(s *step, r *Request, text string) *Unread {
	text, ok := strings.CutSuffix(text, `"`)
	begin := strings.LastIndexByte(text, '"')
	if !ok || begin < 0 {
		return nil
	}
	_ = setCaptures(s, r, text[:begin])
	return setHAProxyRequest(s, r, escapeHash.undo(text[begin+1:]))
}

// setHAProxyRequest is setRequestLine for a line that HAProxy wrote.
func setHAProxyRequest(s *step, r *Request, text string) *Unread {
	return setSplitLine(s, r, splitHAProxyRequest(text))
}

// splitHAProxyRequest splits METHOD TARGET PROTOCOL. From a request over HTTP/2, HAProxy makes the URL
// scheme://authority/path, and it serves what begins at the first slash. So a question mark in the authority, which is
// the client's, does not begin the query. A URL in HTTP/1 goes on to the server as it is, which reads it as all do.
func splitHAProxyRequest(text string) requestLine {
	line := splitRequestLine(text)
	_, rest, _ := strings.Cut(text, " ")
	target := dropProtocol(rest)
	_, url, isURL := strings.Cut(target, "://")
	if !isURL || line.method == "" || strings.TrimLeft(target, " ")[0] == '/' || strings.HasPrefix(rest[len(target):], " HTTP/1.") {
		return line
	}

	slash := strings.IndexByte(url, '/')
	if question := strings.IndexByte(url, '?'); question < 0 || slash < question {
		return line
	}

	return targetOf(requestLine{method: line.method, host: line.host}, url[slash:])
}

// readsHAProxyRequests has a layout read request lines as HAProxy writes them.
func readsHAProxyRequests(l layout) {
	for _, v := range variablesOf(l.tokens) {
		if v.slot == slotRequestLine {
			v.set = setHAProxyRequest
		}
	}
}

func layoutHAProxy(o Options) (layout, error) {
	l, err := nginxLayout(haproxy, o)
	l.escape, l.syslog, l.tail = escapeHash, true, true
	readsHAProxyRequests(l)
	l.rest = &variable{name: "ssl", text: "the rest of the line", always: true, set: setHAProxyTLS}
	l.nameOwn()
	for _, v := range variablesOf(l.tokens) {
		if v.name == "captures" {
			v.set, v.raw, v.always = setCaptures, true, true
		}
	}
	return l, err
}

// setCaptures reads the captured headers before the request: {of the request} {of the response}. A single block counts
// as that of the request. HAProxy escapes braces in headers, but not in the cookies before them.
func setCaptures(_ *step, r *Request, text string) *Unread {
	rest, last, ok := lastBlock(text)
	if !ok {
		return nil
	}
	if _, first, two := lastBlock(rest); two {
		r.add("captured_request_headers", escapeHash.undo(first))
		r.add("captured_response_headers", escapeHash.undo(last))
	} else {
		r.add("captured_request_headers", escapeHash.undo(last))
	}
	return nil
}

// lastBlock cuts the block in braces at the end of a text off, and the space behind it.
func lastBlock(text string) (rest, block string, ok bool) {
	text, ok = strings.CutSuffix(text, "} ")
	begin := strings.LastIndexByte(text, '{')
	if !ok || begin < 0 {
		return text, "", false
	}
	return text[:begin], text[begin+1:], true
}

// setHAProxyTLS reads the fields of httpslog behind the request: codes of errors, and the name, version and cipher of
// TLS. The client chooses the name, so it ends where the others begin.
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

// cutLast splits a text at the last occurrence of a byte.
func cutLast(text string, b byte) (before, after string) {
	at := strings.LastIndexByte(text, b)
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}
