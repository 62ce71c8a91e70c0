package backtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"weir/pkg/attempts"
)

// shownDifferences is how many differences the text shows of each rule.
const shownDifferences = 10

// WriteJSON writes the report as one object.
func (r *ReplayReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteKeys writes the keys with a verdict that is not the one that was given, one a line.
func (r *ReplayReport) WriteKeys(w io.Writer) error {
	keys := map[string]bool{}
	for _, d := range r.Differences {
		keys[d.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if _, err := fmt.Fprintln(w, printable(key)); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes the report for people.
func (r *ReplayReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s and %s read", counted(r.Attempts, "attempt"), counted(r.Settlements, "settlement"))
	if r.Attempts > 0 {
		fmt.Fprintf(&b, ", %s to %s", r.First, r.Last)
	}
	b.WriteString("\n")
	if r.Unread > 0 {
		fmt.Fprintf(&b, "%s could not be read\n", counted(r.Unread, "line"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(&b, "%s at %s left out: there is no such inline rule here\n", counted(r.LeftOut[name], "attempt"), printable(name))
	}

	for i := range r.Rules {
		r.rule(&b, i)
	}
	r.algorithms(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// algorithms writes what the rules have decided under each algorithm.
func (r *ReplayReport) algorithms(b *strings.Builder) {
	for i := range r.Rules {
		if len(r.Algorithms) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s under each algorithm\n", r.Rules[i].Rule)
		for _, a := range r.Algorithms {
			fmt.Fprintf(b, "  %-8s  %s\n", a.Algorithm, verdictsText(a.Rules[i].Verdicts))
		}
	}
}

var verdictsInOrder = []string{attempts.Admitted, attempts.Refused, attempts.Shadow, attempts.Paused, attempts.Other, attempts.Known, attempts.Failed}

func verdictsText(of map[string]int64) string {
	var parts []string
	for _, verdict := range verdictsInOrder {
		if n := of[verdict]; n > 0 {
			parts = append(parts, grouped(n)+" "+verdict)
		}
	}
	if parts == nil {
		return "no attempts"
	}
	return strings.Join(parts, ", ")
}

// printable is a text of a record without characters that a terminal would act on.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if unicode.IsPrint(char) {
			return char
		}
		return '?'
	}, text)
}

func (r *ReplayReport) rule(b *strings.Builder, i int) {
	of, rule := &r.Rules[i], r.rules[i]
	var limits []string
	for _, l := range rule.Limits {
		limits = append(limits, l.Text)
	}
	fmt.Fprintf(b, "\n%s  %s by %s\n  %s", of.Rule, strings.Join(limits, " "), rule.Key, verdictsText(of.Verdicts))
	if of.Differences == 0 {
		b.WriteString(", as given\n")
		return
	}

	fmt.Fprintf(b, "; given were %s\n  %s:\n", verdictsText(of.Given), counted(of.Differences, "difference"))
	shown := 0
	for _, d := range r.Differences {
		if d.Rule == of.Rule && shown < shownDifferences {
			fmt.Fprintf(b, "    %s  %s  %s, was %s\n", d.Time, printable(d.Key), d.Now, d.Given)
			shown++
		}
	}
	if left := of.Differences - int64(shown); left > 0 {
		fmt.Fprintf(b, "    and %s more\n", grouped(left))
	}
}
