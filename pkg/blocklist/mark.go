package blocklist

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A ListID is the list that a record belongs to. The name is agreed once; the epoch grows when the topic was created
// again.
type ListID struct {
	Name  string // letters, digits, - and _; at most 64
	Epoch int64
}

// String is the name, a dash and the epoch.
func (l ListID) String() string { return l.Name + "-" + strconv.FormatInt(l.Epoch, 10) }

// ParseListID reads the output of String.
func ParseListID(text string) (ListID, error) {
	dash := strings.LastIndexByte(text, '-')
	if dash < 0 {
		return ListID{}, fmt.Errorf("%w: the list id %.80q", ErrDamaged, text)
	}
	epoch, err := strconv.ParseInt(text[dash+1:], 10, 64)
	l := ListID{text[:dash], epoch}
	if err != nil || !l.valid() || l.String() != text {
		return ListID{}, fmt.Errorf("%w: the list id %.80q", ErrDamaged, text)
	}
	return l, nil
}

// Compare sorts list ids by their epochs, and ids of the same epoch by their names.
func (l ListID) Compare(other ListID) int {
	return cmp.Or(cmp.Compare(l.Epoch, other.Epoch), cmp.Compare(l.Name, other.Name))
}

const maxListName = 64

func (l ListID) valid() bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return l.Epoch >= 0 && l.Name != "" && len(l.Name) <= maxListName && strings.Trim(l.Name, letters) == ""
}

// A Mark is a watermark: how far the owner of a partition of the hits has got. Times are Unix milliseconds.
type Mark struct {
	List       ListID
	Partition  int
	Partitions int   // of the topic
	Generation int64 // of the log of hits, and
	Offset     int64 // in it, up to which hits are counted
	Reached    int64 // the latest time of requests counted
	At         int64 // the wall clock of its writing
	Since      int64 // every live entry of the partition was published at this offset of the blocklist or later
}

const (
	markPrefix    = "/mark/"
	maxPartitions = 1 << 20
)

// RecordKey returns the key of the watermark's record.
func (m *Mark) RecordKey() []byte {
	return strconv.AppendInt([]byte(markPrefix), int64(m.Partition), 10)
}

func isMark(recordKey []byte) bool { return bytes.HasPrefix(recordKey, []byte(markPrefix)) }

// Append appends the value of the watermark's record. It returns ErrMark for an impossible watermark.
func (m *Mark) Append(b []byte) ([]byte, error) {
	if err := m.validate(); err != nil {
		return b, err
	}
	b = append(b, RecordVersion)
	b = appendText(b, m.List.Name)
	b = binary.AppendUvarint(b, uint64(m.List.Epoch))
	b = binary.AppendUvarint(b, uint64(m.Partitions))
	b = binary.AppendUvarint(b, uint64(m.Generation))
	b = binary.AppendUvarint(b, uint64(m.Offset))
	b = binary.AppendVarint(b, m.Reached)
	b = binary.AppendVarint(b, m.At)
	b = binary.AppendUvarint(b, uint64(m.Since))
	return b, nil
}

func (m *Mark) validate() error {
	if !m.List.valid() || m.Partition < 0 || m.Partition >= m.Partitions || m.Partitions > maxPartitions ||
		m.Generation < 0 || m.Offset < 0 || m.Since < 0 || m.Reached < 0 || m.Reached >= maxTime || m.At < 0 || m.At >= maxTime {
		return fmt.Errorf("%w: %+v", ErrMark, *m)
	}
	return nil
}

// decodeMark reads the record of a watermark, completely or not at all.
func decodeMark(record, value []byte) (*Mark, error) {
	partition, err := strconv.Atoi(strings.TrimPrefix(string(record), markPrefix))
	if err != nil {
		return nil, fmt.Errorf("%w: the record's key %.100q", ErrDamaged, record)
	}
	if err := checkVersion(value, 2); err != nil {
		return nil, err
	}

	c := newDecoder(value[1:], false)
	m := &Mark{Partition: partition}
	m.List.Name, m.List.Epoch = c.text(maxListName), c.Number()
	m.Partitions = int(c.AtMost(maxPartitions))
	m.Generation, m.Offset = c.Number(), c.Number()
	m.Reached, m.At = c.Signed(), c.Signed()
	m.Since = c.Number()
	// The key is compared as text: "/mark/01" would be a second record of partition 1.
	if c.Failed || len(c.Left) > 0 || m.validate() != nil || string(m.RecordKey()) != string(record) {
		return nil, fmt.Errorf("%w: a mark of %d bytes that no version writes", ErrDamaged, len(value))
	}

	return m, nil
}
