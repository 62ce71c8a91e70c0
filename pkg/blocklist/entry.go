package blocklist

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// An Entry states that a key is blocked by a rule. Times are Unix milliseconds.
type Entry struct {
	ID      string // never changes, see ID
	Rule    string
	Key     string            // for people
	Fields  map[string]string // the key for machines: its parts by their names
	From    int64             // time of the hit that broke the limit; it stays when the block is extended
	Until   int64             // after From; Never when only a person ends it
	Decided int64             // when it was put on the list
	Ended   int64             // when it was taken off before Until; 0 when it was not
	Limit   string            // the broken limit: 10/min
	Count   int64             // of hits within the limit's time, including the one that broke it
	Level   int               // 1 for the first offence, 2 for the second within the rule's forget, …
	Mode    Mode
	Guarded bool // the rule's guard keeps the block from being enforced, see Held.Shadow; Mode is Shadow in the record
	ByShare bool // Guarded, because it is beyond the guard's most_share; otherwise it is beyond most_new
	Source  Source
	Order   Kind   // of a manual entry, see Order.Entry; it is not in the entry's record
	By      string // weir, or who ordered it
	Why     string // the reason given with a manual entry

	// Generation and Offset locate the deciding hit in the log of hits. Only the record has them.
	Generation, Offset int64
}

// A Mode determines whether a block is enforced.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Shadow       // shown and counted; it refuses nothing
)

func (m Mode) String() string {
	if m == Shadow {
		return "shadow"
	}
	return "enforce"
}

// MarshalText writes enforce or shadow.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *Mode) UnmarshalText(text []byte) error { return unword(m, text, Enforce, Shadow) }

// A Source is the origin of an entry.
type Source uint8

// The sources.
const (
	Verdict Source = iota // a limit was broken
	Manual                // a person ordered it
)

func (s Source) String() string {
	if s == Manual {
		return "manual"
	}
	return "verdict"
}

// MarshalText writes verdict or manual.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Source) UnmarshalText(text []byte) error { return unword(s, text, Verdict, Manual) }

// unword finds the value whose word a text is.
func unword[T fmt.Stringer](to *T, text []byte, values ...T) error {
	for _, value := range values {
		if value.String() == string(text) {
			*to = value
			return nil
		}
	}
	return fmt.Errorf("%w: the word %.40q", ErrDamaged, text)
}

// ID is the id of an entry: 24 hexadecimal digits, from the SHA-256 of the rule's name, a zero byte, the key, a zero byte,
// and from and level as 8 bytes each, little endian. The same decision always has the same id. Clients choose keys, and
// readers of weir.events leave out what they have seen with the same id. So two keys with one id must not be found: that
// takes about 2^48 hashes, and then they have it for one millisecond.
func ID(rule, key string, from int64, level int) string {
	b := make([]byte, 0, len(rule)+len(key)+18)
	b = append(append(b, rule...), 0)
	b = append(append(b, key...), 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(from))
	b = binary.LittleEndian.AppendUint64(b, uint64(level))
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Target is the key as people type it: with the name of its field in a manual entry, unless it is an address. So it is in
// a verdict whose key could be taken for an address or a field: clients choose some keys, and with a user who is named
// 203.0.113.0/24, people must not block or let in that network.
func (e *Entry) Target() string {
	if e.Order != 0 && e.Order != OrderBlock && e.Order != OrderAllow || len(e.Fields) != 1 || e.Fields[scopeIP] != "" {
		return e.Key
	}
	for name, value := range e.Fields {
		if _, _, err := ParseTarget(e.Key); e.Order != 0 || err == nil && value == e.Key {
			return name + ":" + e.Key
		}
	}
	return e.Key
}

// An instant is written as RFC 3339 in UTC: full seconds without a fraction, all others with three digits; Never as the
// last second of the year 9999.
type instant int64

const lastInstant = 253402300799_000

// MarshalText writes the instant.
func (i instant) MarshalText() ([]byte, error) {
	layout := "2006-01-02T15:04:05.000Z"
	if i%1000 == 0 || i > lastInstant {
		layout = "2006-01-02T15:04:05Z"
	}
	return time.UnixMilli(int64(min(i, lastInstant))).UTC().AppendFormat(nil, layout), nil
}

// A shownEntry is the JSON form of an entry.
type shownEntry struct {
	Version int               `json:"v"`
	ID      string            `json:"id"`
	Rule    string            `json:"rule"`
	Key     string            `json:"key"`
	Fields  map[string]string `json:"fields"`
	From    instant           `json:"from"`
	Until   instant           `json:"until"`
	Decided instant           `json:"decided"`
	Limit   string            `json:"limit"`
	Count   int64             `json:"count"`
	Level   int               `json:"level"`
	Mode    Mode              `json:"mode"`
	Guarded bool              `json:"guarded,omitempty"`
	GuardBy string            `json:"guarded_by,omitempty"`
	Source  Source            `json:"source"`
	Order   Kind              `json:"order,omitempty"`
	By      string            `json:"by"`
	Why     string            `json:"why"`
	Ended   *instant          `json:"ended,omitempty"`
}

// MarshalJSON writes the entry as JSON.
func (e *Entry) MarshalJSON() ([]byte, error) {
	shown := shownEntry{RecordVersion, e.ID, e.Rule, e.Key, e.Fields, instant(e.From), instant(e.Until), instant(e.Decided), e.Limit, e.Count,
		e.Level, e.Mode, e.Guarded, "", e.Source, e.Order, e.By, e.Why, nil}
	if shown.Fields == nil {
		shown.Fields = map[string]string{}
	}
	if e.Guarded {
		shown.GuardBy = GuardedBy(e.ByShare)
	}
	if e.Ended != 0 {
		shown.Ended = (*instant)(&e.Ended)
	}

	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // keys and paths stay readable; a caller's encoder may still escape them
	err := encoder.Encode(shown)
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), err
}

// UnmarshalJSON reads the output of MarshalJSON. It ignores unknown fields.
func (e *Entry) UnmarshalJSON(text []byte) error {
	var shown shownEntry
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("reading an entry: %w", err)
	}
	if shown.Version > RecordVersion {
		return fmt.Errorf("%w: an entry of version %d", ErrNewer, shown.Version)
	}

	*e = Entry{ID: shown.ID, Rule: shown.Rule, Key: shown.Key, Fields: shown.Fields, From: int64(shown.From), Until: shown.Until.untilInstant(),
		Decided: int64(shown.Decided), Limit: shown.Limit, Count: shown.Count, Level: shown.Level, Mode: shown.Mode, Guarded: shown.Guarded, ByShare: shown.Guarded && shown.GuardBy == GuardedBy(true), Source: shown.Source,
		Order: shown.Order, By: shown.By, Why: shown.Why}
	if shown.Ended != nil {
		e.Ended = int64(*shown.Ended)
	}

	return nil
}

// The bounds of an entry's texts in bytes, and of its numbers.
const (
	maxShort  = 256
	maxWhy    = 1024
	maxKey    = 1024
	maxFields = 16
	maxLevel  = 1 << 20
	maxTime   = 1 << 42 // the bound that requests have: until 2109
)

// validate returns an error for an impossible entry.
func (e *Entry) validate() error {
	if e.Rule == "" || len(e.Rule) > maxShort || e.Key == "" || len(e.Key) > maxKey {
		return fmt.Errorf("%w: the rule %q or its key of %d bytes", ErrEntry, e.Rule, len(e.Key))
	}
	if e.ID == "" || len(e.ID) > maxShort || len(e.Limit) > maxShort || len(e.By) > maxShort || len(e.Why) > maxWhy {
		return fmt.Errorf("%w: a text of it has too many bytes, or it has no id", ErrEntry)
	}

	for _, at := range []int64{e.From, e.Decided, e.Ended} {
		if at < 0 || at >= maxTime {
			return fmt.Errorf("%w: the time %d", ErrEntry, at)
		}
	}

	if e.Until <= e.From || e.Until >= 2*maxTime && e.Until != Never {
		return fmt.Errorf("%w: from %d until %d", ErrEntry, e.From, e.Until)
	}
	if e.Count < 0 || e.Level < 0 || e.Level > maxLevel || e.Generation < 0 || e.Offset < 0 || e.Mode > Shadow || e.Source > Manual {
		return fmt.Errorf("%w: a number of it is out of its range", ErrEntry)
	}
	if e.ByShare && !e.Guarded {
		return fmt.Errorf("%w: it is beyond the guard's share, and not guarded", ErrEntry)
	}
	if e.Guarded && (e.Mode != Shadow || e.Source != Verdict) {
		return fmt.Errorf("%w: it is guarded, and no verdict in shadow mode", ErrEntry)
	}
	if len(e.Fields) > maxFields {
		return fmt.Errorf("%w: %d fields", ErrEntry, len(e.Fields))
	}

	for name, value := range e.Fields {
		if name == "" || len(name) > maxShort || len(value) > maxKey {
			return fmt.Errorf("%w: a field of %d bytes with a name of %d", ErrEntry, len(value), len(name))
		}
	}

	return nil
}
