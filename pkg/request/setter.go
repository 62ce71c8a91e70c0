package request

import (
	"strings"
	"time"
)

// A slot is the meaning of a variable of a format. If several variables have the same one, the variable of the highest
// rank fills it and the others are further fields.
type slot uint8

const (
	slotNone slot = iota // a further field
	slotTime
	slotDay // of a time whose day stands in another field
	slotIP
	slotUser
	slotMethod
	slotHost
	slotPath
	slotQuery
	slotStatus
	slotBytes
	slotAgent
	slotReferrer
	slotForwarded
	slotRequestLine // method, path, query and host
	slots
)

// A slotSet has a bit for each slot in it.
type slotSet uint16

func (s slotSet) has(one slot) bool     { return s>>one&1 != 0 }
func (s slotSet) with(one slot) slotSet { return s | 1<<one }

// A setter stores the text of one field in a request.
type setter func(s *step, r *Request, text string) *Unread

// settersByWord implement Options.Fields: the setters for our fields when the options name their place.
var settersByWord = map[string]variable{
	"time":      {slot: slotTime, set: setTimeAny},
	"ip":        {slot: slotIP, set: setAddress},
	"user":      {slot: slotUser, set: setUser},
	"method":    {slot: slotMethod, set: setMethod},
	"host":      {slot: slotHost, set: setHost},
	"path":      {slot: slotPath, set: setTarget},
	"query":     {slot: slotQuery, set: setQuery},
	"status":    {slot: slotStatus, set: setStatus},
	"bytes":     {slot: slotBytes, set: setBytes},
	"agent":     {slot: slotAgent, set: setAgent},
	"referrer":  {slot: slotReferrer, set: setReferrer},
	"forwarded": {slot: slotForwarded, set: setForwarded},
}

// known is text, or empty for the dash that stands for nothing.
func known(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

// bare is the value of a header without the spaces and tabs around it. In HTTP they are not part of the value, and checks
// and most applications do not get them. But nginx logs the tabs, and a client would have many spellings of one key.
func bare(value string) string {
	if value == "" || value[0] > ' ' && value[len(value)-1] > ' ' {
		return value
	}
	return strings.Trim(value, " \t")
}

func setFurther(s *step, r *Request, text string) *Unread {
	r.add(s.name, text)
	return nil
}

// setMore stores the rest of a line, which must be separated from the text before it.
func setMore(s *step, r *Request, text string) *Unread {
	if text != "" && text[0] != ' ' {
		return errFormat
	}
	r.add(s.name, strings.TrimLeft(text, " "))
	return nil
}

func setTimeCLF(s *step, r *Request, text string) *Unread {
	at, ok := s.clf.time(text, s.local)
	return s.setLocal(r, text, at, ok)
}

func setTimeISO(s *step, r *Request, text string) *Unread {
	at, ok := timeISO(text, s.local)
	return s.setLocal(r, text, at, ok)
}

func setTimeUnix(_ *step, r *Request, text string) *Unread {
	at, ok := timeUnix(text)
	return setTime(r, at, ok)
}

func setTimeAny(s *step, r *Request, text string) *Unread {
	at, ok := timeAny(text, s.local)
	return s.setLocal(r, text, at, ok)
}

func setTime(r *Request, at int64, ok bool) *Unread {
	if !ok {
		return errTime
	}
	r.UnixMilli = at
	return nil
}

// setLocal is setTime for a time that may be local: it is settled once the line has been read.
func (s *step) setLocal(r *Request, text string, at int64, ok bool) *Unread {
	if s.local != time.UTC && !hasZone(text) {
		s.twice.zone = s.local
	}
	return setTime(r, at, ok)
}

// setDay and setTimeOfDay each add their part.
func setDay(_ *step, r *Request, text string) *Unread {
	day, ok := timeDay(text)
	return setTime(r, r.UnixMilli+day, ok)
}

func setTimeOfDay(_ *step, r *Request, text string) *Unread {
	clock, ok := timeOfDay(text)
	return setTime(r, r.UnixMilli+clock, ok)
}

func setAddress(_ *step, r *Request, text string) *Unread {
	var ok bool
	if r.IP, ok = parseAddress(text); !ok {
		return errAddress
	}
	return nil
}

func setAddressPort(_ *step, r *Request, text string) *Unread {
	var ok bool
	if r.IP, ok = parseAddressPort(text); !ok {
		return errAddress
	}
	return nil
}

// setBareAddress reads an address without a port.
func setBareAddress(s *step, r *Request, text string) *Unread {
	colon := strings.IndexByte(text, ':')
	if colon >= 0 && strings.LastIndexByte(text, ':') == colon || strings.HasPrefix(text, "[") {
		return errAddress
	}
	return setAddress(s, r, text)
}

func setUser(_ *step, r *Request, text string) *Unread {
	// Apache writes an empty name as two quotes.
	if text != `""` {
		r.User = known(text)
	}
	return nil
}

func setMethod(_ *step, r *Request, text string) *Unread {
	r.Method = known(text)
	return nil
}

func setHost(_ *step, r *Request, text string) *Unread {
	if host := hostOnly(known(text)); host != "" {
		r.Host = host
	}
	return nil
}

// setTarget reads a path with its query, or without.
func setTarget(_ *step, r *Request, text string) *Unread {
	path, query, _ := strings.Cut(known(text), "?")
	r.Path = path
	if query != "" {
		r.Query = query
	}
	return nil
}

// setDecodedTarget reads a path that the server decoded before writing it.
func setDecodedTarget(s *step, r *Request, text string) *Unread {
	unread := setTarget(s, r, text)
	r.PathDecoded = strings.ContainsAny(r.Path, "%#") // else decoding changes nothing
	return unread
}

func setQuery(_ *step, r *Request, text string) *Unread {
	if query := strings.TrimPrefix(known(text), "?"); query != "" {
		r.Query = query
	}
	return nil
}

func setStatus(_ *step, r *Request, text string) *Unread {
	if text == "-" || text == "" || text == "-1" {
		return nil
	}
	status, ok := decimal(text)
	if !ok || status > 999 {
		return errFormat
	}
	r.Status = int(status)
	return nil
}

func setBytes(_ *step, r *Request, text string) *Unread {
	if text == "-" || text == "" {
		return nil
	}
	bytes, ok := decimal(text)
	if !ok {
		return errFormat
	}
	r.Bytes = bytes
	return nil
}

// setBytesSoFar also reads HAProxy's "+2750": the bytes sent when the line was written, before the end of the response.
func setBytesSoFar(s *step, r *Request, text string) *Unread {
	return setBytes(s, r, strings.TrimPrefix(text, "+"))
}

// setBytesCLF reads the dash as 0, its meaning in the common log format.
func setBytesCLF(s *step, r *Request, text string) *Unread {
	if text == "-" {
		r.Bytes = 0
		return nil
	}
	return setBytes(s, r, text)
}

func setAgent(_ *step, r *Request, text string) *Unread {
	r.Agent = known(bare(text))
	return nil
}

func setReferrer(_ *step, r *Request, text string) *Unread {
	r.Referrer = known(bare(text))
	return nil
}

func setForwarded(_ *step, r *Request, text string) *Unread {
	r.Forwarded = known(text)
	return nil
}

// setForwardedList reads a list of addresses; the last is the client.
func setForwardedList(_ *step, r *Request, text string) *Unread {
	rest, last := lastEntry(text)
	address, ok := forwardedAddress(last)
	if rest == "" || !ok {
		return errAddress
	}
	r.Forwarded, r.IP = text, address
	return nil
}

// setRequestLine stores the parts of a request's first line that no variable of the format has more exactly.
func setRequestLine(s *step, r *Request, text string) *Unread {
	return setSplitLine(s, r, splitRequestLine(text))
}

func setSplitLine(s *step, r *Request, line requestLine) *Unread {
	if !s.better.has(slotMethod) {
		r.Method = line.method
	}
	if !s.better.has(slotPath) {
		r.Path = line.path
	}
	if !s.better.has(slotQuery) {
		r.Query = line.query
	}
	if r.Host == "" {
		r.Host = line.host
	}

	return nil
}

// setTimePattern reads with the format's own pattern, which the scanner has used before to find the end.
func setTimePattern(s *step, r *Request, text string) *Unread {
	at, size, ok := s.pattern.read(text, s.local)
	return setTime(r, at, ok && size == len(text))
}
