package request

import "strings"

// An haproxyLines parser reads HAProxy's log. A cookie that is captured is not escaped, nor is the name of TLS: a line with
// more quotes than those of the request is read from its ends, so that no cookie is taken for the request.
type haproxyLines struct{ all, ends Parser }

const haproxyQuotes = 2

func haproxyParser(o Options) (Parser, error) {
	all, err := scanned(layoutHAProxy)(o)
	if err != nil {
		return nil, err
	}
	o.Fields = o.fieldsIn(haproxyHead)
	ends, err := scanned(layoutHAProxyEnds)(o)
	return &haproxyLines{all, ends}, err
}

func (p *haproxyLines) Parse(line string, r *Request) error {
	if strings.Count(line, `"`) > haproxyQuotes {
		if _, message := CutSyslog(line); strings.Count(message, `"`) > haproxyQuotes {
			return p.ends.Parse(line, r)
		}
	}
	return p.all.Parse(line, r)
}

func (p *haproxyLines) Want(names []string) {
	p.all.Want(names)
	p.ends.Want(names)
}

func layoutHAProxyEnds(o Options) (layout, error) {
	l, err := nginxLayout(haproxyHead, o)
	l.escape, l.syslog, l.tail = escapeHash, true, true
	l.rest = &variable{name: moreField, text: "the rest of the line", always: true, raw: true, set: setHAProxyEnd}
	l.nameOwn()
	return l, err
}

// setHAProxyEnd takes the request that a line ends with, and the headers before it. Behind the request of httpslog the name
// of TLS may hold quotes, too: nothing tells then which of them are the request's.
func setHAProxyEnd(s *step, r *Request, text string) *Unread {
	text, ok := strings.CutSuffix(text, `"`)
	begin := strings.LastIndexByte(text, '"')
	if !ok || begin < 0 {
		return nil
	}
	_ = setCaptures(s, r, text[:begin])
	return setRequestLine(s, r, escapeHash.undo(text[begin+1:]))
}

func layoutHAProxy(o Options) (layout, error) {
	l, err := nginxLayout(haproxy, o)
	l.escape, l.syslog, l.tail = escapeHash, true, true
	l.rest = &variable{name: "ssl", text: "the rest of the line", always: true, set: setHAProxyTLS}
	l.nameOwn()
	for _, v := range variablesOf(l.tokens) {
		if v.name == "captures" {
			v.set, v.raw, v.always = setCaptures, true, true
		}
	}
	return l, err
}

// setCaptures takes the captured headers behind which the request follows: {of the request} {of the response}. One alone is
// taken for that of the request. HAProxy escapes the braces in them, and not in the cookies before them.
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

// lastBlock cuts the block in braces off with which a text ends, and the space behind it.
func lastBlock(text string) (rest, block string, ok bool) {
	text, ok = strings.CutSuffix(text, "} ")
	begin := strings.LastIndexByte(text, '{')
	if !ok || begin < 0 {
		return text, "", false
	}
	return text[:begin], text[begin+1:], true
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
