package request

import (
	"fmt"
	"strings"
)

// apacheDirectives are the % directives that take no name.
var apacheDirectives = map[byte]variable{
	'h': {name: "remote_host", slot: slotIP, set: setAddress, rank: rankRewritten},
	'a': {name: "remote_addr", slot: slotIP, set: setAddress, rank: rankSent},
	'u': {name: "remote_user", slot: slotUser, set: setUser},
	'r': {name: "request", slot: slotRequestLine, set: setRequestLine},
	'm': {name: "request_method", slot: slotMethod, set: setMethod, rank: rankSent},
	'U': {name: "uri", slot: slotPath, set: setDecodedTarget, rank: rankRewritten},
	'q': {name: "query_string", slot: slotQuery, set: setQuery},
	'V': {name: "host", slot: slotHost, set: setHost, rank: rankRewritten, ending: endHost},
	'v': {name: "server_name", slot: slotHost, set: setHost, rank: rankServer, ending: endHost},
	's': {name: "status", slot: slotStatus, set: setStatus},
	'B': {name: "body_bytes_sent", slot: slotBytes, set: setBytes, rank: rankSent},
	'b': {name: "body_bytes_sent", slot: slotBytes, set: setBytesCLF, rank: rankRewritten},
	'O': {name: "bytes_sent", slot: slotBytes, set: setBytes, rank: rankServer},

	'A': {name: "server_addr"}, 'D': {name: "request_time_us", took: tookIn(inMicros), rank: rankSent}, 'f': {name: "request_filename"}, 'H': {name: "server_protocol"},
	'I': {name: "request_length"}, 'k': {name: "connection_requests"}, 'l': {name: "remote_logname"}, 'L': {name: "request_id"},
	'p': {name: "server_port"}, 'P': {name: "pid"}, 'R': {name: "handler"}, 'S': {name: "bytes_total"},
	'T': {name: "request_time", took: tookIn(inSeconds)}, 'X': {name: "connection_status"},
}

// apacheNamed are the directives that take a name in braces: %{Name}i.
var apacheNamed = map[byte]string{'i': "http_", 'o': "sent_http_", 'C': "cookie_", 'e': "env_", 'n': "note_", 'x': "ssl_"}

// apacheLayout reads a LogFormat: the directive, its quoted string, or the bare format.
func apacheLayout(format string, o Options) (layout, error) {
	l := layout{}
	text, err := apacheText(format)
	for err == nil && text != "" {
		percent := strings.IndexByte(text, '%')
		if percent < 0 {
			percent = len(text)
		}

		l.tokens = append(l.tokens, token{literal: text[:percent]})
		if text = text[percent:]; text == "" {
			break
		}

		var tokens []token
		tokens, text, err = apacheDirective(text, o)
		l.tokens = append(l.tokens, tokens...)
	}

	if err != nil {
		return layout{}, err
	}
	onlyFinest(variablesOf(l.tokens))

	// Only now are all pieces known that a time may be put together from.
	l.tokens, err = joinTimes(l.tokens)
	return l, err
}

// apacheText returns the format without its directive and quotes.
func apacheText(format string) (string, error) {
	rest, directive := strings.CutPrefix(format, "LogFormat")
	if directive {
		format = strings.TrimSpace(rest)
	}
	if !directive && !isQuotedOnce(format) || format == "" || format[0] != '"' {
		return unescapedConfig(strings.TrimRight(format, "\r\n")), nil
	}
	text, _, ok := cutQuoted(format)
	if !ok {
		return "", fmt.Errorf("the quote that opens %.20q is not closed", format)
	}
	return text, nil
}

// apacheDirective reads the directive that a % begins. The statuses that it applies to, and the choice between the
// first and the last internal request, change nothing: the value may be a dash in any case.
func apacheDirective(s string, o Options) (tokens []token, rest string, err error) {
	rest = strings.TrimLeft(s[1:], "!<>,0123456789")
	name := ""
	if strings.HasPrefix(rest, "{") {
		var ok bool
		if name, rest, ok = strings.Cut(rest[1:], "}"); !ok {
			return nil, "", fmt.Errorf("the brace in %.20q is not closed", s)
		}
		rest = strings.TrimLeft(rest, "!<>,0123456789")
	}

	if rest == "" {
		return nil, "", fmt.Errorf("nothing follows the %% in %.20q", s)
	}

	// The text keeps the modifiers that were skipped: an error shows the directive as the user wrote it.
	letter := rest[0]
	rest = rest[1:]
	text := s[:len(s)-len(rest)]
	switch letter {
	case '%':
		return []token{{literal: "%"}}, rest, nil
	case 't':
		tokens, err = apacheTime(name, text)
		return tokens, rest, err
	// %{Name}^ti and %{Name}^to: the letters behind the ^ would be taken for text of the line.
	case '^':
		return nil, "", fmt.Errorf("%s: trailers are not supported", text)
	}

	v, ok := apacheVariable(letter, name, o)
	if !ok {
		return nil, "", fmt.Errorf("%s: Apache has no such directive", text)
	}

	v.text = text
	return []token{{variable: &v}}, rest, nil
}

func apacheVariable(letter byte, name string, o Options) (variable, bool) {
	if prefix, ok := apacheNamed[letter]; ok && name != "" {
		return apacheHeader(letter, prefix+underscored(name), o), true
	}
	v, ok := apacheDirectives[letter]
	switch {
	case letter == 'a' && name == "c":
		v.name, v.rank = "realip_remote_addr", rankServer
	case letter == 'T' && name == "us":
		v.name, v.took, v.rank = v.name+"_us", tookIn(inMicros), rankSent
	case letter == 'T' && name == "ms":
		v.name, v.took, v.rank = v.name+"_ms", tookIn(inMillis), rankRewritten
	}

	if v.set == nil {
		v.set = setFurther
	}
	return v, ok
}

// apacheHeader treats a header as nginx's variable of the same name.
func apacheHeader(letter byte, name string, o Options) variable {
	if letter == 'i' || letter == 'o' {
		return *nginxVariable(name, o)
	}
	return variable{name: name, set: setFurther}
}
