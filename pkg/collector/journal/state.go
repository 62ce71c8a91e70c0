package journal

import "slices"

// A state is the content of a journal: the state of each log, the cuts that Kafka may not have, by source, and the values
// that were seen, by what remembers them.
type state struct {
	logs      map[string]*Log
	cuts      map[string][]*Cut
	recovered []*Cut // the cuts that it had when it was opened, in their order
	memories  map[string]*memory
	unsure    map[string][]entry // by source, values of cuts that the file does not have yet
}

// A Log is the state of one log.
type Log struct {
	Source   string
	Position int64
	Reached  int64  // request time, Unix ms; math.MinInt64 when unknown
	Note     []byte // the source's own
}

func newState() state {
	return state{logs: map[string]*Log{}, cuts: map[string][]*Cut{}, memories: map[string]*memory{}, unsure: map[string][]entry{}}
}

func (s *state) apply(e entry) {
	switch e.kind {
	case entryLog:
		s.logs[e.log.Source] = new(e.log)
		s.count(e.log.Source, e.log.Position)
	case entryForget:
		delete(s.logs, e.log.Source)
		delete(s.cuts, e.log.Source)
		delete(s.unsure, e.log.Source)
	case entrySeen:
		s.see(e)
	case entryCut:
		c := e.cut
		s.count(c.Source, c.To)
		s.logs[c.Source] = &Log{c.Source, c.To, c.Reached, c.Note}
		s.cuts[c.Source] = append(s.cuts[c.Source], c)
	case entryDone:
		rest := slices.DeleteFunc(s.cuts[e.log.Source], func(c *Cut) bool { return c.To == e.log.Position })
		s.cuts[e.log.Source] = rest
		if len(rest) == 0 {
			delete(s.cuts, e.log.Source)
		}
	}
}

// read applies the entries of a file up to the first damaged one. A file without a header is no journal.
func (s *state) read(data []byte) (*header, int64, error) {
	head, rest, err := cutHeader(data)
	if head == nil || err != nil {
		return nil, 0, err
	}

	for {
		e, after, ok := cutEntry(rest)
		if !ok {
			break
		}
		s.apply(e)
		if e.kind == entryCut {
			s.recovered = append(s.recovered, e.cut)
		}
		rest = after
	}

	s.recovered = slices.DeleteFunc(s.recovered, func(c *Cut) bool { return !slices.Contains(s.cuts[c.Source], c) })
	clear(s.unsure) // their requests are read again
	return head, int64(len(data) - len(rest)), nil
}

// append writes the state as entries.
func (s *state) append(b []byte) []byte {
	for source, log := range s.logs {
		for _, c := range s.cuts[source] {
			b = entry{kind: entryCut, cut: c}.append(b)
		}
		b = entry{kind: entryLog, log: *log}.append(b)
	}
	for by, m := range s.memories {
		for _, page := range m.pages {
			b = entry{kind: entrySeen, by: by, seen: page}.append(b)
		}
	}
	return b
}
