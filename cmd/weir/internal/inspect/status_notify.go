package inspect

import (
	"fmt"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
)

// A receiverState is a receiver of notifications, as the status of an enforcer has it.
type receiverState struct {
	Receiver, Kind, Error string
	Dropped               int64
	Waiting               int
	Since                 *time.Time
}

// receiverRows describes receivers that fail, and those that missed messages.
func receiverRows(receivers []receiverState, times shown.Times) (rows []string) {
	for _, r := range receivers {
		failing := ""
		if r.Since != nil {
			failing = fmt.Sprintf("%s gets no notifications since %s: %s", r.Kind, times.Zone(times.At(r.Since.UnixMilli())), output.Printable(r.Error))
		}
		if failing != "" || r.Dropped > 0 {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s", output.Printable(r.Receiver),
				join(failing, some(r.Waiting, "waiting", "event"), some(int(r.Dropped), "dropped", "message"))))
		}
	}
	return rows
}
