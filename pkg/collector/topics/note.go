package topics

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

const noteVersion = 1

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// A kafkaNote is the metadata of a group's commit, which is the journal of a partition. Kafka has all hits before the
// committed offset; the outstanding cuts follow it, one after the other.
//
// It fits topic.MaxMetadata with as many cuts as a stream has in flight.
type kafkaNote struct {
	Version     int       `json:"v"`
	Incarnation string    `json:"incarnation"`       // random: made when the partition is begun
	Partitions  int       `json:"partitions"`        // of the topic at that time: a partition with a higher number is younger
	TopicID     string    `json:"id,omitempty"`      // of a topic that a group reads, where the brokers know one
	Rules       string    `json:"rules,omitempty"`   // fingerprint of those that made the cuts
	Reached     int64     `json:"reached,omitempty"` // request time up to which Kafka has all, Unix ms; 0 is unknown
	At          int64     `json:"at,omitempty"`      // when a record was last done, by the collector's clock, Unix ms; 0 is unknown
	End         bool      `json:"end,omitempty"`     // there was nothing more to read
	Waits       int64     `json:"waits,omitempty"`   // when others last kept it from reading, Unix s
	Last        *recordID `json:"last,omitempty"`    // the last record before the offset
	Mark        *recordID `json:"mark,omitempty"`    // a record some minutes older, to recognize a log that was cut off

	// The form that was found out, where it is not configured.
	Envelope string `json:"envelope,omitempty"`
	Format   string `json:"format,omitempty"`

	// The writers of a topic of attempts at inline rules, and the last record of each, to recognize one that is there twice.
	Writers []byte `json:"writers,omitempty"`

	Cuts []int64 `json:"cuts,omitempty"` // the length and the clock of each outstanding cut
}

// A recordID identifies a record that was read, to recognize the log.
type recordID struct {
	Offset int64  `json:"offset"`
	Sum    uint32 `json:"sum"` // CRC-32C of key, value and time
}

func idOf(r *topic.Record) recordID {
	sum := crc32.Update(crc32.Checksum(r.Key, crcTable), crcTable, r.Value)
	at := binary.LittleEndian.AppendUint64(nil, uint64(r.Time.UnixMilli()))
	return recordID{r.Offset, crc32.Update(sum, crcTable, at)}
}

func (n kafkaNote) commit(offset int64, cuts []pipeline.Again) topic.Commit {
	n.Version = noteVersion
	n.Cuts = nil
	for _, c := range cuts {
		n.Cuts = append(n.Cuts, c.To-c.From, c.Clock)
	}
	text, _ := json.Marshal(n) // it is made of numbers and texts
	return topic.Commit{Offset: offset, Metadata: string(text)}
}

var (
	errForeign   = errors.New("it was committed by something else")
	errNewerNote = errors.New("it was written by a newer version; run that one")
)

// readNote reads a commit. Its errors are errForeign and errNewerNote.
func readNote(commit topic.Commit) (n kafkaNote, cuts []pipeline.Again, err error) {
	if json.Unmarshal([]byte(commit.Metadata), &n) != nil || n.Version == 0 || n.Incarnation == "" {
		return kafkaNote{}, nil, errForeign
	}
	switch {
	case n.Version > noteVersion && sealedNote(commit.Metadata):
		return kafkaNote{}, nil, errNewerNote
	case n.Version != noteVersion:
		return kafkaNote{}, nil, errForeign
	}

	at := commit.Offset
	for i := 0; i+1 < len(n.Cuts); i += 2 {
		if n.Cuts[i] < 1 {
			return kafkaNote{}, nil, errForeign
		}
		cuts = append(cuts, pipeline.Again{From: at, To: at + n.Cuts[i], Clock: n.Cuts[i+1]})
		at += n.Cuts[i]
	}

	return n, cuts, nil
}

// sealedNote reports whether a note of a later version is complete: it ends with a member "sum", the CRC-32C in
// hexadecimal of all text before the comma in front of it. Without this check any JSON with a "v" would pass.
func sealedNote(text string) bool {
	end := len(text) - len(`,"sum":"00000000"}`)
	return end > 0 && text[end:] == fmt.Sprintf(`,"sum":"%08x"}`, crc32.Checksum([]byte(text[:end]), crcTable))
}

// reached is the request time reached.
func (n *kafkaNote) reached() int64 {
	if n.Reached == 0 {
		return pace.NoTime
	}
	return n.Reached
}

// choice is the form that was found out; nil when none was.
func (n *kafkaNote) choice() *request.Choice {
	if n.Format == "" {
		return nil
	}
	return &request.Choice{Envelope: n.Envelope, Format: n.Format}
}

// A takeover is where reading a partition begins.
type takeover struct {
	beyond bool // the log ends before what was read of it
	same   bool // its topic has the id of the topic that was read
	cut    bool // the log lost its end: what was written there meanwhile may not be read
	note   kafkaNote
	offset int64 // to begin at; -1 is the start of a new incarnation
	again  []pipeline.Again
	whyNew string // why the note is not valid for this log; "" when it is
}

// end is where the outstanding cuts end.
func (t *takeover) end() int64 {
	if n := len(t.again); n > 0 {
		return t.again[n-1].To
	}
	return t.offset
}

// newTakeover determines where to continue, from the commit and the extent of the log.
func newTakeover(commit topic.Commit, span topic.Span) (t takeover, err error) {
	if commit.Offset < 0 {
		return takeover{offset: -1, whyNew: "nothing is stored about it"}, nil
	}
	t.offset = commit.Offset
	t.note, t.again, err = readNote(commit)
	switch {
	case errors.Is(err, errForeign):
		return takeover{offset: commit.Offset, whyNew: "the stored commit was not written by a collector"}, nil
	case err != nil:
		return t, err
	case t.end() > span.End:
		return takeover{note: t.note, beyond: true, offset: -1, whyNew: fmt.Sprintf("its log ends at %d, but it was read up to %d", span.End, t.end())}, nil
	}

	return t, nil
}
