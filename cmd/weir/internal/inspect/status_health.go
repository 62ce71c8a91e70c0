package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/uncounted"
	"weir/pkg/blocklist"
)

// flight is how long a record takes in a system that keeps up: aggregators commit two seconds after they count, and in a
// backlog ten.
const flight = 10 * time.Second

// headline returns the first lines for people: the problems, or that all is well.
func (s *status) headline() string {
	text := ""
	problems := s.problems()
	if len(problems) > 0 {
		text = "Needs attention: " + output.Printable(strings.Join(problems, "; ")) + ".\n"
	}

	lost := s.uncounted()
	well := len(problems) == 0 && lost == "" && s.reached() > 0
	switch {
	case s.NothingRuns:
		text += strings.TrimSuffix("Nothing runs: "+s.waits(), ": ") + ".\n"
	case s.CaughtUp && lost != "":
		text += "Everything is read, but not all requests count: " + lost + ".\n"
	case s.CaughtUp && well:
		text += "Healthy: all have caught up.\n"
	case s.CaughtUp:
		text += "All have caught up.\n"
	case s.inFlight() && well:
		text += "Healthy: " + s.flightText() + ".\n"
	default:
		text += "Not caught up: " + s.waits() + ".\n"
	}

	if lost != "" && !s.CaughtUp {
		text += "Not all requests count: " + lost + ".\n"
	}
	return text
}

// problems describes what needs someone's attention: not work that waits, and not requests that do not count.
func (s *status) problems() (texts []string) {
	if s.RulesDiffer {
		texts = append(texts, "the parts have different rules")
	}
	refused := map[string]bool{}
	for i := range s.Parts {
		p := &s.Parts[i]
		p.times = s.times
		if why := p.refused(); why != "" && !refused[why] { // the parts of a process have the same reason
			refused[why] = true
			texts = append(texts, "not all of the configuration on the disk is active: "+why)
		}
		if p.Clock != "" {
			texts = append(texts, fmt.Sprintf("the clock of the %s at %s is %s, or this machine's is wrong", p.Part, p.Address, p.Clock))
		}
		switch {
		case !p.Reached && s.reached() > 0 && !s.starting:
			texts = append(texts, fmt.Sprintf("the %s at %s was not reached", p.Part, p.Address))
		case p.Reached && p.Error != "" && p.CaughtUp == nil:
			texts = append(texts, "the "+p.Part+": "+p.Error)
		default:
			texts = append(texts, p.problems()...)
		}
	}
	return texts
}

// refused returns why a part does not use the configuration, keys or certificates on the disk; empty when it does.
func (p *partStatus) refused() string {
	var says struct{ Refused string }
	if !p.says(&says) {
		return ""
	}
	return strings.ReplaceAll(says.Refused, "\n", "; ")
}

// problems describes what a part reports as wrong.
func (p *partStatus) problems() (texts []string) {
	for _, source := range p.sources() {
		for _, text := range source.errors() {
			texts = append(texts, source.Source+": "+text)
		}
	}

	var says struct {
		Partitions            []partitionProblem
		Store, Trouble, Error string
		Whole                 *bool
		Paused                []string
		Guarded               map[string]int
		ByShare               map[string]int `json:"guarded_by_share"`
	}
	if !p.says(&says) {
		return texts
	}
	if p.Part == "collector" {
		if says.Error != "" {
			texts = append(texts, "the collector: "+says.Error)
		}
		return texts
	}
	for _, one := range says.Partitions {
		if one.Error != "" {
			texts = append(texts, fmt.Sprintf("partition %d: %s", one.Partition, one.Error))
		}
	}
	texts = append(texts, problemOf(says.Partitions)...)
	if unread, since := p.unread(); unread > 0 {
		texts = append(texts, fmt.Sprintf("the aggregator has read nothing of %s since %s", output.Counted(unread, "partition"), p.times.Zone(p.times.At(since.UnixMilli()))))
	}
	if p.Part == "aggregator" && says.Store != "" {
		texts = append(texts, "the store: "+says.Store)
	}
	if says.Whole != nil && !*says.Whole {
		texts = append(texts, "the enforcer has no complete list")
	}
	if says.Trouble != "" {
		texts = append(texts, says.Trouble)
	}
	if len(says.Paused) > 0 {
		texts = append(texts, "paused, so not refused: "+pausedText(says.Paused))
	}
	if len(says.Guarded) > 0 {
		texts = append(texts, "guarded, so not refused: "+guardedText(says.Guarded, says.ByShare))
	}
	return texts
}

// A partitionProblem is what an aggregator reports as wrong with a partition.
type partitionProblem struct {
	Partition      int
	Error, Problem string
}

// problemOf describes why hits are not counted: in the first such partition, for they mostly have the same cause.
func problemOf(partitions []partitionProblem) (texts []string) {
	more := 0
	for _, one := range partitions {
		switch {
		case one.Problem == "":
		case len(texts) == 0:
			texts = append(texts, fmt.Sprintf("partition %d: %s", one.Partition, one.Problem))
		default:
			more++
		}
	}
	if more > 0 {
		texts = append(texts, "the same or the like in "+output.Counted(more, "other partition"))
	}
	return texts
}

// unread returns how many partitions an aggregator has not read for longer than records are in flight, and since when.
func (p *partStatus) unread() (partitions int, since time.Time) {
	var says struct {
		Partitions []struct {
			LagUnknownSince *time.Time `json:"lag_unknown_since"`
		}
	}
	if p.Part != "aggregator" || !p.says(&says) {
		return 0, since
	}
	for _, one := range says.Partitions {
		at := one.LagUnknownSince
		if at == nil || time.Since(*at) <= flight {
			continue
		}
		partitions++
		if since.IsZero() || at.Before(since) {
			since = *at
		}
	}
	return partitions, since
}

// guardedText names the rules whose guard keeps entries from being enforced, and which of its bounds these exceed.
func guardedText(rules, byShare map[string]int) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		texts = append(texts, output.Printable(name)+": "+output.Counted(rules[name], "client")+" beyond "+blocklist.GuardedRule{Entries: rules[name], ByShare: byShare[name]}.Beyond())
	}
	return strings.Join(texts, ", ") + " (weir guard)"
}

// pausedText names rules that are paused.
func pausedText(rules []string) string {
	return strings.ReplaceAll(strings.Join(rules, ", "), "*", "all rules")
}

// uncounted describes the requests that could not be read or judged or were lost, and the files that do not exist, with the reasons;
// empty when there are none.
func (s *status) uncounted() string {
	var texts []string
	for i := range s.Parts {
		for _, source := range s.Parts[i].sources() {
			for _, file := range source.Missing {
				texts = append(texts, fmt.Sprintf("none of %s (%s), which %s", output.Printable(file), output.Printable(source.Source), uncounted.Missing(file)))
			}
			if source.Lost > 0 {
				texts = append(texts, fmt.Sprintf("%s of %s lost before being read", shown.Lost(source.Kind, source.Lost), output.Printable(source.Source)))
			}
			lost, of := uncounted.Lost(source.Requests, source.Uncounted)
			if lost > 0 {
				texts = append(texts, fmt.Sprintf("%s of %s of %s: %s", output.Grouped(int(lost)), output.Counted(int(source.Requests), "request"),
					output.Printable(source.Source), shown.Reasons(of)))
			}
		}
	}
	return strings.Join(texts, "; ")
}

// inFlight reports whether all that waits came a moment ago, as it does while requests come in.
func (s *status) inFlight() bool {
	if s.waited || s.starting || len(s.Faults) > 0 {
		return false
	}
	for _, g := range s.Groups {
		if g.Lag > 0 && (g.Members == 0 || g.LagSeconds == nil || *g.LagSeconds > flight.Seconds()) {
			return false
		}
	}
	for i := range s.Parts {
		if p := &s.Parts[i]; p.CaughtUp != nil && !*p.CaughtUp && !p.keepsUp() {
			return false
		}
	}
	return true
}

// keepsUp reports whether a part that has work is not behind. The work of an aggregator is the lag of its group, unless
// it reads nothing.
func (p *partStatus) keepsUp() bool {
	if p.Error != "" || p.Part == "enforcer" {
		return false
	}
	if unread, _ := p.unread(); unread > 0 {
		return false
	}
	for _, source := range p.sources() {
		fresh := false
		for _, log := range source.Logs {
			now := log.Newest != nil && time.Since(*log.Newest) <= flight
			if (log.Lag > 0 || log.InFlight > 0) && !now {
				return false
			}
			fresh = fresh || now
		}
		if source.CaughtUp != nil && !*source.CaughtUp && !fresh { // its server may not answer
			return false
		}
	}
	return true
}

// flightText describes the records that wait, and since when.
func (s *status) flightText() string {
	oldest := 0.0
	for _, g := range s.Groups {
		if g.LagSeconds != nil {
			oldest = max(oldest, *g.LagSeconds)
		}
	}
	if s.waiting() == 0 {
		return "the last requests are on their way"
	}
	return fmt.Sprintf("%s in flight, %s", output.Counted(int(s.waiting()), "record"), waited(&oldest))
}
