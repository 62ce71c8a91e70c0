package demo

import (
	"fmt"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
)

// Seen describes what the site has seen in a time. It is called after Run.
func (d *Site) Seen(long time.Duration) string {
	var all, of tally
	for _, one := range d.seen {
		all.requests += one.requests
		all.refused += one.refused
	}
	if all.requests == 0 {
		return ""
	}

	clients := len(d.seen)
	rows := make([]string, 0, len(abusers))
	for _, a := range abusers {
		one := d.seen[a.address]
		if one == nil {
			continue
		}
		clients--
		of.requests += one.requests
		of.refused += one.refused
		request, _, _ := strings.Cut(a.request, "?")
		rows = append(rows, fmt.Sprintf("  %s\t%s\t%s\t%s refused", a.address, request, output.Counted(one.requests, "request"), output.Grouped(one.refused)))
	}

	var b strings.Builder
	fmt.Fprintf(&b, "In %s the site had %s of %s and %d abusers. Weir had it refuse %s of them:\n", long.Round(time.Second),
		output.Counted(all.requests, "request"), output.Counted(clients, "visitor"), len(rows), output.Grouped(of.refused))
	output.Table(&b, rows)
	if all.refused == of.refused {
		b.WriteString("No request of a visitor was refused.\n")
	} else {
		fmt.Fprintf(&b, "%s of visitors were refused.\n", output.Counted(all.refused-of.refused, "request"))
	}
	return b.String()
}
