package backtest

import (
	"fmt"
	"math/big"
	"strings"
)

// A Condition is the value of --fail-if: figures compared with numbers, joined by and and or.
//
//	refused > 0.1%
//	blocked > 10 or unread > 1%
//
// The figures are refused (requests), blocked (keys), requests, keys and unread (lines), over all enforcing rules
// together. A percentage is of the requests for refused, of the keys for blocked, and of all lines, read and unread,
// for unread. The operators are > >= < <= == !=; and binds more closely than or. The zero Condition is never true.
type Condition struct {
	text string
	any  [][]comparison // true when all comparisons of one of these are
}

type comparison struct {
	figure   string
	operator string
	number   *big.Rat
	percent  bool
}

// Figures of a condition, and the total that a percentage of each refers to.
var conditionFigures = []struct{ name, base string }{
	{"refused", "requests"}, {"blocked", "keys"}, {"requests", ""}, {"keys", ""}, {"unread", "lines"},
}

var conditionOperators = map[string]func(order int) bool{
	">":  func(o int) bool { return o > 0 },
	">=": func(o int) bool { return o >= 0 },
	"<":  func(o int) bool { return o < 0 },
	"<=": func(o int) bool { return o <= 0 },
	"==": func(o int) bool { return o == 0 },
	"!=": func(o int) bool { return o != 0 },
}

// ParseCondition reads a condition.
func ParseCondition(text string) (Condition, error) {
	c := Condition{text: strings.TrimSpace(text), any: [][]comparison{nil}}
	words := conditionWords(text)
	for {
		cmp, rest, err := parseComparison(words)
		if err != nil {
			return Condition{}, fmt.Errorf("condition %q: %w", c.text, err)
		}

		last := len(c.any) - 1
		c.any[last] = append(c.any[last], cmp)
		if len(rest) == 0 {
			return c, nil
		}

		switch rest[0] {
		case "and", "&&":
		case "or", "||":
			// or begins another group: and binds more closely.
			c.any = append(c.any, nil)
		default:
			return Condition{}, fmt.Errorf("condition %q: %q found where and, or or the end is expected", c.text, rest[0])
		}

		words = rest[1:]
	}
}

// conditionWords splits a condition into words; operators need no spaces around them.
func conditionWords(text string) []string {
	for _, sign := range []string{"&&", "||"} {
		text = strings.ReplaceAll(text, sign, " "+sign+" ")
	}
	var spaced strings.Builder
	operator := false
	for _, c := range text {
		if is := strings.ContainsRune("<>=!", c); is != operator {
			spaced.WriteByte(' ')
			operator = is
		}
		spaced.WriteRune(c)
	}

	return strings.Fields(spaced.String())
}

func parseComparison(words []string) (comparison, []string, error) {
	// Missing words become empty ones: the checks below then name the first that is wrong.
	for len(words) < 3 {
		words = append(words, "")
	}
	c := comparison{figure: words[0], operator: words[1]}
	base, known := baseOf(c.figure)
	if !known {
		return c, nil, fmt.Errorf("%q found where a figure is expected: refused, blocked, requests, keys or unread", c.figure)
	}
	if conditionOperators[c.operator] == nil {
		return c, nil, fmt.Errorf("%q found where an operator is expected: > >= < <= == or !=", c.operator)
	}

	number, rest := words[2], words[3:]
	// A space may stand before the percent sign.
	if len(rest) > 0 && rest[0] == "%" {
		number, rest = number+"%", rest[1:]
	}

	number, c.percent = strings.CutSuffix(number, "%")
	if c.percent && base == "" {
		return c, nil, fmt.Errorf("%s cannot be compared with a percentage, because there is no total of them; write a number", c.figure)
	}

	value, ok := parseNumber(number)
	if !ok {
		return c, nil, fmt.Errorf("%q found where a number is expected: 10, 0.5 or 0.1%%", words[2])
	}

	c.number = value
	return c, rest, nil
}

// parseNumber reads 10 or 0.5; no signs, exponents or fractions.
func parseNumber(text string) (*big.Rat, bool) {
	if len(text) > 20 || strings.Trim(text, "0123456789.") != "" {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

func baseOf(figure string) (base string, known bool) {
	for _, f := range conditionFigures {
		if f.name == figure {
			return f.base, true
		}
	}
	return "", false
}

// judge reports whether the condition is true of a report; nil for the zero Condition.
func (c Condition) judge(r *Report) *ConditionReport {
	if len(c.any) == 0 {
		return nil
	}
	figures := r.figures()
	report := &ConditionReport{Condition: c.text}
	var found []string
	for _, all := range c.any {
		holds := true
		for _, cmp := range all {
			// All figures are reported, also after the first comparison that fails.
			holds = cmp.holds(figures) && holds
			if text := cmp.found(figures); !strings.Contains(strings.Join(found, "\n"), text) {
				found = append(found, text)
			}
		}
		report.Holds = report.Holds || holds
	}

	report.Found = strings.Join(found, ", ")
	return report
}

// figures are the figures that a condition can use.
func (r *Report) figures() map[string]int64 {
	f := map[string]int64{"requests": r.Requests, "refused": r.Refused, "lines": r.Requests}
	for _, n := range r.Unread {
		f["unread"] += n
		f["lines"] += n
	}
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Mode == modeEnforce {
			f["keys"] += rule.Keys
			f["blocked"] += int64(len(rule.Blocked))
		}
	}
	return f
}

func (c comparison) holds(figures map[string]int64) bool {
	left := new(big.Rat).SetInt64(figures[c.figure])
	right := c.number
	if c.percent {
		base, _ := baseOf(c.figure)
		right = new(big.Rat).Mul(right, big.NewRat(figures[base], 100))
	}
	return conditionOperators[c.operator](left.Cmp(right))
}

func (c comparison) found(figures map[string]int64) string {
	base, _ := baseOf(c.figure)
	value := figures[c.figure]
	if base == "" {
		return c.figure + " is " + grouped(value)
	}
	return fmt.Sprintf("%s is %s of %s %s (%s)", c.figure, grouped(value), grouped(figures[base]), base, percentOf(value, figures[base]))
}
