package local

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/topic"
	"weir/internal/varint"
)

// The kinds of keys, after the first byte.
const (
	ours = 0xfe

	aTopic = iota
	aSpan
	aRecord
	aLast
	anEnd // of a key: a record without a value
	aCommit
	aNote
	aNumber // of the last write
)

const prefixBytes = 10 // of the keys of a partition

var errDamaged = errors.New("the topics on disk are damaged")

var numberKey = []byte{ours, aNumber}

// lastNumber returns the number of the last write that a database has: 0 when it is of a version that did not count them.
func lastNumber(db *pebble.DB) (uint64, error) {
	value, err := database.Get(db, numberKey)
	switch {
	case err != nil || value == nil:
		return 0, err
	case len(value) != 8:
		return 0, fmt.Errorf("%w: the number of the last write has %d bytes", errDamaged, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

func topicKey(name string) []byte { return append([]byte{ours, aTopic}, name...) }

// SplitAt is for the database: each partition's records have files of their own. They are in order there, so these files
// are never written again.
func SplitAt(first []byte) []byte {
	switch records := []byte{ours, aRecord}; {
	case bytes.Compare(first, records) < 0:
		return records
	case !bytes.HasPrefix(first, records) || len(first) < prefixBytes:
		return nil
	}
	number, partition := binary.BigEndian.Uint32(first[2:]), binary.BigEndian.Uint32(first[6:])
	if partition >= maxPartitions {
		return nil // no key of ours
	}
	return appendPrefix(nil, aRecord, number, int(partition)+1)
}

// appendPrefix begins the keys of a kind in a partition.
func appendPrefix(b []byte, kind byte, number uint32, partition int) []byte {
	b = append(b, ours, kind)
	b = binary.BigEndian.AppendUint32(b, number)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

func appendOffset(b []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(offset))
}

// offsetIn returns the offset at the end of a key.
func offsetIn(key []byte) (int64, error) {
	if len(key) != prefixBytes+8 {
		return 0, fmt.Errorf("%w: a key of %d bytes", errDamaged, len(key))
	}
	offset := int64(binary.BigEndian.Uint64(key[prefixBytes:]))
	if offset < 0 {
		return 0, fmt.Errorf("%w: an offset of %d", errDamaged, offset)
	}
	return offset, nil
}

// The first byte of a record has these bits.
const (
	recordForm = 1 // the lower half is the version
	hasKey     = 1 << 4
	hasValue   = 1 << 5
)

// recordSize bounds the length of a record's bytes.
func recordSize(m *topic.Message) int {
	return 1 + 3*binary.MaxVarintLen64 + len(m.Key) + len(m.Value)
}

// A head is what a record has besides its key and value.
type head struct {
	at    int64 // Unix ms
	total int64 // bytes of the partition's records until here, this one included
}

// appendHead begins a record; its key and value follow.
func appendHead(b []byte, m *topic.Message, h head) []byte {
	form := byte(recordForm)
	if m.Key != nil {
		form |= hasKey
	}
	if m.Value != nil {
		form |= hasValue
	}
	b = append(b, form)
	b = binary.AppendVarint(b, h.at)
	b = binary.AppendUvarint(b, uint64(h.total))
	return binary.AppendUvarint(b, uint64(len(m.Key)))
}

// readRecord reads a record; its key and value are parts of b.
func readRecord(b []byte, offset int64) (topic.Record, head, error) {
	r := topic.Record{Offset: offset}
	in := varint.Reader{Left: b}
	form := in.Byte()
	h := head{at: in.Signed(), total: in.Number()}
	key := in.Text(maxRecord)
	if in.Failed || form&^(hasKey|hasValue) != recordForm || len(in.Left) > maxRecord ||
		form&hasKey == 0 && len(key) > 0 || form&hasValue == 0 && len(in.Left) > 0 {
		return topic.Record{}, head{}, fmt.Errorf("%w: record %d cannot be read", errDamaged, offset)
	}

	r.Time = time.UnixMilli(h.at)
	if form&hasKey != 0 {
		r.Key = notNil(key)
	}
	if form&hasValue != 0 {
		r.Value = notNil(in.Left)
	}
	return r, h, nil
}

// notNil makes a difference between null and empty.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// An extent is the stored span of a partition: its end and total are at least these.
type extent struct {
	start, end int64
	total      int64
}

func (e extent) bytes() []byte {
	b := binary.AppendUvarint(nil, uint64(e.start))
	b = binary.AppendUvarint(b, uint64(e.end))
	return binary.AppendUvarint(b, uint64(e.total))
}

// readExtent reads the span of a partition; no bytes are those of a new one.
func readExtent(b []byte) (e extent, err error) {
	if len(b) == 0 {
		return e, nil
	}
	in := varint.Reader{Left: b}
	e = extent{in.Number(), in.Number(), in.Number()}
	in.End()
	if in.Failed || e.start > e.end {
		return extent{}, fmt.Errorf("%w: the span of a partition cannot be read", errDamaged)
	}
	return e, nil
}

// A last is the last record of a key.
type last struct {
	offset int64
	ends   bool // it has no value
}

func (l last) bytes() []byte {
	b := binary.AppendUvarint(nil, uint64(l.offset))
	if l.ends {
		return append(b, 1)
	}
	return append(b, 0)
}

func readLast(b []byte) (last, error) {
	in := varint.Reader{Left: b}
	l := last{offset: in.Number(), ends: in.Byte() == 1}
	in.End()
	if in.Failed {
		return last{}, fmt.Errorf("%w: the place of a key cannot be read", errDamaged)
	}
	return l, nil
}

// groupPrefix begins the keys of a group's commits.
func groupPrefix(group string) []byte {
	return append([]byte{ours, aCommit, byte(len(group))}, group...)
}

// commitKey is the key of a commit. Names have at most maxName bytes.
func commitKey(group, topicName string, partition int) []byte {
	b := append(groupPrefix(group), byte(len(topicName)))
	b = append(b, topicName...)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

func readCommitKey(key []byte) (group, topicName string, partition int, err error) {
	in := varint.Reader{Left: key}
	in.Take(2)
	group = string(in.Take(int64(in.Byte())))
	topicName = string(in.Take(int64(in.Byte())))
	number := in.Take(4)
	in.End()
	if in.Failed {
		return "", "", 0, fmt.Errorf("%w: the key of a commit cannot be read", errDamaged)
	}
	return group, topicName, int(binary.BigEndian.Uint32(number)), nil
}

func appendCommit(b []byte, c topic.Commit) []byte {
	return append(binary.AppendVarint(b, c.Offset), c.Metadata...)
}

func readCommit(b []byte) (topic.Commit, error) {
	in := varint.Reader{Left: b}
	c := topic.Commit{Offset: in.Signed()}
	if in.Failed || len(in.Left) > topic.MaxMetadata {
		return topic.Commit{}, fmt.Errorf("%w: a commit cannot be read", errDamaged)
	}
	c.Metadata = string(in.Left)
	return c, nil
}

// A description is how a topic is stored.
type description struct {
	Number     uint32            `json:"number"`
	ID         string            `json:"id"` // of its identity: another when it is made again
	Partitions int               `json:"partitions"`
	Settings   map[string]string `json:"settings,omitempty"`
}

func readDescription(b []byte) (d description, err error) {
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("%w: a topic cannot be read: %w", errDamaged, err)
	}
	if d.Partitions < 1 || d.Partitions > maxPartitions {
		return d, fmt.Errorf("%w: a topic of %d partitions", errDamaged, d.Partitions)
	}
	return d, nil
}
