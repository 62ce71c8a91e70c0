package request

import (
	"strings"
	"time"
)

// Times are milliseconds since 1970, rounded down, and fit in 42 bits: until 2109-05-15. Every function here returns
// false for text that it cannot read to the last byte and for times out of range; none allocates.
const timeEnd = 1 << 42

// timeCLF reads 17/Apr/2018:06:25:06 +0000, with a fraction of the second or not; zone applies when none is written.
func timeCLF(s string, zone *time.Location) (int64, bool) {
	if len(s) < 20 || s[2] != '/' || s[6] != '/' || s[11] != ':' {
		return 0, false
	}
	c := civil{day: pair(s, 0), month: month(s[3:6]), year: pair(s, 7)*100 + pair(s, 9)}
	if !c.clock(s[12:20]) {
		return 0, false
	}

	rest := c.fraction(s[20:])
	if rest == "" {
		return c.in(zone)
	}
	if rest[0] != ' ' {
		return 0, false
	}

	return c.at(rest[1:])
}

// timeISO reads 2018-04-17T06:25:06.123+02:00 and its variants: a space for the T, no fraction, a comma before it,
// +0200, +02, Z; zone applies when none is written.
func timeISO(s string, zone *time.Location) (int64, bool) {
	var c civil
	if len(s) < 19 || !c.date(s[:10]) || s[10] != 'T' && s[10] != ' ' && s[10] != 't' || !c.clock(s[11:19]) {
		return 0, false
	}
	rest := c.fraction(s[19:])
	if rest == "" {
		return c.in(zone)
	}
	return c.at(strings.TrimPrefix(rest, " "))
}

// timeUnix reads seconds, milliseconds, microseconds or nanoseconds since 1970, with or without a fraction. The unit is
// the coarsest for which the number lies before timeEnd. This is unambiguous for times after February 1970.
func timeUnix(s string) (int64, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var plain [40]byte
		return timeExponent(s[:i], s[i+1:], plain[:0])
	}

	integer, fraction, _ := strings.Cut(s, ".")
	n, ok := decimal(integer)
	if !ok {
		return 0, false
	}

	milli, rest := 0, fraction
	if rest != "" {
		if milli, rest = milliseconds(rest); rest != "" {
			return 0, false
		}
	}

	switch {
	case n <= timeEnd/1000:
		return within(n*1000 + int64(milli))
	// In these units a fraction is less than a millisecond, and is dropped.
	case n < timeEnd:
		return n, true
	case n < timeEnd*1000:
		return n / 1000, true
	case n < timeEnd*1000*1000:
		return n / 1000 / 1000, true
	}

	return 0, false
}

// timeExponent reads 1.7000000001E9 by moving the point, since a floating point number would not round down correctly.
func timeExponent(mantissa, exponent string, plain []byte) (int64, bool) {
	places, ok := decimal(strings.TrimPrefix(exponent, "+"))
	integer, fraction, _ := strings.Cut(mantissa, ".")
	if !ok || places > 19 || len(integer) != 1 || len(fraction) > 19 {
		return 0, false
	}

	plain = append(plain, integer...)
	for i := range int(places) {
		digit := byte('0')
		if i < len(fraction) {
			digit = fraction[i]
		}
		plain = append(plain, digit)
	}

	if int(places) < len(fraction) {
		plain = append(append(plain, '.'), fraction[places:]...)
	}
	return timeUnix(Text(plain))
}

// timeAny reads a time of any known form.
func timeAny(s string, zone *time.Location) (int64, bool) {
	switch {
	case len(s) > 10 && s[2] == '/':
		return timeCLF(s, zone)
	case len(s) > 10 && s[4] == '-':
		return timeISO(s, zone)
	}
	return timeUnix(s)
}

// timeDay and timeOfDay read the columns date (2019-12-04) and time (21:02:31): their sum is the time in UTC.
func timeDay(s string) (int64, bool) {
	var c civil
	if len(s) != 10 || !c.date(s) {
		return 0, false
	}
	return c.utc()
}

func timeOfDay(s string) (int64, bool) {
	c := civil{year: 1970, month: 1, day: 1}
	if len(s) < 8 || !c.clock(s[:8]) || c.fraction(s[8:]) != "" {
		return 0, false
	}
	return c.utc()
}

// milliseconds reads the digits of a fraction and returns the text after them.
func milliseconds(digits string) (milli int, rest string) {
	unit := 100
	for i := 0; i < len(digits); i++ {
		if digits[i]-'0' > 9 {
			return milli, digits[i:]
		}
		milli += int(digits[i]-'0') * unit
		unit /= 10
	}
	return milli, ""
}

func within(at int64) (int64, bool) { return at, at >= 0 && at < timeEnd }

// pair is the number of the two digits at i.
func pair(s string, i int) int {
	tens, ones := s[i]-'0', s[i+1]-'0'
	if tens > 9 || ones > 9 {
		return wrong
	}
	return int(tens)*10 + int(ones)
}

// decimal reads a number that is all digits and fits.
func decimal(s string) (int64, bool) {
	if s == "" || len(s) > 18 && (len(s) > 19 || s > "9223372036854775807") {
		return 0, false
	}
	n := int64(0)
	for i := 0; i < len(s); i++ {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = n*10 + int64(digit)
	}
	return n, true
}
