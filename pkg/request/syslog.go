package request

import (
	"strings"
	"time"
)

// CutSyslog takes the header of a syslog record off (RFC 3164, RFC 5424, or as rsyslog writes files; with a
// priority or without). A record without one is all message.
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
		return "", record
	}
	// The tag that names the process ends in a colon and a space; the time before it has none. Where a quote comes
	// first there is no tag, and the colon is the message's.
	end := strings.Index(rest, ": ")
	if end >= 0 && strings.IndexByte(rest[:end], '"') < 0 {
		message = rest[end+2:]
		return record[:len(record)-len(message)], message
	}
	if len(rest) < len(record) {
		return cutSyslogHost(record, rest)
	}
	return "", record
}

// cutSyslogHost skips time and host, where no tag follows.
func cutSyslogHost(record, rest string) (header, message string) {
	time := strings.IndexByte(rest, ' ')
	if month(rest) != 0 {
		time = 15
	}
	_, message, ok := strings.Cut(rest[time+1:], " ")
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

// endOfElement is where an element of structured data that opens s is over.
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

// SyslogTime is the time in a header that CutSyslog gave, in Unix milliseconds. RFC 3164 writes neither year nor
// zone: zone is configured, and the year is the one that brings the time next to near.
func SyslogTime(header string, zone *time.Location, near time.Time) (int64, bool) {
	if priority := strings.IndexByte(header, '>'); strings.HasPrefix(header, "<") && priority > 0 {
		header = strings.TrimPrefix(header[priority+1:], "1 ")
	}
	if len(header) >= 15 && month(header) != 0 {
		return timeSyslog(header[:15], zone, near)
	}
	word, _, _ := strings.Cut(header, " ")
	return timeISO(word, zone)
}
