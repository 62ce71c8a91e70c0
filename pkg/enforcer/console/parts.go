package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/keytext"
	"weir/internal/uncounted"
)

// A partsView is what the page of the parts shows.
type partsView struct {
	Healthy bool
	Summary string
	Parts   []*partView
}

// A partView is a part of Weir.
type partView struct {
	Name, Address string
	Reached       bool
	Trouble       []string
	Facts         []fact
	Sources       []*sourceView
	behind        bool     // records wait that are not of the last moment
	working       bool     // records wait
	rules         string   // the fingerprint of its rules
	refused       string   // why it does not use the configuration on the disk; empty when it does
	passing       []string // what is not refused, because of a pause or a guard
}

type fact struct {
	Name, Text string
	At         string // an instant instead of a text
}

// A sourceView is a source of a collector.
type sourceView struct {
	Name, Kind, Format string
	Requests           string
	Uncounted          []fact // how many, and why
	Share              string // of the requests that do not count
	Newest             string
	Lag                string
	Trouble            []string

	lost    bool     // some do not count that should
	Unread  string   // why there are no requests
	Missing []string // files that do not exist, and what was lost
}

// flight is how old the newest request of a log is at most that is read as it grows.
const flight = 10 * time.Second

// parts is the page of the parts.
func (c *Console) parts(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	shown := &partsView{Parts: make([]*partView, len(c.config.Parts))}
	var asking sync.WaitGroup
	for i, part := range c.config.Parts {
		asking.Go(func() { shown.Parts[i] = askPart(ctx, part, c.config.Now()) })
	}
	asking.Wait()
	shown.sum()
	c.render(w, r, http.StatusOK, "parts", &view{Title: "Parts", Active: "parts", Visitor: v, Body: shown})
	return nil
}

// askPart asks a part for its status.
func askPart(ctx context.Context, part Part, now time.Time) *partView {
	shown := &partView{Name: part.Name, Address: keytext.Shown(part.Address)}
	status, body, err := part.Get(ctx, "/status")
	switch {
	case err != nil:
		shown.Trouble = append(shown.Trouble, sentence("It does not answer: "+keytext.Shown(err.Error())))
		return shown
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		shown.Trouble = append(shown.Trouble, "It wants an API key, which the console does not have. Ask it with weir status.")
		return shown
	case status != http.StatusOK:
		shown.Trouble = append(shown.Trouble, sentence(fmt.Sprintf("It answers %d %s", status, http.StatusText(status))))
		return shown
	}
	shown.Reached = true

	read := map[string]func([]byte, time.Time) error{"collector": shown.collector, "aggregator": shown.aggregator, "enforcer": shown.enforcer}[part.Name]
	if err := read(body, now); err != nil {
		shown.Trouble = append(shown.Trouble, "Its answer is not that of this version.")
	}
	var says struct{ Rules, Refused string }
	_ = json.Unmarshal(body, &says) // an answer that cannot be read is reported above
	shown.rules, shown.refused = says.Rules, keytext.Shown(strings.ReplaceAll(says.Refused, "\n", "; "))
	return shown
}

func (p *partView) fact(name, format string, args ...any) {
	p.Facts = append(p.Facts, fact{Name: name, Text: keytext.Shown(fmt.Sprintf(format, args...))})
}

// trouble notes the problems of a source. An earlier collector shows one.
func (s *sourceView) trouble(first string, all []string) {
	if len(all) == 0 && first != "" {
		all = []string{first}
	}
	for _, text := range all {
		s.Trouble = append(s.Trouble, keytext.Shown(text))
	}
}

func (p *partView) collector(body []byte, now time.Time) error {
	var says struct {
		CaughtUp bool `json:"caught_up"`
		Error    string
		Sources  []struct {
			Source, Kind, Format, Error string
			Missing, Errors             []string
			Requests, Lost              int64
			Uncounted                   map[string]int64
			CaughtUp                    *bool `json:"caught_up"`
			Logs                        []struct {
				Lag      int64
				InFlight int `json:"in_flight"`
				Newest   *time.Time
			}
		}
	}
	if err := json.Unmarshal(body, &says); err != nil {
		return err
	}
	p.working = !says.CaughtUp
	if says.Error != "" {
		p.Trouble = append(p.Trouble, sentence(keytext.Shown(says.Error)))
	}
	for _, s := range says.Sources {
		one := &sourceView{Name: keytext.Shown(s.Source), Kind: keytext.Shown(s.Kind), Format: keytext.Shown(s.Format), Requests: grouped(int(s.Requests))}
		one.trouble(s.Error, s.Errors)
		var all, lag int64
		reasons := slices.SortedFunc(maps.Keys(s.Uncounted), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.Uncounted[b], s.Uncounted[a]), cmp.Compare(a, b))
		})
		for _, reason := range reasons {
			if n := s.Uncounted[reason]; n > 0 {
				all += n
				one.Uncounted = append(one.Uncounted, fact{Name: grouped(int(n)), Text: cmp.Or(uncounted.Words[reason], keytext.Shown(reason))})
			}
		}
		if lost, _ := uncounted.Lost(s.Requests, s.Uncounted); lost > 0 {
			one.lost = true
		}
		if all > 0 {
			one.Share = fmt.Sprintf("%s of %s not counted", grouped(int(all)), plural(int(s.Requests), "request"))
		}
		var newest time.Time
		for _, log := range s.Logs {
			lag += log.Lag
			if log.Newest != nil && log.Newest.After(newest) {
				newest = *log.Newest
			}
			if !says.CaughtUp && (log.Lag > 0 || log.InFlight > 0) && (log.Newest == nil || now.Sub(*log.Newest) > flight) {
				p.behind = true
			}
		}
		if s.CaughtUp != nil && !*s.CaughtUp && now.Sub(newest) > flight { // its server may not answer
			p.behind = true
		}
		if !newest.IsZero() {
			one.Newest = newest.UTC().Format(time.RFC3339)
		}
		if lag > 0 {
			one.Lag = grouped(int(lag))
		}
		for _, file := range s.Missing {
			one.Missing = append(one.Missing, keytext.Shown(file)+" "+uncounted.Missing(file))
		}
		if s.Lost > 0 {
			one.Missing = append(one.Missing, grouped(int(s.Lost))+" lost before being read")
		}
		switch {
		case s.Requests > 0:
		case len(one.Missing) > 0:
			one.Unread, one.Missing = strings.Join(one.Missing, "; "), nil
		case s.Kind == "file" && len(s.Logs) == 0:
			one.Unread = "no file to read: none matches, or it may not be opened"
		case !newest.IsZero(): // an earlier run has read it
		default:
			one.Unread = "nothing read yet"
		}
		p.Sources = append(p.Sources, one)
	}
	return nil
}

func (p *partView) aggregator(body []byte, now time.Time) error {
	var says struct {
		CaughtUp   bool `json:"caught_up"`
		Store      string
		Partitions []struct {
			Partition, Hot, Waiting, Unsent int
			Lag                             int64
			Reached                         *time.Time
			LagUnknownSince                 *time.Time `json:"lag_unknown_since"`
			Error                           string
		}
	}
	if err := json.Unmarshal(body, &says); err != nil {
		return err
	}
	p.working = !says.CaughtUp
	hot, lag := 0, int64(0)
	var reached time.Time
	for _, one := range says.Partitions {
		hot, lag = hot+one.Hot, lag+one.Lag
		if one.Reached != nil && one.Reached.After(reached) {
			reached = *one.Reached
		}
		if !says.CaughtUp && one.Lag > 0 && (one.Reached == nil || now.Sub(*one.Reached) > flight) {
			p.behind = true
		}
		if one.LagUnknownSince != nil && now.Sub(*one.LagUnknownSince) > flight { // nothing of it is read
			p.behind = true
		}
		if one.Error != "" {
			p.Trouble = append(p.Trouble, sentence(keytext.Shown(fmt.Sprintf("Partition %d: %s", one.Partition, one.Error))))
		}
	}
	p.fact("Partitions", "%d", len(says.Partitions))
	p.fact("Keys in memory", "%s", grouped(hot))
	p.fact("Records to count", "%s", grouped(int(lag)))
	if !reached.IsZero() {
		p.Facts = append(p.Facts, fact{Name: "Counted up to", At: reached.UTC().Format(time.RFC3339)})
	}
	if says.Store != "" {
		p.Trouble = append(p.Trouble, sentence(keytext.Shown("The store: "+says.Store)))
	}
	return nil
}

func (p *partView) enforcer(body []byte, _ time.Time) error {
	var says struct {
		CaughtUp                       bool `json:"caught_up"`
		Whole                          bool
		Version, Age, Follows, Trouble string
		Followers, Waiting, Unread     int
		Paused                         []string
		Guarded                        map[string]int
	}
	if err := json.Unmarshal(body, &says); err != nil {
		return err
	}
	p.behind = !says.CaughtUp
	list := "not complete yet"
	if says.Whole {
		list = "complete, " + says.Age + " old"
	}
	p.fact("List", "%s", list)
	p.fact("Version", "%s", says.Version)
	p.fact("Follows", "%s", says.Follows)
	p.fact("Followers", "%d", says.Followers)
	if says.Waiting > 0 {
		p.fact("Manual entries not sent yet", "%d", says.Waiting)
	}
	if says.Unread > 0 {
		p.fact("Records that cannot be read", "%d", says.Unread)
	}
	if len(says.Paused) > 0 {
		paused := keytext.Shown(strings.ReplaceAll(strings.Join(says.Paused, ", "), "*", "everything"))
		p.fact("Paused", "%s", paused)
		p.passing = append(p.passing, "paused, so not refused: "+paused)
	}
	for _, name := range slices.Sorted(maps.Keys(says.Guarded)) {
		p.passing = append(p.passing, fmt.Sprintf("guarded, so not refused: %s of %s", plural(says.Guarded[name], "key"), keytext.Shown(name)))
	}
	if says.Trouble != "" {
		p.Trouble = append(p.Trouble, sentence(keytext.Shown(says.Trouble)))
	}
	return nil
}

// sum says first whether all is well.
func (s *partsView) sum() {
	var wrong, unread []string
	lost, failing, state := 0, 0, "All parts have caught up."
	rules, refused := map[string]bool{}, map[string]bool{}
	for _, p := range s.Parts {
		if p.rules != "" {
			rules[p.rules] = true
		}
		if p.refused != "" && !refused[p.refused] { // the parts of a process have the same reason
			refused[p.refused] = true
			p.Trouble = append(p.Trouble, sentence("Not all of the configuration on the disk is active: "+p.refused))
		}
		if p.working {
			state = "All is well: the last requests are on their way."
		}
		switch {
		case !p.Reached:
			wrong = append(wrong, "the "+p.Name+" was not asked")
		case len(p.Trouble) > 0:
			wrong = append(wrong, "the "+p.Name+" reports trouble")
		case p.behind:
			wrong = append(wrong, "the "+p.Name+" has not caught up")
		}
		wrong = append(wrong, p.passing...)
		for _, source := range p.Sources {
			if source.Unread != "" && len(source.Trouble) == 0 {
				unread = append(unread, source.Name)
			}
			if len(source.Trouble) > 0 {
				failing++
			}
			if source.lost || len(source.Trouble) > 0 || len(source.Missing) > 0 {
				lost++
			}
		}
	}
	if failing > 0 {
		wrong = append(wrong, plural(failing, "source")+" cannot be read, or not all of it: the reasons are below")
	}
	if len(rules) > 1 {
		wrong = append(wrong, "the parts have different rules")
	}
	switch {
	case len(wrong) > 0:
		s.Summary = sentence(strings.Join(wrong, "; "))
	case lost > 0:
		s.Healthy, s.Summary = true, fmt.Sprintf("%s Of %s, not all requests count: the reasons are below.", state, plural(lost, "source"))
	default:
		s.Healthy, s.Summary = true, state
	}
	if len(unread) > 0 {
		s.Summary += " Nothing has been read of " + strings.Join(unread, ", ") + "."
	}
}
