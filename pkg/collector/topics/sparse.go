package topics

import (
	"time"

	"weir/pkg/collector/pace"
)

// Collectors of one group learn from commits how far the others' partitions are, and no partition gets ahead of the
// others by more than the slack. So each slack of request time costs the group some round trips to Kafka. That is little
// next to the reading of many records, and most of the time where a log of weeks has few. One collector that has all
// partitions needs no commits for that. So a collector that finds a backlog sparse asks the group for all partitions,
// and shares them again when it has caught up.
const (
	sparseRecords = 50_000                 // fewer records of all partitions in a slack are sparse; twice as many no longer are
	farBehind     = 100                    // a backlog of fewer slacks is read before the partitions have moved
	farLasts      = 200 * time.Millisecond // a single line of an old time is no backlog
	aloneLasts    = 10 * time.Second       // after a change; each change moves partitions
)

// A density is how many records a partition has in a time, as of those that were read last.
type density struct {
	known   bool  // whether these two are
	offset  int64 // up to which Kafka has all hits
	reached int64 // the request time there

	records int64
	ms      int64 // of request time
}

// densitySlacks is how much request time counts, in slacks. Older records weigh half after each.
const densitySlacks = 16

// add notes how far the partition is read.
func (d *density) add(offset, reached, slack int64) {
	if d.known {
		d.records += offset - d.offset
		d.ms += reached - d.reached
	}
	d.known, d.offset, d.reached = true, offset, reached
	if d.ms > densitySlacks*slack {
		d.records, d.ms = d.records/2, d.ms/2
	}
}

// perSlack returns how many records the partition has in a slack; false when too little is read.
func (d *density) perSlack(slack int64) (records float64, known bool) {
	if d.ms < 2*slack {
		return 0, false
	}
	return float64(d.records) / float64(d.ms) * float64(slack), true
}

// aloneness is whether the source wants all partitions.
type aloneness struct {
	wanted  bool
	changed time.Time // zero before the first change
	behind  time.Time // when a partition was last behind
	counted time.Time // when a partition last went on
	far     time.Time // since when a partition has been far behind; zero when none is
}

// counted notes that Kafka has all hits of a partition up to an offset and a request time.
func (k *source) counted(p *partition, offset, reached int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alone.counted = k.in.Now()
	p.density.add(offset, reached, p.member.Slack())
}

// wantsAlone reports whether this source wants all partitions of the group for itself: it reads a sparse backlog, or did
// a moment ago. One that makes no progress leaves them to the others.
func (k *source) wantsAlone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.in.Now()
	s := k.survey(now)
	if s.behind {
		k.alone.behind = now
	}
	if !s.far {
		k.alone.far = time.Time{}
	} else if k.alone.far.IsZero() {
		k.alone.far = now
	}

	wants := k.alone.wanted
	switch {
	case s.owned == 0:
		wants = false
	case !k.alone.changed.IsZero() && now.Sub(k.alone.changed) < aloneLasts:
	case now.Sub(k.alone.counted) >= pace.StallAfter:
		wants = false
	case wants:
		wants = now.Sub(k.alone.behind) < aloneLasts && s.records < 2*float64(k.sparse)
	default:
		wants = s.far && now.Sub(k.alone.far) >= farLasts && s.measured && s.records < float64(k.sparse)
	}

	if wants != k.alone.wanted {
		k.alone.wanted, k.alone.changed = wants, now
		k.sayAlone(wants, s)
	}
	return wants
}

func (k *source) sayAlone(wants bool, s survey) {
	switch {
	case wants:
		k.in.Logger().Info("a backlog with few records for its time: one collector of the group is to read all partitions until it has caught up",
			"records_per_lateness", int64(s.records))
	case s.owned > 0:
		k.in.Logger().Info("the collectors of the group share the partitions again")
	}
}

// A survey is what the partitions of a source have in common.
type survey struct {
	owned    int     // partitions of this source
	behind   bool    // one of them reads requests that are older than its lateness
	far      bool    // and is many slacks behind
	measured bool    // the records are known
	records  float64 // in a slack, about, of all partitions of the group; 0 when they are not known
}

func (k *source) survey(now time.Time) (s survey) {
	measured := 0
	for _, p := range k.partitions {
		if !p.owned {
			continue
		}
		s.owned++
		slack := p.member.Slack()
		if p.member.Behind() {
			s.behind = true
			reached, _ := p.member.Standing()
			s.far = s.far || reached != pace.NoTime && reached < now.UnixMilli()-farBehind*slack
		}
		if records, known := p.density.perSlack(slack); known {
			s.records += records
			measured++
		}
	}
	if s.measured = measured > 0; s.measured {
		s.records *= float64(len(k.partitions)) / float64(measured)
	}
	return s
}
