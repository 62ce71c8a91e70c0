package collector

// A journal keeps the cuts of a stream that Kafka may not have yet, so that after a crash they are sent again as they
// were. A process has one file journal for all its files (fileJournal); a partition of a group's topic has its
// group's commit for a journal; a source that cannot be replayed has none (noJournal).
//
// note keeps a cut before any of it is sent. It does not block: it sets cut.fault and cut.noted and calls the
// stream's woken, from whatever goroutine, in the order of the calls of a stream. With a fault the cut is not kept and never
// will be: it is dropped, and the stream ends with that fault, because someone else reads the log now. A fault that
// can pass (a full disk, a broker that is away) is no answer: the journal tries again until it is mended, says so
// once a minute, and the stream waits. done says that Kafka has all of the cut; it does not block, and may be
// forgotten in a crash: then the cut is sent again, and skipped by those who have counted it.
//
// What it takes to send a cut again differs. The file journal keeps the batches' bytes, so neither the log nor the
// rules nor the version of the program that made them are needed. A commit has 4,096 bytes of metadata: it keeps
// from, to and clock of each, and the fingerprint; the log is read again from the first of them (stream.again).
type journal interface {
	note(s *stream, c *cut)
	done(s *stream, c *cut)
}

// noJournal keeps nothing: what was sent and not acknowledged is lost with the process.
type noJournal struct{}

func (noJournal) note(s *stream, c *cut) {
	c.noted.Store(true)
	s.woken()
}

func (noJournal) done(*stream, *cut) {}
