package shown

import (
	"fmt"
	"strings"

	"weir/cmd/weir/internal/output"
	"weir/pkg/blocklist"
	"weir/pkg/evidence"
)

// Evidence is the last requests that counted for an entry, as an enforcer returns them.
type Evidence struct {
	ID       string             `json:"id"`
	Rule     string             `json:"rule"`
	Key      string             `json:"key"`
	Requests []evidence.Request `json:"requests"` // newest first
	Kept     int                `json:"kept"`
	Counted  int64              `json:"counted"`

	Limit string `json:"-"` // of the entry
}

// Text writes the requests for people.
func (e *Evidence) Text(b *strings.Builder, times Times) {
	if len(e.Requests) == 0 {
		return
	}
	what := "hit"
	switch {
	case blocklist.IsDifferent(e.Limit):
		what = "different value"
	case blocklist.IsShare(e.Limit):
		what = "hit of the share"
	}
	fmt.Fprintf(b, "The last requests that counted for %s %s, %s (%d kept, %s counted):\n", output.Printable(e.Rule), output.Printable(e.Key),
		times.Zone("newest first"), len(e.Requests), output.Counted(int(e.Counted), what))
	var rows []string
	for i := range e.Requests {
		rows = append(rows, "    "+requestText(&e.Requests[i], times))
	}
	output.Table(b, rows)
}

// requestText is a request as the cells of a table.
func requestText(r *evidence.Request, times Times) string {
	status := "-"
	if r.Status != 0 {
		status = fmt.Sprint(r.Status)
	}
	cells := []string{times.At(r.Time.UnixMilli()), r.Client, status, strings.TrimSpace(r.Method + " " + r.Host + r.Path), r.Agent}
	for i := range cells {
		cells[i] = output.Printable(cells[i])
	}
	return strings.Join(cells, "\t")
}
