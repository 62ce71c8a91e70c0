package backtest

import "weir/pkg/request"

// A chunk is a run of lines of one log, and the hits that a worker made of them. Chunks are reused, and have one owner
// at a time: the feed, then a worker, then the merge, then the feed again.
type chunk struct {
	log    *log
	buffer []byte // of run.data
	run
	end  error         // the end of the log after these lines: nil, io.EOF or an error
	done chan struct{} // the worker is done with it

	requests, lines int64
	filtered        int64    // requests that Config.Only does not select
	oldest, newest  int64    // time of a request, where there are requests
	spans           []span   // the times of the requests, in the order of the lines
	hits            []hit    // in the order of the lines
	keys            []byte   // of the hits
	unread          []unread // by reason
	found           []proof  // requests of the keys that are sought
}

// A hit is one counted request under one rule, on its way from a worker to the counters.
type hit struct {
	at     int64
	hash   uint64
	id     uint64 // of the request, where begins is set; 0 is none
	value  uint64 // of a rule that counts different values
	keyEnd uint32 // in chunk.keys; it begins at the end of the hit before
	cost   uint32
	rule   uint16 // of its set
	set    uint8
	more   bool // the next hit is of the same request and set
	begins bool // it is the first of its request; without Dedupe that is not set
	none   bool // no rule counts the request
	ahead  bool // its time is far ahead of those before and after it
}

// A span is a number of requests in a row in one second.
type span struct{ second, requests int64 }

// An unread counts the lines that could not be read for one reason.
type unread struct {
	reason string
	lines  int64
	line   int64  // of the first of them, counted from the first that was skipped before the chunk
	sample string // of it
}

// reset forgets the results of the chunk before.
func (c *chunk) reset() {
	c.requests, c.lines, c.filtered = 0, 0, 0
	c.spans = c.spans[:0]
	c.hits = c.hits[:0]
	c.keys = c.keys[:0]
	c.unread = c.unread[:0]
	c.found = c.found[:0]
}

// addRequest counts a request that was read.
func (c *chunk) addRequest(r *request.Request) {
	at := r.UnixMilli
	if c.requests == 0 {
		c.oldest, c.newest = at, at
	}
	c.requests++
	c.oldest, c.newest = min(c.oldest, at), max(c.newest, at)
	second := at / 1000
	if n := len(c.spans); n > 0 && c.spans[n-1].second == second {
		c.spans[n-1].requests++
		return
	}
	c.spans = append(c.spans, span{second, 1})
}

// addUnread counts lines that could not be read; text is the first of them.
func (c *chunk) addUnread(reason string, lines int64, line int64, text string) {
	for i := range c.unread {
		if c.unread[i].reason == reason {
			c.unread[i].lines += lines
			return
		}
	}
	c.unread = append(c.unread, unread{reason, lines, line, request.Sample(text)})
}
