package request

import (
	"fmt"
	"strings"
	"time"
)

// A timePattern is a strftime format of Apache's %{format}t, as one string of steps: the letter after a % defines what
// is read; all other text must match.
type timePattern string

// Letters that strftime does not have, for Apache's own fractions of a second.
const (
	patternMilli = "%3"
	patternMicro = "%6"
)

var apacheSecondParts = map[string]timePattern{"msec_frac": patternMilli, "usec_frac": patternMicro}

// apacheTime reads %t and %{format}t. Apache writes the time at which the request began, unless the format asks for its
// end.
func apacheTime(format, text string) ([]token, error) {
	v := &variable{text: text, slot: slotTime, beginning: true, rank: rankServer}
	if format == "end" || strings.HasPrefix(format, "end:") {
		v.beginning, v.rank = false, rankRequestLine
	}

	format = strings.TrimPrefix(strings.TrimPrefix(format, "begin:"), "end:")
	switch format {
	case "", "begin", "end":
		v.name, v.set, v.ending = "time_local", setTimeCLF, endCLF
		return []token{{literal: "["}, {variable: v}, {literal: "]"}}, nil
	case "sec", "msec", "usec":
		v.name, v.set, v.rank = format, setTimeUnix, v.rank+1
		return []token{{variable: v}}, nil
	}

	pattern, ok := apacheSecondParts[format]
	if !ok {
		var err error
		if pattern, err = newTimePattern(format); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
	}

	v.name = "time"
	v.set = setTimePattern
	v.ending = endPattern
	v.pattern = pattern
	return []token{{variable: v}}, nil
}

// newTimePattern translates a strftime format to the few letters that read knows.
func newTimePattern(format string) (timePattern, error) {
	format = strings.NewReplacer("%%", "%%", "%T", "%H:%M:%S", "%F", "%Y-%m-%d", "%R", "%H:%M", "%D", "%m/%d/%y", "%h", "%b").Replace(format)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		if i == len(format) || strings.IndexByte("YymdebHMSzs%", format[i]) < 0 {
			return "", fmt.Errorf("cannot read %%%s of a time; known are %%Y %%y %%m %%d %%e %%b %%H %%M %%S %%z %%s %%F %%T %%D %%R", format[i:min(i+1, len(format))])
		}
	}
	return timePattern(format), nil
}

// joinTimes makes one variable of the parts of a time that a LogFormat puts together:
// %{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t.
func joinTimes(tokens []token) ([]token, error) {
	tokens = joinLiterals(tokens)
	for i := 0; i < len(tokens); i++ {
		if !isTimePart(tokens, i) {
			continue
		}
		first := tokens[i].variable
		for {
			next, literal := i+1, ""
			if next < len(tokens) && tokens[next].variable == nil {
				next, literal = i+2, tokens[i+1].literal
			}
			if !isTimePart(tokens, next) {
				break
			}

			// A literal's percent sign is escaped, because it becomes part of a pattern.
			first.pattern += timePattern(strings.ReplaceAll(literal, "%", "%%")) + tokens[next].pattern
			first.text += literal + tokens[next].text
			tokens = append(tokens[:i+1], tokens[next+1:]...)
		}

		if !first.pattern.isWhole() {
			return nil, fmt.Errorf("%s: a time needs year, month, day, hour, minute and second, or %%s", first.text)
		}
	}

	return tokens, nil
}

func isTimePart(tokens []token, i int) bool {
	return i < len(tokens) && tokens[i].variable != nil && tokens[i].ending == endPattern
}

func (p timePattern) isWhole() bool {
	has := func(letter string) bool { return strings.Contains(string(p), "%"+letter) }
	return has("s") || (has("Y") || has("y")) && (has("m") || has("b")) && (has("d") || has("e")) && has("H") && has("M") && has("S")
}

// A patternReader contains the parts that a pattern has read so far.
type patternReader struct {
	civil
	rest    string
	unix    int64
	hasUnix bool
	zone    string
}

// read reads a time at the start of s and returns its length.
func (p timePattern) read(s string, zone *time.Location) (at int64, size int, ok bool) {
	r := patternReader{rest: s}
	for i := 0; i < len(p); i++ {
		if p[i] != '%' {
			ok = r.next(1) == string(p[i:i+1])
		} else {
			i++
			ok = r.field(p[i])
		}
		if !ok {
			return 0, 0, false
		}
	}

	at, ok = r.instant(zone)
	return at, len(s) - len(r.rest), ok
}

func (r *patternReader) instant(zone *time.Location) (int64, bool) {
	switch {
	case r.hasUnix:
		return within(r.unix*1000 + int64(r.milli))
	case r.zone != "":
		return r.at(r.zone)
	}
	return r.in(zone)
}

// field reads the text of one letter.
func (r *patternReader) field(letter byte) bool {
	switch letter {
	case 'Y':
		return r.number(&r.year, 4)
	case 'y':
		ok := r.number(&r.year, 2)
		r.year += 2000
		return ok
	case 'm':
		return r.number(&r.month, 2)
	case 'e':
		if strings.HasPrefix(r.rest, " ") {
			r.rest = r.rest[1:]
			return r.number(&r.day, 1)
		}
		return r.number(&r.day, 2)
	case 'd':
		return r.number(&r.day, 2)
	case 'H':
		return r.number(&r.hour, 2)
	case 'M':
		return r.number(&r.minute, 2)
	case 'S':
		return r.number(&r.second, 2)
	case '3':
		return r.number(&r.milli, 3)
	case '6':
		ok := r.number(&r.milli, 6)
		r.milli /= 1000
		return ok
	case '%':
		text := r.next(1)
		return text == "%"
	}

	return r.word(letter)
}

// word reads the fields that are not numbers of fixed length.
func (r *patternReader) word(letter byte) bool {
	switch letter {
	case 'b':
		name := r.next(3)
		if name != "" {
			r.month = month(name)
		}
		return r.month != 0
	case 'z':
		r.zone = r.next(5)
		return r.zone != ""
	}

	size := 0
	for size < len(r.rest) && r.rest[size]-'0' <= 9 {
		size++
	}

	r.unix, r.hasUnix = decimal(r.next(size))
	return r.hasUnix && r.unix < timeEnd/1000
}

// next is the next size bytes; empty when there are fewer.
func (r *patternReader) next(size int) string {
	if len(r.rest) < size {
		return ""
	}
	text := r.rest[:size]
	r.rest = r.rest[size:]
	return text
}

func (r *patternReader) number(into *int, digits int) bool {
	n, ok := decimal(r.next(digits))
	*into = int(n)
	return ok
}
