package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The first line tells a person whether all is well, and otherwise what is wrong.
func TestTheFirstLineOfStatus(t *testing.T) {
	group := func(members int, lag int64, age float64) groupStatus {
		return groupStatus{Group: "weir.aggregator", Members: members, Lag: lag, LagSeconds: &age}
	}
	collector := func(caughtUp bool, text string) partStatus {
		return partStatus{Part: "collector", Address: "c:1", Reached: true, CaughtUp: &caughtUp, Status: []byte(text)}
	}
	reading := func(age time.Duration) partStatus {
		return collector(false, fmt.Sprintf(`{"sources": [{"source": "file-1", "requests": 9, "logs": [{"log": "a", "lag": 7, "newest": %q}]}]}`, time.Now().Add(-age).Format(time.RFC3339)))
	}
	sending := func(age time.Duration) partStatus {
		return collector(false, fmt.Sprintf(`{"sources": [{"source": "file-1", "requests": 9, "logs": [{"log": "a", "in_flight": 1, "newest": %q}]}]}`, time.Now().Add(-age).Format(time.RFC3339)))
	}
	unread := func(age time.Duration) partStatus {
		p := collector(false, fmt.Sprintf(`{"partitions": [{"partition": 0, "lag_unknown_since": %q}, {"partition": 1}]}`, time.Now().Add(-age).Format(time.RFC3339)))
		p.Part = "aggregator"
		return p
	}
	leftOut := collector(true, `{"partitions": [{"partition": 0}, {"partition": 1, "problem": "record 5 is not counted"}, {"partition": 2, "problem": "record 6 is not counted"}]}`)
	leftOut.Part = "aggregator"

	for name, test := range map[string]struct {
		of   status
		want string
	}{
		"all is well":       {status{CaughtUp: true, Parts: []partStatus{collector(true, `{}`)}}, "Healthy: all have caught up."},
		"records in flight": {status{Groups: []groupStatus{group(1, 56, 1.4)}, Parts: []partStatus{reading(time.Second)}}, "Healthy: 56 records in flight, 1.4s."},
		"bytes in flight":   {status{Groups: []groupStatus{group(1, 0, 0)}, Parts: []partStatus{reading(time.Second)}}, "Healthy: the last requests are on their way."},
		"with --wait":       {status{waited: true, Groups: []groupStatus{group(1, 1, 1)}, Parts: []partStatus{reading(0)}}, "Not caught up: 1 record waits for weir.aggregator; the collector has not read or sent everything."},
		"a backlog":         {status{Groups: []groupStatus{group(1, 56, 30)}, Parts: []partStatus{collector(true, `{}`)}}, "Not caught up: 56 records wait for weir.aggregator."},
		"an old log":        {status{Parts: []partStatus{reading(time.Hour)}}, "Not caught up: the collector has not read or sent everything."},
		"hits in flight":    {status{Parts: []partStatus{sending(time.Second), unread(time.Second)}}, "Healthy: the last requests are on their way."},
		"hits that stay":    {status{Parts: []partStatus{sending(time.Minute)}}, "Not caught up: the collector has not read or sent everything."},
		"a server that hangs": {status{Parts: []partStatus{collector(false, `{"sources": [{"source": "s", "caught_up": false, "logs": [{"log": "s3://logs/", "newest": "2026-03-03T08:00:00Z"}]}]}`)}},
			"Not caught up: the collector has not read or sent everything."},
		"no one reads":         {status{Groups: []groupStatus{group(0, 56, 1)}, Parts: []partStatus{collector(true, `{}`)}}, "Not caught up: 56 records wait for weir.aggregator."},
		"no part was reached":  {status{CaughtUp: true, Parts: []partStatus{{Part: "collector", Address: "c:1"}}}, "All have caught up."},
		"one was not reached":  {status{CaughtUp: true, Parts: []partStatus{collector(true, `{}`), {Part: "enforcer", Address: "e:1"}}}, "Needs attention: the enforcer at e:1 was not reached."},
		"a log without rights": {status{CaughtUp: true, Parts: []partStatus{collector(true, `{"sources": [{"source": "a\u001b[2J", "error": "no permission"}]}`)}}, `Needs attention: a\x1b[2J: no permission.`},
		"a journal that fails": {status{CaughtUp: true, Parts: []partStatus{collector(true, `{"error": "writing the journal: no space"}`)}}, "Needs attention: the collector: writing the journal: no space."},
		"a file is missing": {status{CaughtUp: true, Parts: []partStatus{collector(true, `{"sources": [{"source": "file-1", "missing": ["/var/log/x\u0001.log", "/srv/*.log"]}]}`)}},
			`Everything is read, but not all requests count: none of /var/log/x\x01.log (file-1), which does not exist; none of /srv/*.log (file-1), which matches no file.`},
		"rules with an error": {status{CaughtUp: true, Parts: []partStatus{collector(true, `{"refused": "rules.yaml:3:1: no\nrules.yaml:4:1: no"}`), collector(true, `{"refused": "rules.yaml:3:1: no\nrules.yaml:4:1: no"}`)}},
			"Needs attention: not all of the configuration on the disk is active: rules.yaml:3:1: no; rules.yaml:4:1: no."},
		"hits that are left out": {status{CaughtUp: true, Parts: []partStatus{leftOut}}, "Needs attention: partition 1: record 5 is not counted; the same or the like in 1 other partition."},
		"lost records": {status{CaughtUp: true, Parts: []partStatus{collector(true, `{"sources": [{"source": "a", "kind": "kafka", "requests": 30, "lost": 2000}, {"source": "b", "kind": "s3", "lost": 1}]}`)}},
			"Everything is read, but not all requests count: 2,000 records of a lost before being read; 1 object of b lost before being read."},
		"nothing counts so far": {status{Groups: []groupStatus{group(1, 5, 1)}, Parts: []partStatus{collector(true, `{"sources": [{"source": "s", "requests": 30, "uncounted": {"format": 30}}]}`)}}, "Not caught up: 5 records wait for weir.aggregator."},
	} {
		if got, _, _ := strings.Cut(test.of.headline(), "\n"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// An aggregator that reads nothing, as from a topic that was deleted, is not healthy, although no record waits there.
func TestPartitionsThatAreNotRead(t *testing.T) {
	since := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	caughtUp := false
	s := status{Parts: []partStatus{{Part: "aggregator", Address: "a:1", Reached: true, CaughtUp: &caughtUp,
		Status: fmt.Appendf(nil, `{"partitions": [{"partition": 0, "lag_unknown_since": %q}, {"partition": 1}]}`, since.Format(time.RFC3339))}}}
	want := "Needs attention: the aggregator has read nothing of 1 partition since " + since.Format(time.RFC3339) + ".\n" +
		"Not caught up: the aggregator has not read or sent everything.\n"
	if got := s.headline(); got != want {
		t.Errorf("got %s want %s", got, want)
	}
}
