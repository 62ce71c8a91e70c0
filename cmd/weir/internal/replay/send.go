// Package replay has the command send, which replays logs to a live system: to a collector's http source or into a topic,
// at a given speed, with their own times or with new ones. Lines are sent at least once, in bodies of bounded size. The
// package reads lines only as far as their times matter.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/pkg/request"
)

// A sendCommand contains the flags of `weir send`.
type sendCommand struct {
	live    live.Flags
	read    command.Reading
	to      string
	topic   string
	keyFile string
	speed   string
	now     bool
	output  command.Output

	pace    speed
	options request.Options
}

// Command returns the command, a new one at each call.
func Command() *cobra.Command {
	s := &sendCommand{}
	c := &cobra.Command{
		Use:   "send [flags] FILE...|-",
		Short: "Replay logs to a live system, at any speed",
		Long: `Send sends the lines of logs to a collector's http source, or writes them into a topic that a collector reads. It sends
as fast as the collector takes lines, at a number of lines a second, or at the log's own pace times a factor. Without
--to and --topic it uses the first http source of the configuration.

With --now the time in each line becomes the time of sending, in the line's own form. Nothing else in the line changes:
each line is read again to make sure. With a pace (x1) the intervals between the times stay the same, divided by the
factor. For a pace and for --now, lines are read as parse reads them, and files are sent in the order of their first
times.

Lines are sent at least once. If no answer comes, they are sent again, and send reports that they may be counted twice.`,
		Example: `  weir send access.log
  weir send --speed x10 --now --to http://127.0.0.1:7402 access.log access.log.1
  weir send --speed 500/s --topic logs access.log`,
		Args: command.Files,
		RunE: func(c *cobra.Command, files []string) error { return s.run(c, files) },
	}
	s.live.Add(c)
	flags := c.Flags()
	flags.StringVar(&s.to, "to", "", "send to the http source at `URL`: http://127.0.0.1:7402")
	flags.StringVar(&s.topic, "topic", "", "write into the topic `NAME` of the configuration's Kafka, one record a line")
	flags.StringVar(&s.keyFile, "key-file", "", "send the API key in `FILE` (default $WEIR_KEY_FILE)")
	flags.StringVar(&s.speed, "speed", "max", "send at `SPEED`: max, lines a second such as 500/s, or a factor of the log's own pace such as x10")
	flags.BoolVar(&s.now, "now", false, "replace the time in each line by the time of sending")
	s.read.AddFormat(c)
	s.output.Add(c, "text", "json")
	c.PreRunE = nil // prepare returns all that is wrong with the flags
	return c
}

func (s *sendCommand) run(c *cobra.Command, files []string) error {
	if err := s.prepare(); err != nil {
		return err
	}
	inputs, err := s.inputs(c, files)
	if err != nil {
		return err
	}

	// After the inputs, so that a wrong file is reported before a connection is made.
	to, err := s.sink(c)
	if err != nil {
		return err
	}

	r := &replay{to: to, pace: s.pace, now: s.now, progress: output.NewProgress(c.ErrOrStderr(), "sending"), begun: time.Now()}
	for _, in := range inputs {
		r.total += in.size
	}

	for _, in := range inputs {
		if err = r.file(c.Context(), in); err != nil {
			break
		}
	}

	if err == nil {
		err = to.flush(c.Context())
	}
	r.progress.Done()
	if err = errors.Join(err, to.close(err != nil)); err != nil {
		return err
	}

	return errors.Join(s.show(c.OutOrStdout(), r), r.outcome())
}

// prepare reads the flags, and returns all that is wrong with them.
func (s *sendCommand) prepare() (err error) {
	var problems []error
	note := func(err error) { problems = append(problems, err) }
	note(s.output.Check())
	s.pace, err = parseSpeed(s.speed)
	note(err)
	s.options, err = s.read.Options()
	note(err)
	if s.to != "" && s.topic != "" {
		note(exit.Wrongf("--to and --topic are both given; leave one out"))
	}
	return errors.Join(problems...)
}

// inputs prepares the files to be sent, in the order of their first times where these matter.
func (s *sendCommand) inputs(c *cobra.Command, files []string) ([]*sendInput, error) {
	var inputs []*sendInput
	var problems []error
	for _, file := range files {
		in := &sendInput{path: file, stdin: c.InOrStdin(), timed: s.now || s.pace.factor > 0}
		if err := in.look(c.Context(), s); err != nil {
			problems = append(problems, err)
		}
		inputs = append(inputs, in)
	}
	slices.SortStableFunc(inputs, func(a, b *sendInput) int { return int(max(-1, min(1, a.first-b.first))) })
	return inputs, errors.Join(problems...)
}

// A sink takes lines. It may buffer them until it is flushed or has enough.
type sink interface {
	add(ctx context.Context, line []byte) error
	flush(ctx context.Context) error
	close(failed bool) error // waits until all flushed lines have arrived, unless sending failed
	result() sinkResult
}

// A sinkResult is what a sink knows at its end of the lines that it took.
type sinkResult struct {
	Repeated  int64            `json:"repeated"`            // requests that were sent again because no answer came
	Unread    map[string]int64 `json:"unread,omitempty"`    // lines that the collector could not read, by reason
	Uncounted map[string]int64 `json:"uncounted,omitempty"` // requests that the collector did not count, by reason
}

// A sent counts what was sent, as `weir send --json` writes it.
type sent struct {
	Lines   int64   `json:"lines"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Untimed int64   `json:"untimed"` // lines that were sent unchanged because no request could be read from them
	Unsent  int64   `json:"unsent"`  // lines that are too long, or whose time could not be moved
	sinkResult
}

func (s *sendCommand) show(to io.Writer, r *replay) error {
	was := r.sent
	was.Seconds = time.Since(r.begun).Round(time.Millisecond).Seconds()
	was.sinkResult = r.to.result()
	if s.output.Form == "json" {
		return output.JSON(to).Encode(was)
	}

	text := fmt.Sprintf("%s sent in %s", output.Counted(int(was.Lines), "line"), time.Since(r.begun).Round(time.Millisecond))
	if was.Untimed > 0 {
		text += fmt.Sprintf(", %s without a time sent unchanged", output.Counted(int(was.Untimed), "line"))
	}
	if was.Repeated > 0 {
		text += fmt.Sprintf(", %s of them sent again because no answer came: they may be counted twice", output.Counted(int(was.Repeated), "line"))
	}

	for _, part := range []struct {
		reasons map[string]int64
		words   string
	}{{was.Unread, "not read there"}, {was.Uncounted, "not counted there"}} {
		for _, reason := range slices.Sorted(maps.Keys(part.reasons)) {
			text += fmt.Sprintf(", %s %s (%s)", output.Counted(int(part.reasons[reason]), "line"), part.words, reason)
		}
	}

	_, err := fmt.Fprintln(to, text)
	return err
}
