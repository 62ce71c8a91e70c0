package inspect

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/output"
	"weir/pkg/enforcer/past"
)

// ask fills a story from the index of an enforcer.
func (h *historyCommand) ask(c *cobra.Command, to *story) (where string, err error) {
	enforcer, err := h.enforcer.Connect()
	if err != nil {
		return "", err
	}
	defer enforcer.Close()

	query := h.values()
	for {
		var page past.Page
		query.Set("limit", strconv.Itoa(min(past.MaxLimit, to.most+1-len(to.events))))
		if _, err := enforcer.Ask(c.Context(), http.MethodGet, "/v1/events", query, nil, &page); err != nil {
			return "", err
		}
		if where == "" && page.Behind > 0 {
			fmt.Fprintf(c.ErrOrStderr(), "weir: the index of %s does not have the last %s yet\n", enforcer.At(), output.Counted(int(page.Behind), "event"))
		}
		where = "the enforcer at " + enforcer.At()
		for _, line := range page.Events {
			if err := to.add(line); err != nil {
				return where, fmt.Errorf("the answer of %s: %w", where, err)
			}
		}
		if page.Next == "" || len(to.events) > to.most {
			break
		}
		query.Set("after", page.Next)
	}

	// The newest came first.
	slices.Reverse(to.events)
	if over := len(to.events) - to.most; over > 0 {
		to.events, to.more = to.events[over:], true
	}
	return where, nil
}

// values are the parameters of the question.
func (h *historyCommand) values() url.Values {
	q, values := &h.query, url.Values{}
	for name, text := range map[string]string{"key": q.Key, "rule": q.Rule, "by": q.By, "event": q.Event, "order": q.Order} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for name, at := range map[string]int64{"since": q.Since, "until": q.Until, "at": q.At} {
		if at != 0 {
			values.Set(name, time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z"))
		}
	}
	return values
}
