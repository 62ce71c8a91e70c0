package request

import "time"

// A civil is a date and time of day as written, not yet placed in a zone.
type civil struct{ year, month, day, hour, minute, second, milli int }

// wrong is a number outside the range of every field. It stands for text that is not a number.
const wrong = 1 << 20

// date reads 2018-04-17.
func (c *civil) date(s string) bool {
	c.year, c.month, c.day = pair(s, 0)*100+pair(s, 2), pair(s, 5), pair(s, 8)
	return s[4] == '-' && s[7] == '-'
}

// clock reads 06:25:06.
func (c *civil) clock(s string) bool {
	c.hour, c.minute, c.second = pair(s, 0), pair(s, 3), pair(s, 6)
	return s[2] == ':' && s[5] == ':'
}

// fraction reads .123456 or ,123456 at the start of s, if there is one, and returns the rest.
func (c *civil) fraction(s string) string {
	if len(s) < 2 || s[0] != '.' && s[0] != ',' || s[1]-'0' > 9 {
		return s
	}
	c.milli, s = milliseconds(s[1:])
	return s
}

// count is c in milliseconds as if its zone were UTC. A leap second is the first of the next minute.
func (c *civil) count() (int64, bool) {
	if c.month < 1 || c.month > 12 || c.day < 1 || c.day > daysIn(c.year, c.month) ||
		c.hour > 23 || c.minute > 59 || c.second > 60 || c.year < 1969 || c.year > 2109 {
		return 0, false
	}
	seconds := ((daysBefore(c.year, c.month)+c.day-1)*24+c.hour)*3600 + c.minute*60 + c.second
	return int64(seconds)*1000 + int64(c.milli), true
}

// utc is the instant of c when its zone is UTC.
func (c *civil) utc() (int64, bool) {
	at, ok := c.count()
	if !ok {
		return 0, false
	}
	return within(at)
}

// in is the instant of c in a zone. When clocks go back, an hour occurs twice; this is the first of them.
func (c *civil) in(zone *time.Location) (int64, bool) {
	at, ok := c.count()
	if !ok {
		return 0, false
	}
	if zone != nil && zone != time.UTC {
		at -= offsetAt(time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, 0, zone)) * 1000
	}
	return within(at)
}

// offsetAt is the offset of a local time's zone in seconds. For a time that occurs twice it is that of the first.
func offsetAt(local time.Time) int64 {
	_, offset := local.Zone()
	_, before := local.Add(-3 * time.Hour).Zone()
	if before > offset {
		earlier := local.Add(time.Duration(offset-before) * time.Second)
		if _, there := earlier.Zone(); there == before {
			return int64(before)
		}
	}
	return int64(offset)
}

// at is the instant of c with its zone as written: Z, UTC, +0200, +02:00, +02.
func (c *civil) at(zone string) (int64, bool) {
	at, ok := c.count()
	if !ok {
		return 0, false
	}
	if zone == "+0000" || zone == "Z" || zone == "z" || zone == "UTC" {
		return within(at)
	}
	minutes, ok := offset(zone)
	if !ok {
		return 0, false
	}
	return within(at - int64(minutes)*60_000)
}

// offset reads +0200, +02:00 or +02 as minutes east.
func offset(s string) (int, bool) {
	if len(s) < 3 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hours, minutes := pair(s, 1), 0
	switch {
	case len(s) == 5:
		minutes = pair(s, 3)
	case len(s) == 6 && s[3] == ':':
		minutes = pair(s, 4)
	case len(s) != 3:
		return 0, false
	}

	if hours > 23 || minutes > 59 {
		return 0, false
	}
	if s[0] == '-' {
		return -hours*60 - minutes, true
	}

	return hours*60 + minutes, true
}

// month is the number of a month's English name, or 0.
func month(name string) int {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for i := 0; i < len(names); i += 3 {
		if names[i] == name[0] && names[i+1] == name[1] && names[i+2] == name[2] {
			return i/3 + 1
		}
	}
	return 0
}

var monthStarts = [...]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	if month == 2 && leap(year) {
		return 29
	}
	return monthStarts[month] - monthStarts[month-1]
}

// daysBefore is the number of days from 1970 to the first of a month.
func daysBefore(year, month int) int {
	before := year - 1
	days := before*365 + before/4 - before/100 + before/400 - 719162 + monthStarts[month-1]
	if month > 2 && leap(year) {
		days++
	}
	return days
}
