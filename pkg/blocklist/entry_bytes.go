package blocklist

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
)

// The flags of a value.
const (
	isShadow = 1 << iota
	isManual
	hasEnded
	isNever
	isGuarded // only in values of guardedVersion and sharedVersion
	isShared  // only in values of sharedVersion, and with isGuarded

	flags = isShadow | isManual | hasEnded | isNever | isGuarded | isShared
)

// Append appends the value of the entry's record. It returns ErrEntry for an impossible entry.
func (e *Entry) Append(b []byte) ([]byte, error) {
	if err := e.validate(); err != nil {
		return b, err
	}
	begin := len(b)
	b = append(b, e.version(), e.flags())
	b = appendText(b, e.ID)
	b = binary.AppendUvarint(b, uint64(e.Generation))
	b = binary.AppendUvarint(b, uint64(e.Offset))
	b = e.appendTimes(b)
	b = appendText(b, e.Limit)
	b = binary.AppendUvarint(b, uint64(e.Count))
	b = binary.AppendUvarint(b, uint64(e.Level))
	b = appendText(b, e.By)
	b = appendText(b, e.Why)
	b = e.appendFields(b)
	if e.Guarded {
		b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b[begin:]))
	}
	if long := len(b) - begin; long > MaxBytes {
		return b[:begin], fmt.Errorf("%w: %d bytes, at most %d are possible", ErrEntry, long, MaxBytes)
	}

	return b, nil
}

// version is the first byte of the value. Programs that do not know guards leave out the records of a later version, and so
// do not enforce them.
func (e *Entry) version() byte {
	switch {
	case e.ByShare:
		return sharedVersion
	case e.Guarded:
		return guardedVersion
	}
	return RecordVersion
}

func (e *Entry) flags() byte {
	f := byte(0)
	if e.Mode == Shadow {
		f |= isShadow
	}
	if e.Source == Manual {
		f |= isManual
	}
	if e.Ended != 0 {
		f |= hasEnded
	}
	if e.Until == Never {
		f |= isNever
	}
	if e.Guarded {
		f |= isGuarded
	}
	if e.ByShare {
		f |= isShared
	}

	return f
}

func (e *Entry) appendTimes(b []byte) []byte {
	b = binary.AppendVarint(b, e.From)
	if e.Until != Never {
		b = binary.AppendUvarint(b, uint64(e.Until-e.From))
	}
	b = binary.AppendVarint(b, e.Decided-e.From)
	if e.Ended != 0 {
		b = binary.AppendVarint(b, e.Ended-e.From)
	}
	return b
}

func (e *Entry) appendFields(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(e.Fields)))
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		b = appendText(b, name)
		value := e.Fields[name]
		// The key of most rules is the value of their only field: it is not written twice.
		if value == e.Key {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(value))+1)
		b = append(b, value...)
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// Decode reads a record of an entry, completely or not at all. Its errors are ErrNewer and ErrDamaged.
func Decode(record, value []byte) (*Entry, error) {
	rule, key, err := ParseRecordKey(record)
	if err != nil {
		return nil, err
	}
	e := &Entry{Rule: rule, Key: key}
	if err := e.decode(value, false); err != nil {
		return nil, err
	}
	return e, nil
}

// decode reads a value into an entry that has its rule and key. Borrowed texts share the value's bytes.
func (e *Entry) decode(value []byte, borrowed bool) error {
	guarded := len(value) > 0 && (value[0] == guardedVersion || value[0] == sharedVersion) && sealed(value)
	body := value
	if guarded {
		body = value[:len(value)-sealBytes]
	}
	if err := checkEntryVersion(value, guarded); err != nil {
		return err
	}
	if value[1]&^flags != 0 || guarded != (value[1]&isGuarded != 0) || (value[0] == sharedVersion) != (value[1]&isShared != 0) {
		return errDamaged(value)
	}
	c := newDecoder(body[2:], borrowed)
	e.read(&c, value[1])
	// The flags are compared with those that the entry would be written with, so that every entry has one form in
	// bytes.
	if c.Failed || len(c.Left) > 0 || e.validate() != nil || e.flags() != value[1] {
		return errDamaged(value)
	}
	return nil
}

func (e *Entry) read(c *decoder, flags byte) {
	e.Mode, e.Source, e.Guarded = Mode(flags&isShadow), Source(flags&isManual>>1), flags&isGuarded != 0
	e.ByShare = flags&isShared != 0
	e.ID = c.text(maxShort)
	e.Generation, e.Offset = c.Number(), c.Number()
	e.From = c.Signed()
	e.Until = Never
	if flags&isNever == 0 {
		e.Until = e.From + c.AtMost(2*maxTime)
	}

	e.Decided = e.From + c.Signed()
	if flags&hasEnded != 0 {
		e.Ended = e.From + c.Signed()
	}

	e.Limit = c.text(maxShort)
	e.Count, e.Level = c.Number(), int(c.AtMost(maxLevel))
	e.By, e.Why = c.text(maxShort), c.text(maxWhy)
	e.readFields(c)
}

// readFields requires that each name is greater than the one before.
func (e *Entry) readFields(c *decoder) {
	count := c.AtMost(maxFields)
	if count == 0 {
		return
	}
	if e.Fields == nil {
		e.Fields = make(map[string]string, count)
	}

	before := ""
	for range count {
		name := c.text(maxShort)
		value, length := e.Key, c.AtMost(maxKey+1)
		if length > 0 {
			value = c.string(length - 1)
		}
		if name <= before || length > 0 && value == e.Key {
			c.Fail()
		}
		e.Fields[name], before = value, name
	}
}

// A decoder reads values whose numbers are in their shortest form.
type decoder struct {
	varint.Reader
	borrowed bool // texts share the bytes
}

func newDecoder(b []byte, borrowed bool) decoder {
	return decoder{varint.Reader{Left: b, Shortest: true}, borrowed}
}

func (c *decoder) text(most int64) string { return c.string(c.AtMost(most)) }

func (c *decoder) string(length int64) string {
	if c.borrowed {
		return textOf(c.Take(length))
	}
	return string(c.Take(length))
}
