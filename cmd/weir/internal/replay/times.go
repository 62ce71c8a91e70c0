package replay

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"weir/pkg/request"
)

// A timeMover puts another time into a line, in the form of the line's own time. It parses each new line again to make
// sure that its time is the new one, to the precision of the form, and that all other fields are unchanged.
type timeMover struct {
	check *request.Decoder
	zones []*time.Location // for times without a zone; tried in this order
	read  request.Request
	line  []byte
}

func newTimeMover(choice request.Choice, o request.Options) (*timeMover, error) {
	if choice.Envelope == "otlp" {
		return nil, fmt.Errorf("times in OTLP cannot be replaced: a record has several; leave out --now")
	}
	check, err := request.NewDecoder(choice.Envelope, choice.Format, o)
	if err != nil {
		return nil, err
	}
	m := &timeMover{check: check, zones: []*time.Location{time.UTC}}
	if o.Zone != nil && o.Zone != time.UTC {
		m.zones = []*time.Location{o.Zone, time.UTC}
	}
	return m, nil
}

// timeForms matches the forms of a time: 03/Mar/2026:08:00:00 +0000, 2026-03-03T08:00:00.123Z, and a number since 1970.
// Each may have a fraction of the second, and the first two may lack the zone.
var timeForms = regexp.MustCompile(`(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2})([.,]\d{1,9})?( ?[+-]\d{4})?` +
	`|(\d{4}-\d{2}-\d{2}([Tt \t])\d{2}:\d{2}:\d{2})([.,]\d{1,9})?( ?[Zz]| ?[+-]\d{2}(?::?\d{2})?)?` +
	`|(\d{10,19})(\.\d{1,9})?`)

// move returns the line with the time to, in Unix ms, valid until the next call. r is the request that was read from the
// line. ok is false when the line does not have its time in one piece, in a known form.
func (m *timeMover) move(line string, r *request.Request, to int64) (moved []byte, ok bool) {
	for from := 0; ; {
		at := timeForms.FindStringSubmatchIndex(line[from:])
		if at == nil {
			return nil, false
		}

		begin, end := from+at[0], from+at[1]
		for _, zone := range m.zones {
			// The line may have the time at which the request began: then to is the end.
			text, precise, ok := written(line[from:], at, to-r.TookMilli, zone)
			if !ok {
				continue
			}
			precise += r.TookMilli
			m.line = append(append(append(m.line[:0], line[:begin]...), text...), line[end:]...)
			if precise == r.UnixMilli && text == line[begin:end] || m.unchanged(r, precise, line[begin:end], text) {
				return m.line, true
			}
		}

		from = end
	}
}

// written returns the time to in the form of the match at, and the time rounded down to the form's precision.
func written(line string, at []int, to int64, zone *time.Location) (text string, precise int64, ok bool) {
	group := func(n int) string {
		if at[2*n] < 0 {
			return ""
		}
		return line[at[2*n]:at[2*n+1]]
	}

	switch {
	case at[2] >= 0:
		return civilTime(to, "02/Jan/2006:15:04:05", group(2), group(3), zone)
	case at[8] >= 0:
		return civilTime(to, "2006-01-02"+group(5)+"15:04:05", group(6), group(7), zone)
	}

	return numberTime(to, group(8), group(9))
}

// civilTime writes a date and a time with a fraction and a zone like those given.
func civilTime(to int64, layout, fraction, offset string, zone *time.Location) (string, int64, bool) {
	if offset != "" {
		var ok bool
		if zone, ok = fixedZone(strings.TrimSpace(offset)); !ok {
			return "", 0, false
		}
	}
	fraction, precise := likeFraction(to, fraction)
	return time.UnixMilli(to).In(zone).Format(layout) + fraction + offset, precise, true
}

// fixedZone returns the zone of an offset: Z, +0200, +02:00 or +02.
func fixedZone(offset string) (*time.Location, bool) {
	if strings.EqualFold(offset, "z") {
		return time.UTC, true
	}
	for _, layout := range []string{"-0700", "-07:00", "-07"} {
		if east, err := time.Parse(layout, offset); err == nil {
			_, seconds := east.Zone()
			return time.FixedZone("", seconds), true
		}
	}
	return nil, false
}

// numberTime writes a number since 1970, in the unit of a number with as many digits: seconds, ms, µs or ns.
func numberTime(to int64, digits, fraction string) (string, int64, bool) {
	switch len(digits) {
	case 10:
		fraction, precise := likeFraction(to, fraction)
		return fmt.Sprint(to/1000) + fraction, precise, true
	case 13, 16, 19:
		return fmt.Sprint(to) + strings.Repeat("0", len(digits)-13), to, fraction == ""
	}
	return "", 0, false
}

// likeFraction returns the fraction of the second with as many digits as another one, and the time rounded down to it.
func likeFraction(to int64, like string) (string, int64) {
	if like == "" {
		return "", to - to%1000
	}
	digits := len(like) - 1
	text := fmt.Sprintf("%03d000000", to%1000)[:digits]
	unit := int64(1)
	for range max(0, 3-digits) {
		unit *= 10
	}
	return like[:1] + text, to - to%unit
}

// unchanged parses the new line, and reports whether it differs from the old request only by the time.
func (m *timeMover) unchanged(old *request.Request, at int64, was, is string) bool {
	if m.check.Decode(request.Text(m.line), &m.read) != nil {
		return false
	}
	got := &m.read
	if got.UnixMilli != at || got.IP != old.IP || got.User != old.User || got.Method != old.Method || got.Host != old.Host ||
		got.Path != old.Path || got.Query != old.Query || got.Status != old.Status || got.Bytes != old.Bytes ||
		got.Agent != old.Agent || got.Referrer != old.Referrer || got.Forwarded != old.Forwarded || len(got.Fields) != len(old.Fields) {
		return false
	}

	for i, field := range got.Fields {
		before := old.Fields[i]
		if field.Name != before.Name || field.Value != before.Value && field.Value != strings.Replace(before.Value, was, is, 1) {
			return false
		}
	}

	return true
}
