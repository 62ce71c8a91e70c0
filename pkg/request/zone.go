package request

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A zone is the part of a line in which a client can write text that looks like the end of a field. It is one variable
// that a client fills and that may contain the literal behind it, or several such variables and everything between
// them.
//
// A zone ends at a quote, which escaped text cannot contain, or with the line. From there its tail, which no client
// fills, is read backwards. That gives the end of the last variable, whatever it contains. So a client cannot move a
// field outside of a zone from inside it. Within a zone of several variables the boundaries are known only when none of
// them contains the end of a field; otherwise all of them are left empty. compile refuses a format with such a zone.
type zone struct {
	first, last int // the steps of the variables
	tail        int // the last step before the quote or the end of the line
	quote       int // where the quote stands in the literal of that step; -1 where the zone ends with the line
}

// fromClient reports whether the client chooses the variable's text, or a part of it, with spaces.
func (v *variable) fromClient() bool {
	for ; v != nil; v = v.next {
		switch {
		case v.ending == endWords, v.ending == endPair: // no spaces except their own
		case v.slot == slotUser || v.slot == slotAgent || v.slot == slotReferrer || v.slot == slotRequestLine,
			v.slot == slotPath && v.rank < rankSent, // decoded: /a%20b is /a b
			strings.HasPrefix(v.name, "http_"), strings.HasPrefix(v.name, "cookie_"),
			v.name == "captured_request_cookie", v.name == "proxy_add_x_forwarded_for", v.slot != slotIP && clientNames.MatchString(v.name):
			return true
		}
	}
	return false
}

// clientNames are further variables of nginx and Apache that have text of a client with spaces: of the TLS handshake,
// where a name of the server may contain anything, of the client's certificate, which some servers do not verify, of
// the body, also where nginx answers 400 to its length, and of the path after its decoding.
var clientNames = regexp.MustCompile(`^(ssl_server_name|ssl_preread_server_name|proxy_protocol_tlv_\w+|ssl_client_[si]_dn(_legacy)?|ssl_ech_outer_server_name|` +
	`(ssl|env)_ssl_(tls_sni|(client|remote)_\w+)|content_(type|length)|request_(filename|body)|fastcgi_(script_name|path_info)|` +
	`env_(http_\w+|content_(type|length)|remote_user|request_uri|script_ur[li]|path_(info|translated)))$`)

// mayBeSpaced reports whether older servers log spaces in the variable: nginx refuses a space in the URI since 1.21.1.
func (v *variable) mayBeSpaced() bool {
	return v.slot == slotPath && v.rank >= rankSent || v.slot == slotQuery || strings.HasPrefix(v.name, "arg_") || v.next != nil && v.next.mayBeSpaced()
}

// certificates are variables of nginx in which a client's certificate makes it write spaces: FAILED:self-signed certificate.
var certificates = regexp.MustCompile(`^ssl_client_(verify|v_start|v_end|cert|raw_cert)$`)

// mayTell reports whether the variable may say who the client is, or when.
func (v *variable) mayTell() bool {
	return v.slot == slotTime || v.slot == slotIP || v.slot == slotUser || v.slot == slotForwarded || v.slot == slotNone && v.took == nil && !spaceless.MatchString(v.name)
}

// redirects are headers of responses into which servers write the requested host and path.
var redirects = regexp.MustCompile(`^(sent|upstream)_http_location$`)

// unspaced reports whether the client chooses the variable's text, or a part of it, without spaces.
func (v *variable) unspaced(written escape) bool {
	for ; v != nil; v = v.next {
		anyMethod := v.slot == slotMethod && (v.text == "%m" || written == escapeHash) // nginx takes only letters and dashes
		if v.mayBeSpaced() || v.slot == slotHost && v.rank != rankServer || anyMethod || redirects.MatchString(v.name) {
			return true
		}
	}
	return false
}

// mayHave reports whether a client can write the literal next to the variable into its text, which is a URL, a host or a
// method. A question mark stands between path and query, and is no end of either.
func (v *variable) mayHave(next []token, written escape) bool {
	stops := "?"
	if v.slot == slotHost {
		stops += ":/"
	}
	switch written {
	case escapeBackslash:
		stops += `"\`
	case escapeHash:
		stops += `"#`
	}
	stop := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(stops, r) }
	return len(next) > 0 && strings.IndexFunc(next[0].literal, stop) < 0
}

// refuseLoose refuses URLs and hosts of HAProxy that only a zone could read. There are none: some of HAProxy's fields are
// not escaped, so a quote need not end them.
func (s *scanner) refuseLoose(variables []*variable) error {
	for i, v := range variables {
		if v.loose && !v.fromClient() {
			return s.forged(&zone{first: i, last: i}, variables)
		}
	}
	return nil
}

// addZones finds the zones of a format.
func (s *scanner) addZones(variables []*variable) error {
	// A client's text cannot pass the end of a segment, so every segment is judged by itself.
	for first := 0; first < len(s.steps); {
		tail, quote := s.segment(first)
		z := &zone{first: -1, tail: tail, quote: quote}
		for i := first; i <= tail; i++ {
			if variables[i].loose && (s.escape != escapeBackslash || s.steps[i].ending != endQuote) {
				if z.first < 0 {
					z.first = i
				}
				z.last = i
			}
		}

		if z.first < 0 {
			s.allowSpaces(first, z, variables)
		}
		s.guardMethod(first, z, variables)
		if z.first >= 0 {
			if err := s.addZone(first, z, variables); err != nil {
				return err
			}
		}

		first = tail + 1
	}

	return nil
}

// mayHaveSpaces reports whether the server may write spaces into the variable, as into $sent_http_content_type. A tail
// with it cannot be read backwards.
func (v *variable) mayHaveSpaces() bool {
	_, known := nginxVariables[v.name]
	return !known && v.took == nil && v.ending != endList && !spaceless.MatchString(v.name)
}

var spaceless = regexp.MustCompile(`^(request_(time|time_us|length|id)|connection(_requests)?|pipe|pid|scheme|` +
	`server_(addr|port|protocol)|remote_port)$`)

// allowSpaces makes a zone of the only variable of a segment in which an older server may log spaces. Several such
// variables are left as they are: newer servers are safe with them.
func (s *scanner) allowSpaces(first int, z *zone, variables []*variable) {
	for i := first; i <= z.tail; i++ {
		switch {
		case !variables[i].spaced:
		case z.first >= 0, s.escape != escapeBackslash, s.steps[i].ending == endQuote, i > first && variables[i-1].ending == endList,
			i < z.tail && variables[i+1].ending == endList, slices.ContainsFunc(variables[i+1:z.tail+1], (*variable).mayHaveSpaces):
			z.first = -1
			return
		default:
			z.first, z.last = i, i
		}
	}
}

// guardMethod puts nginx's $request_method into the zone where no zone stands before a field that tells the client or the
// time. Over HTTP/2, nginx answers 400 to a method such as "GET 192.0.2.1", and logs it.
func (s *scanner) guardMethod(first int, z *zone, variables []*variable) {
	for i := first; i <= z.tail; i++ {
		if variables[i].text != "$request_method" || s.escape == escapeBackslash && s.steps[i].ending == endQuote {
			continue
		}
		tells := i + 1
		for tells <= z.tail && !variables[tells].tells {
			tells++
		}
		if tells > z.tail || z.first > i && z.first <= tells {
			continue
		}
		if z.first < 0 {
			z.first = i
		}
		z.first, z.last, variables[i].loose = min(z.first, i), max(z.last, i), true
	}
}

// segment is the last step, from first on, that a client's text can move, and the index of the quote in its literal
// that ends the zone.
func (s *scanner) segment(first int) (tail, quote int) {
	for i := first; i < len(s.steps) && s.escape == escapeBackslash; i++ {
		if quote := strings.IndexByte(s.steps[i].literal, '"'); quote >= 0 {
			return i, quote
		}
	}
	return len(s.steps) - 1, -1
}

func (s *scanner) addZone(first int, z *zone, variables []*variable) error {
	// A list behind could begin in the client's text, and a list before could end there.
	listed := z.last < z.tail && variables[z.last+1].ending == endList && s.steps[z.last].literal[0] == ' ' ||
		z.first > first && variables[z.first-1].ending == endList && s.steps[z.first-1].literal[0] == ' '
	if z.first == z.last && !listed {
		// Nothing stands behind it that its text could imitate.
		if z.last == z.tail && s.steps[z.last].ending == endLine {
			return nil
		}

		// Between a name and the quote of the request stands a time that no name can be mistaken for.
		if next := z.last + 1; s.escape == escapeBackslash && next == z.tail && z.quote >= 0 && variables[next].slot == slotTime {
			s.steps[z.first].ending, s.free = endFree, z.first
			return nil
		}
	}

	if (z.first < z.last || listed) && !s.forgeable {
		return s.forged(z, variables)
	}
	s.steps[z.first].zone = z
	return nil
}

// forged is the error of a format in which one field can be written into another.
func (s *scanner) forged(z *zone, variables []*variable) error {
	var names []string
	for i := z.first; i <= z.last; i++ {
		if variables[i].loose {
			names = append(names, variables[i].text)
		}
	}
	if s.escape == escapeNone {
		return fmt.Errorf("with escape=none a client can write quotes, and so other fields, into %s: remove escape=none in the server's configuration and here, "+
			"or log JSON with escape=json", strings.Join(names, ", "))
	}
	return fmt.Errorf("a client can write other fields into %s: put quotes around %s in the server's configuration and here",
		strings.Join(names, " and "), strings.Join(names[:max(1, len(names)-1)], " and "))
}

// readZone reads the variables of a zone at the start of rest, and returns the text after the literal of the last one.
func (s *scanner) readZone(z *zone, rest string, written escape, r *Request) (string, *Unread) {
	size := s.zoneSize(z, rest, written)
	if size < 0 {
		return "", errFormat
	}

	// Up to a quote in the literal it is known to be there, and not behind it.
	after, ok := strings.CutPrefix(rest[size:], s.steps[z.last].literal)
	if !ok {
		return "", errFormat
	}

	// The variables stay empty. The line is still read: its client and time are outside.
	if !s.splits(z, rest[:size]) {
		return after, nil
	}

	for text, i := rest[:size], z.first; i <= z.last; i++ {
		end := len(text)
		if i < z.last {
			end = strings.Index(text, s.steps[i].literal)
		}
		if unread := s.steps[i].fill(r, text[:end], written); unread != nil {
			return "", unread
		}
		text = text[min(len(text), end+len(s.steps[i].literal)):]
	}

	return after, nil
}

// splits reports whether the text of a zone can be split among its variables in one way only.
func (s *scanner) splits(z *zone, text string) bool {
	for i := z.first; i < z.last; i++ {
		end := strings.Index(text, s.steps[i].literal)
		if end < 0 || s.couldEnd(z, text[:end]) {
			return false
		}
		text = text[end+len(s.steps[i].literal):]
	}
	return z.first == z.last || !s.couldEnd(z, text)
}

// couldEnd reports whether the text of a variable contains something that could be the end of one.
func (s *scanner) couldEnd(z *zone, text string) bool {
	for i := z.first; i < z.last; i++ {
		literal := s.steps[i].literal
		if strings.IndexByte(literal, '"') >= 0 {
			literal = `"`
		}
		if strings.Contains(text, literal) {
			return true
		}
	}
	return false
}

// zoneSize is the length of a zone's variables at the start of rest; negative when the line does not have the format.
func (s *scanner) zoneSize(z *zone, rest string, written escape) int {
	end, literal := len(rest), s.steps[z.tail].literal
	if z.quote >= 0 {
		from := 0
		if strings.HasPrefix(rest, `""`) { // Apache writes an empty name so
			from = 2
		}
		if end = unescapedQuote(rest[from:], written); end < 0 {
			return -1
		}
		end, literal = from+end, literal[:z.quote]
	}

	if !strings.HasSuffix(rest[:end], literal) {
		return -1
	}
	end -= len(literal)

	// Backwards from the end, which no client can move, each field of the tail ends where the one behind it begins.
	for i := z.tail; i > z.last && end >= 0; i-- {
		end = s.steps[i].before(rest[:end], s.steps[i-1].literal)
	}

	return end
}

// before is the index of the literal before the field at the end of text; negative when it is not there.
func (s *step) before(text, literal string) int {
	at := len(text)
	switch s.ending {
	case endCLF:
		// Shorter times, as HAProxy writes them, contain no space.
		if at -= clfBytes; at >= 0 && text[at+2] != '/' || at < 0 {
			at = strings.LastIndex(text, literal) + len(literal)
		}
		if at < len(literal) || !strings.HasSuffix(text[:at], literal) {
			return -1
		}
		return at - len(literal)
	case endPattern:
		for range strings.Count(string(s.pattern), literal) {
			at = strings.LastIndex(text[:max(at, 0)], literal)
		}
	}

	at = strings.LastIndex(text[:max(at, 0)], literal)
	for s.ending == endList && at > 0 && literal == " " {
		switch {
		case text[at-1] == ',':
		case text[at-1] == ':' && at > 1 && text[at-2] == ' ':
			at -= 2
		case strings.HasPrefix(text[at:], " : "):
		default:
			return at
		}
		at = strings.LastIndex(text[:at], literal)
	}

	return at
}
