package request

import (
	"net/netip"
	"strings"
)

// CutSyslog splits a syslog record into header and message (RFC 3164, RFC 5424, or as rsyslog writes files; with a
// priority or without; or a priority alone, as HAProxy's format short). A record without a header is all message.
func CutSyslog(record string) (header, message string) {
	rest := record
	if strings.HasPrefix(rest, "<") {
		end := strings.IndexByte(rest, '>')
		if end < 2 || end > 4 {
			return "", record
		}
		rest = rest[end+1:]
		if strings.HasPrefix(rest, "1 ") {
			return cutSyslog5424(record, rest)
		}
	}

	if !beginsWithSyslogTime(rest) {
		return record[:len(record)-len(rest)], rest
	}

	if message, ok := cutTag(rest); ok {
		return record[:len(record)-len(message)], message
	}
	if len(rest) < len(record) {
		return cutSyslogHost(record, rest)
	}

	return "", record
}

// cutTag is the text behind the tag that names the process: the first word after the time, or the second after a host, with
// a colon at its end. The rest may be text of a client that looks like a tag.
func cutTag(rest string) (message string, ok bool) {
	rest = rest[endOfSyslogTime(rest):]
	for range 2 {
		var word string
		if word, rest, ok = strings.Cut(strings.TrimLeft(rest, " "), " "); !ok {
			return "", false
		}
		if name, tagged := strings.CutSuffix(word, ":"); tagged && !strings.ContainsAny(name, `:"={}`) {
			return rest, true
		}
	}
	return "", false
}

// CutBareTag is the message of a record without the tag that a sender wrote without a colon ("web1 nginx 203.0.113.7 …").
// Such a tag looks like a word of the message: only the reader of the message can tell which it is. ok is false where the
// header has a tag, or the message begins with no name.
func CutBareTag(record, message string) (rest string, ok bool) {
	header := record[:len(record)-len(message)]
	if !strings.HasPrefix(header, "<") || !strings.HasSuffix(header, " ") || strings.HasSuffix(header, ": ") {
		return "", false
	}

	word, rest, ok := strings.Cut(message, " ")
	if !ok || !isSyslogTag(word+":") || !isLetter(word[0]) {
		return "", false
	}
	return rest, true
}

// CutTime is the message of a record whose header is a time alone, with or without a priority, as HAProxy's formats timed
// and iso write it. ok is false unless the message begins with an address and its port, which no host is. A time may also
// be the first field of a message: only the reader of the message can tell.
func CutTime(record string) (rest string, ok bool) {
	if end := strings.IndexByte(record, '>'); strings.HasPrefix(record, "<") && end >= 2 && end <= 4 {
		record = record[end+1:]
	}
	time, rest, _ := strings.Cut(record, " ")
	if _, ok = timeISO(time, nil); !ok {
		return "", false
	}

	client, _, _ := strings.Cut(rest, " ")
	_, err := netip.ParseAddrPort(client)
	return rest, err == nil
}

func isLetter(c byte) bool { return 'a' <= c|' ' && c|' ' <= 'z' }

// cutSyslogHost skips time and host, where no tag follows.
func cutSyslogHost(record, rest string) (header, message string) {
	_, message, ok := strings.Cut(rest[endOfSyslogTime(rest):], " ")
	if !ok {
		return "", record
	}
	return record[:len(record)-len(message)], message
}

// cutSyslog5424 skips version, time, host, application, process, message id and structured data.
func cutSyslog5424(record, rest string) (header, message string) {
	for range 6 {
		_, after, ok := strings.Cut(rest, " ")
		if !ok {
			return "", record
		}
		rest = after
	}

	for strings.HasPrefix(rest, "[") {
		end := endOfElement(rest)
		if end < 0 {
			return "", record
		}
		rest = rest[end:]
	}

	message = strings.TrimPrefix(strings.TrimPrefix(rest, "-"), " ")
	message = strings.TrimPrefix(message, "\ufeff")
	return record[:len(record)-len(message)], message
}

// endOfElement is the end of the element of structured data at the start of s.
func endOfElement(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return -1
}

func beginsWithSyslogTime(s string) bool {
	if len(s) < 16 {
		return false
	}
	if month(s) != 0 {
		return s[3] == ' ' && s[9] == ':' && s[15] == ' '
	}
	return s[4] == '-' && s[7] == '-' && s[10] == 'T'
}

// endOfSyslogTime is the end of the time at the start of s (see beginsWithSyslogTime), with the space behind it.
func endOfSyslogTime(s string) int {
	if month(s) != 0 {
		return len("Jan _2 15:04:05 ")
	}
	return strings.IndexByte(s, ' ') + 1
}

// cutSyslogLine removes the header that syslog daemons and journalctl write to files: priority, time, host and tag.
// Only the tag is required, and before it a time or a host. The tag decides, so that no text of a request can be
// mistaken for a header. Without a tag, time and host must stand before a client's address or an object.
func cutSyslogLine(line string) (message string, ok bool) {
	rest := line
	if strings.HasPrefix(rest, "<") {
		end := strings.IndexByte(rest, '>')
		if end < 2 || end > 4 {
			return "", false
		}
		if rest = rest[end+1:]; strings.HasPrefix(rest, "1 ") {
			header, message := cutSyslog5424(line, rest)
			return message, header != ""
		}
	}

	size := syslogTime(rest)
	rest = rest[size:]

	// Behind a time a host may stand before the tag; without a time it must. Quotes and braces begin a request.
	for words := 0; words < 2; words++ {
		if size > 0 && words == 1 && beginsRequest(rest) {
			return rest, true
		}
		end := strings.IndexByte(rest, ' ')
		if end <= 0 || rest[0] == '"' || rest[0] == '{' {
			return "", false
		}
		word := rest[:end]
		rest = rest[end+1:]
		if (size > 0 || words > 0) && isSyslogTag(word) {
			return rest, true
		}
	}

	return "", false
}

// beginsRequest reports whether the text behind time and host is the message: syslog-ng writes no tag for a file that it
// reads without one.
func beginsRequest(rest string) bool {
	if strings.HasPrefix(rest, "{") {
		return true
	}
	word, _, _ := strings.Cut(rest, " ")
	if word == "" || strings.Trim(word, "0123456789abcdefABCDEF.:") != "" { // an error would be allocated
		return false
	}
	_, err := netip.ParseAddr(word)
	return err == nil
}

// isSyslogTag reports whether a word is the name of a program, perhaps with its process, and a colon: nginx[2869]:
func isSyslogTag(word string) bool {
	name, ok := strings.CutSuffix(word, ":")
	if process, bracketed := strings.CutSuffix(name, "]"); bracketed {
		open := strings.LastIndexByte(process, '[')
		if open < 0 || skipDigits(process, open+1) < len(process) {
			return false
		}
		name = process[:open]
	}
	return ok && name != "" && !strings.ContainsAny(name, `:[]"={}`)
}

// syslogTime is the length of the time at the start of a line, and of the space behind it. The forms are RFC 3164's,
// also with a fraction; RFC 3339's, also with a weekday before it and a zone behind; and seconds since 1970.
func syslogTime(s string) int {
	if len(s) < 16 {
		return 0
	}
	if month(s) != 0 && s[3] == ' ' && s[9] == ':' && s[12] == ':' {
		return endOfWordAt(s, 15)
	}

	// "Tue 2018-04-17 06:25:06 UTC", as journalctl writes it: three words behind the weekday's.
	if weekday := strings.IndexByte(s[:5], ' '); weekday == 3 && s[8] == '-' && s[11] == '-' {
		day := endOfWordAt(s, 4)
		clock := endOfWordAt(s, day)
		return endOfWordAt(s, clock)
	}

	if end := endOfWordAt(s, 0); end > 0 {
		if _, ok := timeISO(s[:end-1], nil); ok {
			return end
		}

		// Ten digits: from 2001 on. A line of Squid begins the same way, but it has no tag.
		if digits := skipDigits(s, 0); digits == 10 && s[10] == '.' && skipDigits(s, 11) == end-1 {
			return end
		}
	}

	return 0
}

// endOfWordAt is the end of the word at i, with the space behind it; 0 when no space follows.
func endOfWordAt(s string, i int) int {
	space := strings.IndexByte(s[i:], ' ')
	if space < 0 {
		return 0
	}
	return i + space + 1
}
