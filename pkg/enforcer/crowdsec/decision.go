package crowdsec

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"net/netip"
	"strconv"
	"time"

	"weir/pkg/blocklist"
)

// A row is one decision: a value that a rule's entry refuses. A row in a table does not change, except for lastPass,
// which belongs to the table; it is replaced by another row.
type row struct {
	ID     int64        `json:"id"`
	Scope  string       `json:"scope"`
	Value  string       `json:"value"`
	Rule   string       `json:"rule"`
	Origin string       `json:"origin"`
	Entry  string       `json:"entry"` // its id
	Until  int64        `json:"until"`
	Added  int64        `json:"added"` // the revision since which bouncers should know it
	Again  int64        `json:"again"` // when to send it once more, because bouncers drop it too soon; 0: never
	prefix netip.Prefix // of Value, for addresses

	lastPass uint64 // the table's last refresh that found it
}

// The scopes of addresses, and of users; every other field is its own scope.
const (
	scopeIP    = "Ip"
	scopeRange = "Range"
	scopeUser  = "username"
)

// The origins.
const (
	originVerdict = "weir"
	originManual  = "manual"
)

// banned is the type of every decision.
const banned = "ban"

func originOf(e *blocklist.Entry) string {
	if e.Source == blocklist.Manual {
		return originManual
	}
	return originVerdict
}

// longest is the duration of a decision without an end: the longest that all bouncers can add to a date.
const longest = 10 * 365 * 24 * time.Hour

// remaining returns how long the decision still lasts, in whole seconds and at least one: bouncers treat zero as for
// ever.
func (r *row) remaining(nowMilli int64) time.Duration {
	if r.Until >= nowMilli+longest.Milliseconds() {
		return longest
	}
	return max(time.Duration(r.Until-nowMilli)*time.Millisecond, time.Second).Round(time.Second)
}

// liveDuration returns the remaining time for a live answer. Below a minute it has a fraction: some clients want a
// digit, any character and more digits before the unit, as in 47.001s and in 1m0s. The Lua bouncer could not read it in
// a stream.
func liveDuration(left time.Duration) time.Duration {
	if left < time.Minute {
		return left + time.Millisecond
	}
	return left
}

// past returns how long ago the decision ended, as a negative remaining time.
func past(endedMilli, nowMilli int64) time.Duration {
	return min(time.Duration(endedMilli-nowMilli)*time.Millisecond, -time.Second).Round(time.Second)
}

// append appends the decision as JSON, its keys in alphabetical order.
func (r *row) append(b []byte, duration time.Duration, withUUID bool) []byte {
	b = append(b, `{"duration":"`...)
	b = append(b, duration.String()...)
	b = append(b, `","id":`...)
	b = strconv.AppendInt(b, r.ID, 10)
	b = append(b, `,"origin":`...)
	b = appendString(b, r.Origin)
	b = append(b, `,"scenario":`...)
	b = appendString(b, r.Rule)
	b = append(b, `,"scope":`...)
	b = appendString(b, r.Scope)
	b = append(b, `,"type":"`+banned+`"`...)
	if withUUID {
		b = append(b, `,"uuid":"`...)
		b = r.appendUUID(b)
		b = append(b, '"')
	}

	b = append(b, `,"value":`...)
	b = appendString(b, r.Value)
	return append(b, '}')
}

// appendUUID appends a UUID (version 8) that is equal whenever the entry and the value are equal.
func (r *row) appendUUID(b []byte) []byte {
	hash := fnv.New128a()
	hash.Write([]byte(r.Entry + "\x00" + r.Scope + "\x00" + r.Value))
	var sum [16]byte
	hash.Sum(sum[:0])
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	for i, part := range [][]byte{sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}

	return b
}

func appendString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, _ := json.Marshal(text)
			return append(b, escaped...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
