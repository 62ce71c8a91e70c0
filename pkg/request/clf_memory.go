package request

import "time"

// A clfMemory is the minute of the line before. Most lines of a log have the same minute as the line before and differ
// only in the seconds.
type clfMemory struct {
	text  [clfBytes]byte // the time as it was written
	start int64          // of its minute, Unix ms
	known bool
}

const (
	clfBytes  = len("17/Apr/2018:06:25:06 +0000")
	clfMinute = len("17/Apr/2018:06:25:")
	clfZone   = clfMinute + len("06")
)

// time is timeCLF.
func (m *clfMemory) time(s string, zone *time.Location) (int64, bool) {
	if len(s) != clfBytes {
		return timeCLF(s, zone)
	}
	if second := pair(s, clfMinute); m.known && second < 60 && s[:clfMinute] == string(m.text[:clfMinute]) && s[clfZone:] == string(m.text[clfZone:]) {
		return m.start + int64(second)*1000, true
	}

	at, ok := timeCLF(s, zone)
	// A time with a fraction, or with a leap second, would give a wrong start of the minute.
	if second := pair(s, clfMinute); ok && s[clfZone] == ' ' && second < 60 && at+60_000 < timeEnd {
		copy(m.text[:], s)
		m.start, m.known = at-int64(second)*1000, true
	}

	return at, ok
}

// clfLength is the length of the time at the start of a text: of 17/Apr/2018:06:25:06 +0000, and of HAProxy's
// 25/Feb/2019:16:19:48.143, which has a fraction and no zone.
func clfLength(s string) int {
	if len(s) <= clfZone || s[clfZone] != '.' {
		return clfBytes
	}
	end := skipDigits(s, clfZone+1)
	if len(s) >= end+6 && s[end] == ' ' && (s[end+1] == '+' || s[end+1] == '-') {
		end += 6
	}
	return end
}
