package inspect

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"weir/cmd/internal/daemon"
	"weir/cmd/weir/internal/live"
	"weir/internal/topic"
)

// readTopic fills a story from the topic.
func (h *historyCommand) readTopic(c *cobra.Command, to *story, from catFrom) (where string, err error) {
	settings, err := h.enforcer.Live.LoadButRules()
	if err != nil {
		return "", err
	}
	name := settings.Kafka.Prefix + daemon.Events
	client, err := live.Connect(settings, c.ErrOrStderr(), name)
	if err != nil {
		return "", err
	}
	defer client.Close()
	// catRun reads the partitions; its writer only reports records that are not events.
	r := &catRun{client: client, topic: name, shown: newCatWriter(io.Discard, c.ErrOrStderr(), name, h.output.Form)}
	r.newShow = func(partition int) func(*topic.Record) {
		return func(record *topic.Record) {
			if err := to.read(record.Value); err != nil {
				r.shown.failed(partition, record, err)
			}
		}
	}

	err = r.open(c.Context(), from, -1)
	if err == nil {
		err = r.run(c.Context(), false)
	}
	to.trim()
	return name + client.Place(settings), errors.Join(err, r.shown.end())
}
