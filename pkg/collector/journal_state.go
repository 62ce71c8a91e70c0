package collector

import "slices"

// A state is the content of a journal: the state of each log, and the cuts that Kafka may not have, by source.
type state struct {
	logs      map[string]*logState
	cuts      map[string][]*cutRecord
	recovered []*cutRecord // the cuts that it had when it was opened, in their order
}

// A logState is the state of one log.
type logState struct {
	source   string
	position int64
	reached  int64  // request time; noTime when unknown
	note     []byte // the source's own
}

func newState() state {
	return state{logs: map[string]*logState{}, cuts: map[string][]*cutRecord{}}
}

func (s *state) apply(e entry) {
	switch e.kind {
	case entryLog:
		log := e.log
		s.logs[log.source] = &log
	case entryForget:
		delete(s.logs, e.log.source)
		delete(s.cuts, e.log.source)
	case entryCut:
		c := e.cut
		s.logs[c.source] = &logState{c.source, c.to, c.reached, c.note}
		s.cuts[c.source] = append(s.cuts[c.source], c)
	case entryDone:
		rest := slices.DeleteFunc(s.cuts[e.log.source], func(c *cutRecord) bool { return c.to == e.log.position })
		s.cuts[e.log.source] = rest
		if len(rest) == 0 {
			delete(s.cuts, e.log.source)
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

	s.recovered = slices.DeleteFunc(s.recovered, func(c *cutRecord) bool { return !slices.Contains(s.cuts[c.source], c) })
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
	return b
}
