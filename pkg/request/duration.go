package request

import (
	"slices"
	"strings"
)

// Some servers log the time at which a request began, but write the line when it has ended. Counted by its beginning, a
// request that a client holds open would be late, or would block the client in the past. So where the line also has the
// request's duration, UnixMilli is the end: the beginning plus the duration.
//
// Only a field that the server itself fills is a duration. One that cannot be read, or that is negative or longer than
// maxTook, counts as none: the request is then counted by its beginning, and its line is still read.

// maxTook is the longest duration that is believed, in milliseconds: 30 days.
const maxTook = 30 * 24 * 3_600_000

// A durationUnit is the power of ten of a unit, in milliseconds.
type durationUnit int

const (
	inSeconds durationUnit = 3
	inMillis  durationUnit = 0
	inMicros  durationUnit = -3
	inNanos   durationUnit = -6
)

// milliseconds reads a number of a unit, with a fraction and an exponent or without, and rounds it down. It returns 0
// for what is not a duration.
func (unit durationUnit) milliseconds(text string) int64 {
	number, exponent := text, 0
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		var ok bool
		if exponent, ok = smallExponent(text[e+1:]); !ok {
			return 0
		}
		number = text[:e]
	}

	integer, fraction, _ := strings.Cut(number, ".")
	if integer == "" || skipDigits(integer, 0) < len(integer) || skipDigits(fraction, 0) < len(fraction) {
		return 0
	}

	// Moving the point keeps the number exact.
	took := int64(0)
	for i := range len(integer) + int(unit) + exponent {
		digit := byte('0')
		if i < len(integer) {
			digit = integer[i]
		} else if i-len(integer) < len(fraction) {
			digit = fraction[i-len(integer)]
		}
		if took = took*10 + int64(digit-'0'); took > maxTook {
			return 0
		}
	}

	return took
}

// smallExponent reads +11, -3 or 07.
func smallExponent(text string) (int, bool) {
	digits := strings.TrimLeft(text, "+-")
	n, ok := decimal(digits)
	if !ok || n > 99 || len(text)-len(digits) > 1 {
		return 0, false
	}
	if text[0] == '-' {
		n = -n
	}
	return int(n), true
}

// endAfter moves the time of r from the beginning of the request to its end.
func (r *Request) endAfter(took int64) {
	r.TookMilli = 0
	if _, ok := within(r.UnixMilli + took); ok && took > 0 && took <= maxTook {
		r.UnixMilli += took
		r.TookMilli = took
	}
}

// Began returns the time in the line, if UnixMilli is a later one: that of the request's end.
func (r *Request) Began() int64 { return r.UnixMilli - r.TookMilli }

// tookIn sets a further field that is a duration. Durations of one line add up.
func tookIn(unit durationUnit) setter {
	return func(s *step, r *Request, text string) *Unread {
		r.TookMilli += unit.milliseconds(text)
		return setFurther(s, r, text)
	}
}

// setHAProxyTimers reads TR/Tw/Tc/Tr/Ta. The last one is the time from the beginning of the request to its end, or with
// a plus sign (option logasap) to the moment in which the line was written.
func setHAProxyTimers(s *step, r *Request, text string) *Unread {
	_, total := cutLast(text, '/')
	r.TookMilli = inMillis.milliseconds(strings.TrimPrefix(total, "+"))
	return setFurther(s, r, text)
}

// measure makes the variables of durations count, if the time of the format is that of a request's beginning.
func measure(variables []*variable) {
	if !slices.ContainsFunc(variables, func(v *variable) bool { return v.slot == slotTime && v.beginning }) {
		return
	}
	for _, v := range variables {
		if v.took != nil && v.slot == slotNone {
			v.set, v.always = v.took, true
		}
	}
}

// onlyFinest keeps one of several variables that have the same duration in different units.
func onlyFinest(variables []*variable) {
	var finest *variable
	for _, v := range variables {
		if v.took != nil && (finest == nil || v.rank > finest.rank) {
			finest = v
		}
	}
	for _, v := range variables {
		if v != finest {
			v.took = nil
		}
	}
}

// A jsonTook is a jsonDuration with the slots of its paths; ended is -1 for none.
type jsonTook struct {
	of          jsonDuration
	slot, ended int
}

// took is the duration that belongs to a shape's time; nil when there is none, or the options take the time from
// elsewhere.
func (p *jsonParser) took(shape jsonShape) *jsonTook {
	of, ok := jsonDurations[shape.name]
	theirs, own := p.options.Fields[roleNames[roleTime]], strings.Fields(strings.ReplaceAll(shape.paths[roleTime], "#", ""))
	if !ok || theirs != "" && !slices.Contains(own, theirs) {
		return nil
	}
	took := &jsonTook{of: of, slot: p.scan.slot(of.path), ended: -1}
	if of.ended != "" {
		took.ended = p.scan.slot(of.ended)
	}
	return took
}

// tookAt is the duration of a request that began at a time. It does not reach beyond the time at which the request had
// ended.
func (p *jsonParser) tookAt(d *jsonTook, began int64) int64 {
	took := d.of.unit.milliseconds(strings.TrimSuffix(p.scan.textAt(d.slot), d.of.suffix))
	if d.ended < 0 {
		return took
	}
	if ended, ok := p.time(p.scan.textAt(d.ended), false); ok && ended >= began {
		took = min(took, ended-began)
	}
	return took
}
