package inspect

import (
	"cmp"
	"fmt"
	"strings"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/topic"
	"weir/pkg/attempts"
)

// attempts returns a function that shows the attempts of one partition. A record that was written twice is shown once.
func (w *catWriter) attempts(partition int) func(*topic.Record) {
	var record attempts.Record
	var repeats attempts.Repeats
	return func(r *topic.Record) {
		if err := attempts.Parse(r.Value, &record); err != nil {
			w.failed(partition, r, err)
			return
		}
		if repeats.Has(record.Mark()) {
			return
		}
		repeats.See(record.Mark())

		switch w.form {
		case "json":
			w.printf("%s\n", r.Value)
		case "plain":
			for i := range record.Takes {
				w.printf("%s\n", output.Printable(record.Takes[i].Key))
			}
		default:
			w.printf("%s\n", attemptText(&record, w.times))
		}
	}
}

// attemptText is a record in one line for people.
func attemptText(r *attempts.Record, times shown.Times) string {
	at := times.Exact(int64(r.Time))
	if r.Kind == attempts.Settlement {
		text := fmt.Sprintf("%s  settled  attempt %s, %s", at, output.Printable(r.Attempt), output.Printable(cmp.Or(r.Rule, "all rules")))
		if r.Ended {
			return text + ": it has ended"
		}
		return text + fmt.Sprintf(": cost %d", r.Cost)
	}

	decision := "refused"
	if r.Admitted {
		decision = "admitted"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", at, decision)
	for i := range r.Takes {
		t := &r.Takes[i]
		fmt.Fprintf(&b, "  %s %s: %s", output.Printable(t.Rule), output.Printable(t.Key), output.Printable(t.Verdict))
		if t.Verdict == attempts.Failed {
			b.WriteString(", the store did not answer")
		} else {
			fmt.Fprintf(&b, ", %d of %s remain", t.Remaining, output.Printable(t.Limit))
		}
		if t.Cost != 1 {
			fmt.Fprintf(&b, ", cost %d", t.Cost)
		}
	}
	if asked := strings.TrimSpace(r.Method + " " + r.Path); asked != "" {
		fmt.Fprintf(&b, "  (%s)", output.Printable(asked))
	}
	return b.String()
}
