// Package topic has the topics of Weir as its parts see them, without saying where they are kept.
//
// A topic has partitions; a partition is an ordered log of records, which keep their offsets. An Appender writes
// records, a Reader reads a partition from an offset on, Spans say what a partition has, Positions are how far groups
// have come, and Members share partitions among them. A Log is all of it. The implementations are internal/kafka (Apache
// Kafka, for several processes) and internal/topic/local (a folder, for one process); topictest has the tests for both.
//
// # What holds for every Log
//
//   - Records of a partition are in the order in which they were accepted, and a record never changes its offset.
//   - An accepted message is answered exactly once, and only when a loss of power of one machine cannot lose it.
//   - A message may be in the log twice, after a fault between the write and its answer.
//   - A reader gets every record that the log still has, in order. Offsets may have gaps where a log was compacted.
//   - A partition has one owner in a group. An owner whose partition went to another cannot commit.
//   - Errors are of the kinds below, by errors.Is. Those that are ErrPermanent cannot be solved by repeating. All others
//     are transient: implementations repeat writes by themselves, and a Reader has paused before it returns one.
package topic

import (
	"context"
	"time"
)

// A Log is a set of topics.
type Log interface {
	Topics
	Spans
	Positions
	Members

	// Appender begins to accept messages for a topic. Its Close ends it.
	Appender(AppenderConfig) Appender

	// Reader reads a partition from an offset on. It starts nothing. An answer has about maxBytes, or one record when
	// that is longer; 0 is the implementation's choice.
	Reader(topic string, partition int, offset int64, maxBytes int) Reader

	// Close ends what Open began. Appenders and members must have ended before.
	Close()
}

// An AppenderConfig names the topic of an Appender and bounds its memory.
type AppenderConfig struct {
	Topic      string
	Partitions int   // of the topic
	QueueBytes int64 // of messages that wait or are being written; 0 is 64 MiB
}

// An Appender writes messages to a topic until the log has them. It returns a message with an error only when that is
// permanent, or at Close.
type Appender interface {
	// Send accepts all the messages, in their order. While the queue is full it waits; when the context ends first, it
	// accepts none. The queue is full when it has QueueBytes or more, so one call may exceed them.
	Send(ctx context.Context, messages ...Message) error

	// TrySend is Send that returns ErrFull instead of waiting.
	TrySend(messages ...Message) error

	// Held returns how many bytes of messages wait or are being written.
	Held() int64

	// Close accepts no more messages and returns when all were written. When the context ends first, the others are
	// answered with ErrClosed, and the error has their number.
	Close(ctx context.Context) error
}

// A Message is one record to be written.
type Message struct {
	Partition  int
	Key, Value []byte // nil is null; must not be changed until Done

	// Done is called once for every accepted message: with its offset, or with the error that prevented its writing.
	// Messages of a partition are done in their order. It runs in the log's goroutine, so it must not wait and must not
	// send. It may be nil.
	Done func(offset int64, err error)
}

// messageOverhead is the size of a record besides its key and value, at most.
const messageOverhead = 40

// Size is how many bytes a message takes of a queue.
func (m *Message) Size() int { return len(m.Key) + len(m.Value) + messageOverhead }

// A Note is a value by its key, next to the topics of a Log that has notes. A nil value deletes it.
type Note struct{ Key, Value []byte }

// A Record is one record of a partition.
type Record struct {
	Offset     int64
	Time       time.Time // by the writer's clock, or the log's if the topic is configured so
	Key, Value []byte    // nil is null, which is not the same as empty
	Headers    []byte    // in the form of Kafka, see kafka.Header; nil where the log has none
	Long       bool      // it has more than 16 MiB and was skipped: there is no Key, and the Value is our own text about it
}

// A Reader reads one partition, record after record. One goroutine uses it.
type Reader interface {
	// Fetch returns the next records. It waits up to half a second for one (see SetPatient). It returns none when there is
	// none, or when the log was compacted at that place. The records and their bytes are valid until the next Fetch.
	//
	// ErrTrimmed means that the log begins after Next, ErrPastEnd that it ends before; Span then has the log's extent, and
	// Next stays. After any other error, except the context's, the same call may be repeated at once.
	Fetch(ctx context.Context) ([]Record, error)

	// Next returns the offset that the next Fetch begins at.
	Next() int64

	// SetNext makes the next Fetch begin at an offset.
	SetNext(offset int64)

	// Span returns the extent of the partition at the last answer; zero before the first.
	Span() Span

	// Identity returns the identity of the topic that is read now. As after Fetch, the same call may be repeated at once
	// after an error.
	Identity(ctx context.Context) (Identity, error)
}

// SetPatient makes a Reader wait longer for a record from now on, up to two seconds, or as long as others again. It is for
// logs in which nothing happens: each answer without records costs both sides processor time. A
// Reader that has no other wait stays as it is.
func SetPatient(r any, patient bool) {
	if p, ok := r.(interface{ SetPatient(patient bool) }); ok {
		p.SetPatient(patient)
	}
}

// A Span is the extent of a partition: records from Start up to, and not including, End.
type Span struct{ Start, End int64 }

// Spans say what partitions have.
type Spans interface {
	// Partitions returns how many partitions a topic has.
	Partitions(ctx context.Context, topic string) (int, error)

	// Offsets returns the spans of a topic's partitions. One error fails the call: a partition that cannot be asked never
	// looks like an empty one.
	Offsets(ctx context.Context, topic string) ([]Span, error)

	// PartitionSpan returns the span of one partition, even if others cannot be asked.
	PartitionSpan(ctx context.Context, topic string, partition int) (Span, error)

	// OffsetAt returns the offset of the first record with that time or a later one, or the partition's end when there is
	// none. The time is the record's own, not that of its contents.
	OffsetAt(ctx context.Context, topic string, partition int, at time.Time) (int64, error)
}

// A Topic is the required state of a topic.
type Topic struct {
	Name        string // in full
	Partitions  int
	Replication int               // copies of each partition; 0 is the log's default
	Settings    map[string]string // in Kafka's names: cleanup.policy, retention.ms
}

// Topics are made and described.
type Topics interface {
	// EnsureTopics creates missing topics, where that is permitted, and checks those that exist: ErrPartitions,
	// ErrSettings. It returns when every partition can be used.
	EnsureTopics(ctx context.Context, topics ...Topic) error

	// TopicSettings returns a topic's settings, in Kafka's names.
	TopicSettings(ctx context.Context, name string) (map[string]string, error)

	// Cluster returns where the topics are kept, and their names.
	Cluster(ctx context.Context) (Cluster, error)
}

// A Cluster is where topics are kept.
type Cluster struct {
	ID      string
	Brokers []string // host:port; none for a folder
	Topics  []string // without the log's own
}

// MaxMetadata is how many bytes of metadata a commit may carry: the default limit of Kafka.
const MaxMetadata = 4096

// A Commit is a group's committed offset of a partition, with its metadata.
type Commit struct {
	Offset   int64 // the next to be read; -1 when nothing was committed
	Metadata string
}

// A GroupState is what a group has committed, and how many members it has.
type GroupState struct {
	Name    string
	Members int                       // -1 when that is unknown
	Commits map[string]map[int]Commit // by topic and partition; without partitions that were never committed
}

// Positions are how far groups have come. Claim.Commit changes them.
type Positions interface {
	// Committed returns a group's commits for all partitions of a topic. The group need not have members.
	Committed(ctx context.Context, group, topic string) ([]Commit, error)

	// Groups returns the states of the groups whose names begin with a prefix, and of the named groups, which need not
	// exist yet, sorted by name.
	Groups(ctx context.Context, prefix string, named ...string) ([]GroupState, error)
}

// A Group shares the partitions of its topics among all members that run it under one name.
type Group struct {
	Name   string         // in full
	Topics map[string]int // with the required number of partitions; 0 allows any number, which may grow

	// Session is how long a member without heartbeats stays in the group; in Kafka zero is as in kafka.Config. Rebalance is
	// how long the group waits for a member to give up its partitions: longer than the longest checkpoint. Zero is 60 s in
	// Kafka, and 30 s in a process of its own.
	Session, Rebalance time.Duration

	// Place is called with true when this member has a place in the group, with or without partitions, and with false
	// when it has none any more. It may be nil, and must not wait.
	Place func(has bool)

	// Alone reports whether this member wants all partitions for itself. Of the members that do, one gets all partitions
	// of its topics, and the others have none until it no longer wants them. A member without partitions must not want
	// it. Alone is asked several times a second, and must not wait. It may be nil; a Log for one process ignores it.
	Alone func() bool
}

// A Claim is a partition that a member owns for a while.
type Claim struct {
	Topic      string
	Partition  int
	Partitions int    // of the topic
	Member     string // the owner's id in its group, as long as it has one

	commit func(context.Context, Commit) error
}

// NewClaim makes the claim of a partition, for a Log.
func NewClaim(topic string, partition, partitions int, commit func(context.Context, Commit) error) *Claim {
	return &Claim{Topic: topic, Partition: partition, Partitions: partitions, commit: commit}
}

// Commit commits an offset and metadata for the claim's partition. It repeats failures for a while until the context
// ends. ErrExpelled means that another member has the partition now, and ErrTooLarge that the metadata is longer than
// MaxMetadata.
func (c *Claim) Commit(ctx context.Context, commit Commit) error {
	if len(commit.Metadata) > MaxMetadata {
		return Errorf(ErrTooLarge, "committing %s/%d: %d bytes of metadata, at most %d are allowed", c.Topic, c.Partition, len(commit.Metadata), MaxMetadata)
	}
	return c.commit(ctx, commit)
}

// An Owner works on one partition while its member owns it. When its context is done it saves its state and returns;
// only then may another member have the partition. An error before that ends RunGroup. A return without an error leaves
// the partition unused until members come or go.
type Owner func(ctx context.Context, claim *Claim) error

// Members share partitions.
type Members interface {
	// RunGroup is a member of the group until the context is done (it returns nil then), an owner returns an error, or a
	// topic has the wrong number of partitions (ErrPartitions). It runs an owner for each partition that it gets, each in
	// its own goroutine, and returns when all of them have. When members come or go, the owner of a partition that stays
	// goes on. It waits for topics that do not exist.
	RunGroup(ctx context.Context, group Group, own Owner) error
}
