package rule

import (
	"slices"
	"strings"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// longestLease is as long as attempts can be settled at most.
const longestLease = 24 * time.Hour

// parseAtOnce reads N at once; ok is false of any other text.
func parseAtOnce(text string) (limit Limit, ok bool, err error) {
	words := strings.Fields(text)
	if len(words) != 3 || words[1] != "at" || words[2] != "once" {
		return limit, false, nil
	}
	limit.AtOnce = true
	limit.Hits, err = parseHits(words[0])
	limit.Text = strings.Join(words, " ")
	return limit, true, err
}

// atOnce are the indexes of the limits at once.
func atOnce(limits []Limit) (all []int) {
	for i := range limits {
		if limits[i].AtOnce {
			all = append(all, i)
		}
	}
	return all
}

// checkAtOnce finds a limit at once that cannot be, or its lease, and reports whether all is right. The limit then has the
// lease as its time.
func (r *ruleSpec) checkAtOnce(v yamlfile.Value) bool {
	all, lease := atOnce(r.Limits), v.Key("lease")
	switch {
	case lease.Faulty():
		return false
	case len(all) == 0:
		if v.Has("lease") {
			lease.Faultf("leave it out, or write limits: [20 at once]", "a lease is of a limit at once, and the rule has none")
		}
		if ends := v.Key("ends"); v.Has("ends") && !ends.Faulty() {
			ends.Faultf("leave it out, or write limits: [20 at once] and a lease", "only a request at a limit at once has an end, and the rule has no such limit")
		}
		return !v.Has("lease")
	}

	places, _ := v.Key("limits").List()
	place, limit := places[all[0]], r.Limits[all[0]]
	switch {
	case len(all) > 1:
		places[all[1]].Faultf("leave one of them out", "%s and %s are both at once", limit, r.Limits[all[1]])
	case !r.Inline.On:
		place.Faultf("write inline: true, or a limit per time such as 20/min", "%s counts the requests that have not ended, which no log shows", limit)
	case r.Inline.AlsoLog:
		place.Faultf("write inline: true", "%s counts the requests that have not ended, which no log shows: it cannot have also: log", limit)
	case limit.Hits > window.MostRemember:
		place.Faultf("write at most 1048576", "%s is too many", limit)
	case !v.Has("lease"):
		place.Faultf("write lease: 30s next to limits", "%s has no lease: how long a request counts that never reports its end", limit)
	case r.Lease <= 0 || time.Duration(r.Lease) > longestLease:
		lease.Faultf("write 1s to 24h", "a lease of %s is not possible", r.Lease)
	default:
		r.Limits = slices.Clone(r.Limits)
		r.Limits[all[0]].Per = time.Duration(r.Lease)
		return true
	}
	return false
}

// An endsWord is true if the line in the log is the end of a request.
type endsWord bool

// FromYAML reads log.
func (e *endsWord) FromYAML(v yamlfile.Value) {
	*e = word(v, "other end of a request", []string{"log"}) == 0
}

// EndsByLog are the rules whose requests end with their lines in a log, and the longest of their leases.
func (s *Set) EndsByLog() (names []string, lease time.Duration) {
	for _, r := range s.Rules {
		if r.EndsByLog {
			names, lease = append(names, r.Name), max(lease, r.Lease)
		}
	}
	return names, lease
}
