package pipeline

// A Journal keeps the cuts of a stream that Kafka may not have yet, so that they are sent again unchanged after a
// crash. All files of a process share one. For a partition of a group's topic, the group's commit is the journal. A
// source that cannot be replayed has none.
//
// Note keeps a cut before any of it is sent. It does not block: Cut.SetNoted is called later, from any goroutine, in the
// order of the stream's calls. With a fault the cut is dropped, and the stream ends with that fault, because another
// collector reads the log now. A temporary problem (a full disk, an unreachable broker) is no fault: the journal logs it
// once a minute and tries until it succeeds, and the stream waits. Done notes that Kafka has all of the cut. It does not
// block, and a crash may lose it: then the cut is sent again, and the aggregator skips it.
//
// Where the sink has notes (StreamConfig.Send), a cut of a file counts as noted at once: its position is written with
// its hits.
//
// The journals need different things to send a cut again. The file journal keeps the bytes of the batches; it needs
// neither the log nor the rules nor the version of the program that made them. A commit has 4,096 bytes of metadata:
// it keeps from, to and clock of each cut, and the fingerprint, and the log is read again from the first of them
// (StreamConfig.Again).
type Journal interface {
	Note(c *Cut)
	Done(c *Cut)
}

// noJournal keeps nothing: hits that were sent and not acknowledged are lost with the process.
type noJournal struct{}

func (noJournal) Note(c *Cut) { c.SetNoted(nil) }

func (noJournal) Done(*Cut) {}
