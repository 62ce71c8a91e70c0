package rule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// The bounds of a limit.
const (
	maxHits = 1_000_000_000_000
	maxPer  = 3650 * 24 * time.Hour
)

// A Limit is N hits per W, or N at once, and its text.
type Limit struct {
	window.Limit
	Text   string // as the user wrote it: 10/min, 5/10s, 20 at once
	AtOnce bool   // a hit counts until its attempt ends, and for Per at most, which is the rule's lease
	Queued bool   // of the rule's queue: the entries that it has at most
}

// String is Text.
func (l Limit) String() string { return l.Text }

var periods = []struct {
	names []string
	span  time.Duration
}{
	{[]string{"ms"}, time.Millisecond},
	{[]string{"s", "sec", "second"}, time.Second},
	{[]string{"m", "min", "minute"}, time.Minute},
	{[]string{"h", "hour"}, time.Hour},
	{[]string{"d", "day"}, 24 * time.Hour},
	{[]string{"w", "week"}, 7 * 24 * time.Hour},
}

// ParseLimit reads N/W: hits, a slash, and a period with a number before it or not, as in 10/min, 100/hour or 5/10s.
// Its error has the remedy behind a semicolon.
func ParseLimit(text string) (Limit, error) {
	hits, period, slash := strings.Cut(text, "/")
	if !slash {
		return Limit{}, noLimit(text)
	}

	var limit Limit
	var err error
	if limit.Hits, err = parseHits(strings.TrimSpace(hits)); err != nil {
		return limit, fmt.Errorf("%q is no limit: %w", text, err)
	}

	number, word := cutNumber(strings.TrimSpace(period))
	if limit.Per, err = parsePeriod(number, word); err != nil {
		return limit, fmt.Errorf("%q is no limit: %w", text, err)
	}

	limit.Text = fmt.Sprintf("%d/%s%s", limit.Hits, number, word)
	return limit, nil
}

// cutNumber splits text into its leading digits and the rest without leading spaces.
func cutNumber(text string) (number, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], strings.TrimSpace(rest)
}

// noLimit names the missing part of a text without a slash.
func noLimit(text string) error {
	number, rest := cutNumber(strings.TrimSpace(text))
	if number == "" {
		return fmt.Errorf("%q is no limit; write hits per time, such as 10/min", text)
	}
	if rest == "at once" {
		return fmt.Errorf("%q is for inline rules; write %s/min here", text, number)
	}
	word := strings.TrimSpace(strings.TrimPrefix(rest, "per"))
	if _, known := periodNamed(word); !known {
		word = "min"
	}
	return fmt.Errorf("%q is no limit: the time is missing; write %s/%s", text, number, word)
}

func parseHits(text string) (int64, error) {
	hits, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || hits > maxHits:
		return 0, fmt.Errorf("%s hits are too many; write at most %d", text, int64(maxHits))
	case err != nil || text[0] == '+':
		return 0, fmt.Errorf("%q is no number of hits; write it as 10/min", text)
	case hits < 1:
		return 0, fmt.Errorf("%d hits are too few; write at least 1", hits)
	}
	return hits, nil
}

func parsePeriod(number, word string) (time.Duration, error) {
	span, known := periodNamed(word)
	if !known {
		return 0, unknownPeriod(word)
	}
	if number == "" {
		return span, nil
	}

	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	// The bound is divided, because the product may overflow.
	case err != nil || n > int64(maxPer/span):
		return 0, errors.New("the time is too long; write at most 10 years, 3650d")
	case n < 1:
		return 0, errors.New("the time is zero; write at least 1ms")
	}

	return time.Duration(n) * span, nil
}

func periodNamed(word string) (time.Duration, bool) {
	for _, period := range periods {
		if slices.Contains(period.names, word) {
			return period.span, true
		}
	}
	return 0, false
}

func unknownPeriod(word string) error {
	switch {
	case word == "":
		return errors.New("the time is missing; write s, min, hour, day or week behind the slash")
	case strings.HasPrefix(word, "month"), strings.HasPrefix(word, "year"):
		return fmt.Errorf("a %s has no fixed length; write it in days, such as 30d", strings.TrimSuffix(word, "s"))
	}

	var names []string
	for _, period := range periods {
		names = append(names, period.names...)
	}

	if one, plural := strings.CutSuffix(word, "s"); plural {
		if _, known := periodNamed(one); known {
			return fmt.Errorf("the time %q is not known; write %s", word, one)
		}
	}

	return fmt.Errorf("the time %q is not known; %s", word, nearest.Suggest(word, names, "the times are "))
}

// FromYAML reads a limit.
func (l *Limit) FromYAML(v yamlfile.Value) {
	if text, ok := v.Scalar(); ok && !v.Quoted() && strings.Trim(text, "0123456789") == "" {
		v.Faultf("write "+text+"/min, /hour or /day", "%s is a number of hits without a time", text)
		return
	}

	text := v.Text()
	if text == "" {
		return
	}

	limit, atOnce, err := parseAtOnce(text)
	if !atOnce {
		limit, err = ParseLimit(text)
	}
	if err != nil {
		v.Fault(err)
	}

	*l = limit
}
