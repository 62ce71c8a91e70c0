// Package duration reads and writes durations as Weir's users write them: 10m, 1h30m, 2d, forever. Its types are fields of
// files that package yamlfile reads. Rates and times of day are not its business.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/internal/yamlfile"
)

// A Duration is written with the units ms s m h d w, alone or together: 10m, 1h30m. It is never negative.
type Duration time.Duration

// OrForever is a Duration that may also be the word forever.
type OrForever time.Duration

// Forever is the value of the word forever.
const Forever = time.Duration(math.MaxInt64)

var units = []struct {
	name string
	span time.Duration
}{
	{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond},
}

// Parse reads 10m, 1h30m, 0 or forever. It takes whole numbers only.
func Parse(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	switch text {
	case "forever":
		return Forever, nil
	case "0":
		return 0, nil
	case "":
		return 0, errors.New("nothing found where a duration is expected")
	}

	var sum time.Duration
	for rest := text; rest != ""; {
		var part time.Duration
		var err error
		if part, rest, err = cutDuration(rest); err != nil {
			return 0, fmt.Errorf("%q is no duration: %w", text, err)
		}

		// Forever itself is a word, and no sum may become it.
		if sum > Forever-1-part {
			return 0, fmt.Errorf("%q is too long; write forever, or something shorter", text)
		}
		sum += part
	}

	return sum, nil
}

// cutDuration reads the first number and unit of a duration.
func cutDuration(text string) (part time.Duration, rest string, err error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit := text[digits:]
	if end := strings.IndexAny(unit, "0123456789"); end >= 0 {
		unit = unit[:end]
	}

	// An error of range is reported below, when the unit is known to be one.
	number, err := strconv.ParseInt(text[:digits], 10, 64)
	if digits == 0 || (err != nil && !errors.Is(err, strconv.ErrRange)) {
		return 0, "", errors.New("write a whole number and a unit, such as 90s, 10m or 1h30m")
	}

	for _, u := range units {
		if u.name != strings.TrimSpace(unit) {
			continue
		}
		if err != nil || number > int64((Forever-1)/u.span) {
			return 0, "", errors.New("that is too long; write forever, or something shorter")
		}
		return time.Duration(number) * u.span, text[digits+len(unit):], nil
	}

	return 0, "", unknownUnit(strings.TrimSpace(unit), text[:digits])
}

func unknownUnit(unit, number string) error {
	if unit == "" {
		return fmt.Errorf("the unit is missing; write %ss, %sm or %sh", number, number, number)
	}
	if strings.HasPrefix(unit, ".") || strings.HasPrefix(unit, ",") {
		return errors.New("only whole numbers are read; write 1h30m for one hour and a half")
	}
	for _, u := range units[:5] {
		if strings.HasPrefix(unit, u.name) {
			return fmt.Errorf("the unit %q is not known; write %s%s", unit, number, u.name)
		}
	}
	return fmt.Errorf("the unit %q is not known; the units are ms, s, m, h, d and w", unit)
}

// Format writes a duration as Parse reads it, in the largest units: 1h30m, 1d, forever. It drops
// fractions of a millisecond.
func Format(d time.Duration) string {
	if d == Forever {
		return "forever"
	}
	if d < time.Millisecond {
		return "0s"
	}

	var b strings.Builder
	for _, u := range units {
		if n := d / u.span; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.span
		}
	}

	return b.String()
}

func (d Duration) String() string  { return Format(time.Duration(d)) }
func (d OrForever) String() string { return Format(time.Duration(d)) }

// FromYAML reads a duration; forever is a fault.
func (d *Duration) FromYAML(v yamlfile.Value) {
	span, ok := fromYAML(v)
	if ok && span == Forever {
		v.Faultf("write how long, such as 24h", "forever is not possible here")
	}
	*d = Duration(span)
}

// FromYAML reads a duration or forever.
func (d *OrForever) FromYAML(v yamlfile.Value) {
	span, _ := fromYAML(v)
	*d = OrForever(span)
}

func fromYAML(v yamlfile.Value) (time.Duration, bool) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write it as 90s, 10m or 1h30m", "%s where a duration is expected", v.Found())
		return 0, false
	}
	span, err := Parse(text)
	if err != nil {
		v.Fault(err)
	}
	return span, err == nil
}
