package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/shown"
	"weir/internal/uncounted"
)

// ownRows returns the rows that describe a part's status. Fields that are not known here are shown only by --json.
func (p *partStatus) ownRows() []string {
	switch p.Part {
	case "aggregator":
		return p.aggregatorRows()
	case "enforcer":
		return p.enforcerRows()
	}
	return p.sourceRows()
}

// says decodes a part's status, and reports whether it could.
func (p *partStatus) says(to any) bool {
	return len(p.Status) > 0 && json.Unmarshal(p.Status, to) == nil
}

// aggregatorRows describes how far an aggregator has counted, and those of its partitions that are behind.
func (p *partStatus) aggregatorRows() []string {
	var says struct {
		Partitions []struct {
			Partition, Hot, Dirty, Waiting, Unsent int
			Lag                                    int64
			Reached                                *time.Time
			Error                                  string
			LagUnknownSince                        *time.Time `json:"lag_unknown_since"`
		}
		Store string
	}

	if !p.says(&says) {
		return nil
	}
	var hot, dirty, waiting, unsent int
	var reached time.Time
	var behind []string
	for _, one := range says.Partitions {
		hot = hot + one.Hot
		dirty = dirty + one.Dirty
		waiting = waiting + one.Waiting
		unsent = unsent + one.Unsent
		if one.Reached != nil && one.Reached.After(reached) {
			reached = *one.Reached
		}

		lag := "lag " + output.Counted(int(one.Lag), "record")
		if one.LagUnknownSince != nil {
			lag = "lag unknown since " + p.times.Zone(p.times.At(one.LagUnknownSince.UnixMilli())) + ", before that " + output.Counted(int(one.Lag), "record")
		}
		if one.Lag > 0 || one.Error != "" || one.LagUnknownSince != nil {
			behind = append(behind, fmt.Sprintf("  partition %d\t\t\t%s", one.Partition, join(lag, one.Error)))
		}
	}

	// some and join leave out parts without work.
	state := []string{output.Counted(hot, "key") + " in memory", some(dirty, "not written yet", "key"), some(waiting, "waiting for the store", "hit"), some(unsent, "not sent yet", "verdict")}
	if !reached.IsZero() {
		state = append([]string{"counted up to " + p.times.Zone(p.times.At(reached.UnixMilli()))}, state...)
	}
	if says.Store != "" {
		behind = append(behind, "  store\t\t\t"+says.Store)
	}

	return append([]string{fmt.Sprintf("  %s\t\t\t%s", output.Counted(len(says.Partitions), "partition"), join(state...))}, behind...)
}

// listRow begins the row of an enforcer's list.
const listRow = "  list"

// enforcerRows describes an enforcer's list: whether it is complete, its age, paused rules and problems.
func (p *partStatus) enforcerRows() []string {
	var says struct {
		Whole                          bool
		Version, Age, Follows, Trouble string
		Followers, Waiting, Unread     int
		Paused                         []string
		Guarded                        map[string]int
		ByShare                        map[string]int `json:"guarded_by_share"`
		Notify                         []receiverState
		Events                         *struct {
			Ready  bool
			Behind int
		}
	}

	if !p.says(&says) {
		return nil
	}
	list := "no complete list"
	if says.Whole {
		list = "complete, " + says.Age + " old"
	}

	rows := []string{fmt.Sprintf(listRow+"\t%s\t\t%s", says.Version, join(list, "follows "+says.Follows, some(says.Followers, "", "follower"),
		some(says.Waiting, "not sent yet", "manual entry"), some(says.Unread, "not readable", "record")))}
	if len(says.Paused) > 0 {
		rows = append(rows, "  paused\t\t\t"+pausedText(says.Paused))
	}
	if len(says.Guarded) > 0 {
		rows = append(rows, "  guarded\t\t\t"+guardedText(says.Guarded, says.ByShare))
	}
	if says.Trouble != "" {
		rows = append(rows, "  trouble\t\t\t"+says.Trouble)
	}
	switch events := says.Events; {
	case events == nil:
	case !events.Ready:
		rows = append(rows, "  history\t\t\tits index cannot be asked now")
	case events.Behind > 0:
		rows = append(rows, "  history\t\t\t"+some(events.Behind, "not in its index yet", "event"))
	}

	return append(rows, receiverRows(says.Notify, p.times)...)
}

// some returns a number with its noun; empty for 0.
func some(n int, what, noun string) string {
	if n == 0 {
		return ""
	}
	return strings.TrimSuffix(output.Counted(n, noun)+" "+what, " ")
}

// join puts commas between the texts that are not empty.
func join(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		if text != "" && b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text)
	}
	return b.String()
}

// aheadLately is how long status shows that requests were ahead of the clock.
const aheadLately = 10 * time.Minute

// A sourceState is a source of a collector, as its status has it.
type sourceState struct {
	Source, Kind, Format, Error string
	Errors                      []string
	Missing                     []string
	CaughtUp                    *bool `json:"caught_up"`
	Requests, Lost, Redelivered int64
	Uncounted                   map[string]int64
	Seen                        struct{ Early, Most int }
	Logs                        []struct {
		Log           string
		Position, Lag int64
		InFlight      int `json:"in_flight"`
		Newest        *time.Time
		Holding       bool
	}
	Read struct {
		Files int
		Names []string
	}
	Ahead struct {
		Requests int
		Last     time.Time
	}
}

// errors returns the source's problems; an earlier collector shows one.
func (s *sourceState) errors() []string {
	if len(s.Errors) == 0 && s.Error != "" {
		return []string{s.Error}
	}
	return s.Errors
}

// namedRead is how many of a source's files that were read to their end have a row.
const namedRead = 5

// readRows lists files that were read to their end and are not open any more.
func (s *sourceState) readRows() (rows []string) {
	names := s.Read.Names[:min(len(s.Read.Names), namedRead)]
	for _, name := range names {
		rows = append(rows, fmt.Sprintf("  %s\t%s\t\tread to its end", s.Source, output.Printable(name)))
	}
	if more := s.Read.Files - len(names); more > 0 {
		rows = append(rows, fmt.Sprintf("  %s\t\t\t%s read to the end", s.Source, output.Counted(more, "more file")))
	}
	return rows
}

// sources returns the sources of a collector.
func (p *partStatus) sources() []sourceState {
	var says struct{ Sources []sourceState }
	if p.Part != "collector" || !p.says(&says) {
		return nil
	}
	return says.Sources
}

// sourceRows describes the sources of a collector, with their logs.
func (p *partStatus) sourceRows() []string {
	var rows []string
	for _, s := range p.sources() {
		unit := "byte"
		if s.Kind != "file" {
			unit = "record"
		}

		for _, log := range s.Logs {
			state := "lag " + output.Counted(int(log.Lag), unit)
			if log.Newest != nil && !log.Newest.IsZero() {
				state += ", read up to " + p.times.Zone(p.times.At(log.Newest.UnixMilli()))
			}
			if log.Holding {
				state += ", waits for slower logs"
			}
			rows = append(rows, fmt.Sprintf("  %s\t%s\t\t%s", s.Source, log.Log, state))
		}
		rows = append(rows, s.readRows()...)
		for _, file := range s.Missing {
			rows = append(rows, fmt.Sprintf("  %s\t%s\t\tnothing is read: it %s", s.Source, output.Printable(file), uncounted.Missing(file)))
		}

		if text := shown.Uncounted(s.Requests, s.Uncounted); text != "" {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s", s.Source, text))
		}
		if s.Lost > 0 {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s lost before being read; the log has the reason", s.Source, shown.Lost(s.Kind, s.Lost)))
		}
		if s.Redelivered > 0 && s.Seen.Most == 0 {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s delivered again since the start: those whose hits Kafka had already count twice; dedupe prevents that", s.Source, output.Counted(int(s.Redelivered), "message")))
		}
		if s.Seen.Early > 0 {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s forgotten early: dedupe.values is too small, and requests may count twice", s.Source, output.Counted(s.Seen.Early, "value")))
		}
		if time.Since(s.Ahead.Last) < aheadLately {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s ahead of the clock since the start, not counted: check the clock of the server that wrote the log", s.Source, output.Counted(s.Ahead.Requests, "request")))
		}
		for _, text := range s.errors() {
			rows = append(rows, fmt.Sprintf("  %s\t\t\t%s", s.Source, text))
		}
	}

	return rows
}
