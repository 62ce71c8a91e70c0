package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/live"
	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/duration"
)

// A statusCommand contains the flags of `weir status`.
type statusCommand struct {
	keyFile string
	live    live.Flags
	places  partFlags
	wait    string
	output  command.Output
}

func newStatus() *cobra.Command {
	s := &statusCommand{}
	c := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show where records wait, and whether all parts have the same rules",
		Long: `Status asks Kafka how far every group has read, and asks the parts that it can reach for their state. All have caught up
when no record waits for any group, and no part that was reached reports waiting work. This includes groups whose parts
cannot be reached. When nothing runs, nothing has caught up, and the exit code is 3. The waiting time of a group is the
age of its oldest waiting record.`,
		Example: `  weir status
  weir status --wait 60s && weir cat blocklist
  weir status --aggregator http://a1:7411 --aggregator http://a2:7411
  weir status --json`,
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c) },
	}

	s.live.Add(c)
	s.places.add(c)
	c.Flags().StringVar(&s.wait, "wait", "", "wait until all have caught up, at most `TIME`: 60s; exit code 3 if they have not by then")
	c.Flags().StringVar(&s.keyFile, "key-file", "", "send the parts the API key in `FILE` (default $WEIR_KEY_FILE)")
	s.output.Add(c, "text", "json")
	return c
}

func (s *statusCommand) run(c *cobra.Command) error {
	wait, err := parseWait(s.wait)
	if err != nil {
		return err
	}

	settings, err := s.live.LoadAnyhow(c.ErrOrStderr())
	if err != nil {
		return err
	}

	key, err := ask.Key(s.keyFile)
	if err != nil {
		return exit.Wrongf("reading the API key: %w", err)
	}

	places, err := s.places.places(settings)
	if err != nil {
		return err
	}

	watched := &watched{settings: settings, places: places, key: key, stderr: c.ErrOrStderr()}
	defer watched.close()
	report, err := watched.until(c.Context(), wait)
	if err != nil {
		return err
	}

	report.waited = wait > 0
	if s.output.Form == "json" {
		err = output.JSON(c.OutOrStdout()).Encode(report)
	} else {
		err = report.writeText(c.OutOrStdout())
	}

	return errors.Join(err, report.outcome(wait, s.wait))
}

// parseWait parses --wait; an empty text means not to wait.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := duration.Parse(text)
	if err != nil || wait == duration.Forever {
		return 0, exit.Wrongf("--wait %s is not a time; write the longest time to wait, such as 60s", text)
	}
	return wait, nil
}

// A status describes a running system, as `weir status --json` writes it.
type status struct {
	CaughtUp    bool          `json:"caught_up"`
	Rules       string        `json:"rules"`                  // hash of the rules in the configuration here
	RulesDiffer bool          `json:"rules_differ"`           // among the parts that were reached, or from the configuration here
	NothingRuns bool          `json:"nothing_runs,omitempty"` // no part was reached, no group has a member, and no process runs on the topics
	Groups      []groupStatus `json:"groups"`
	Parts       []partStatus  `json:"parts"`
	Faults      []string      `json:"faults"` // errors of asking the topics; with any of them it is not known whether all have caught up

	times    shown.Times
	waited   bool   // --wait was given: in flight is then not good enough
	idle     string // the folder of the topics when no process runs on them
	unasked  string // describes parts that run and were not asked
	starting bool   // a process has the topics, and not all parts run in it yet
}

const (
	statusEvery    = 500 * time.Millisecond
	statusPatience = 15 * time.Second // for one look at the topics
	leastPatience  = 5 * time.Second  // for one look when --wait ends sooner
)

// patience returns how long a look may wait for the topics: with --wait, little longer than the time that is left.
func patience(wait, left time.Duration) time.Duration {
	if wait == 0 {
		return statusPatience
	}
	return min(statusPatience, max(left, leastPatience))
}

// until looks until all have caught up or the time is over. It returns only the context's error.
func (w *watched) until(ctx context.Context, wait time.Duration) (*status, error) {
	until := time.Now().Add(wait)
	for {
		left := time.Until(until)
		report := w.look(ctx, left <= 0, patience(wait, left))
		over := left <= 0 || len(report.Faults) > 0 && time.Until(until) <= 0 // they hang, so a second look would not help
		if report.CaughtUp || over || ctx.Err() != nil {
			return report, ctx.Err()
		}

		select {
		case <-time.After(min(left, statusEvery)):
		case <-ctx.Done():
		}
	}
}

// A watched is a system that is looked at repeatedly.
type watched struct {
	settings *config.Config
	places   []partPlace // of the parts
	key      string      // sent to the parts; may be empty
	stderr   io.Writer
	topics   *live.Topics // nil until they are opened
}

func (w *watched) close() {
	if w.topics != nil {
		w.topics.Close()
		w.topics = nil
	}
}

// look asks the parts before the topics, so that these have all that the parts have reported as sent. When weir run's
// topics are in no process, only the last look opens them: before that a process may be about to start on the folder.
func (w *watched) look(ctx context.Context, last bool, patience time.Duration) *status {
	report := &status{Groups: []groupStatus{}, Faults: []string{}, Parts: askParts(ctx, w.places, w.key)}
	if w.settings.RuleSet != nil {
		report.Rules = w.settings.RuleSet.Fingerprint()
	}

	report.RulesDiffer = report.differ()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own := len(w.settings.Kafka.Brokers) == 0
	runs := own && daemon.Listens(w.settings.TopicsSocket())
	if own && !runs {
		w.close() // the process that had them has ended meanwhile
	}

	asks := !own || runs || last
	if asks {
		err := w.askTopics(limited, report)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("no answer from the topics within %s", patience)
		}
		if err != nil && (!errors.Is(err, live.ErrNoTopics) || report.reached() > 0) { // otherwise nothing runs
			report.Faults = append(report.Faults, err.Error())
		}
	}

	// Everything runs in the process that has the topics. A part that answers without it belongs elsewhere.
	if report.idle != "" && report.reached() > 0 {
		report.Faults = append(report.Faults, fmt.Sprintf("no process runs on the topics in %s, but %s: it is of another configuration; ask with that one, or stop it", report.idle, report.answered()))
	}
	report.NothingRuns = len(report.Faults) == 0 && !runs && report.reached() == 0 && !report.hasMembers()
	report.unasked = report.others(w.settings.AggregatorGroup())
	report.starting = runs && report.reached() < len(report.Parts)
	report.CaughtUp = asks && !report.NothingRuns && !report.starting && len(report.Faults) == 0 && report.waiting() == 0 && report.allPartsCaughtUp()
	return report
}

func (w *watched) askTopics(ctx context.Context, report *status) error {
	if w.topics == nil {
		b, err := live.Connect(w.settings, io.Discard)
		if err != nil {
			return err
		}
		w.topics = b
	}

	if w.topics.RunsHere() {
		report.idle = w.settings.StoreFolder()
		defer w.close()
	}

	groups, err := askGroups(ctx, w.topics, w.settings)
	report.Groups = append(report.Groups, groups...)
	return err
}

// answered names the first part that was reached.
func (s *status) answered() string {
	for _, part := range s.Parts {
		if part.Reached {
			return fmt.Sprintf("the %s at %s answers", part.Part, part.Address)
		}
	}
	return "no part answers"
}

// hasMembers reports whether any group has a member, or may have one.
func (s *status) hasMembers() bool {
	return slices.ContainsFunc(s.Groups, func(g groupStatus) bool { return g.Members != 0 })
}

// others describes aggregators that were not asked. Only Kafka knows of them, as members of the group.
func (s *status) others(aggregators string) string {
	asked := 0
	for _, part := range s.Parts {
		if part.Part == "aggregator" && part.Reached {
			asked++
		}
	}
	for _, group := range s.Groups {
		if group.Group == aggregators && group.Members > asked && asked > 0 {
			return fmt.Sprintf("%s has %s, and %d of them answered here: name each with --aggregator URL", group.Group, output.Counted(group.Members, "member"), asked)
		}
	}
	return ""
}

// waiting returns how many records wait for all groups together.
func (s *status) waiting() int64 {
	waiting := int64(0)
	for _, group := range s.Groups {
		waiting += group.Lag
	}
	return waiting
}

// differ reports whether two parts, or a part and the configuration here, have different rules.
func (s *status) differ() bool {
	known := s.Rules
	for _, part := range s.Parts {
		if part.Rules != "" && known != "" && part.Rules != known {
			return true
		}
		known = cmp.Or(known, part.Rules)
	}
	return false
}

func (s *status) allPartsCaughtUp() bool {
	return !slices.ContainsFunc(s.Parts, func(p partStatus) bool { return p.CaughtUp != nil && !*p.CaughtUp })
}

// outcome returns the error that decides the exit code: 1 when the topics could not be asked, 3 when nothing runs or not
// all have caught up in time.
func (s *status) outcome(wait time.Duration, asked string) error {
	var faults []error
	for _, fault := range s.Faults {
		faults = append(faults, errors.New(fault))
	}
	if len(faults) == 0 && s.NothingRuns {
		return exit.Unmetf("nothing runs, so nothing has caught up: %s", startThem)
	}
	if len(faults) == 0 && wait > 0 && !s.CaughtUp {
		return exit.Unmetf("not caught up after %s: %s", asked, s.waits())
	}
	return errors.Join(faults...)
}
