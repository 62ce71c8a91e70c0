package past

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/address"
	"weir/pkg/blocklist"
)

// A Query selects events. Empty members select all.
type Query struct {
	// Key is a key as the list shows it, an address (with the events of prefixes that contain it), a prefix (with all
	// events within it), a field with its value, or the beginning of a key and a star.
	Key   string
	Rule  string // manual for manual entries
	By    string // the person
	Event string // one of Events
	Order string // block, allow, pardon, pause or confirm
	// Since and Until are Unix milliseconds: events from Since on, and before Until; 0 is open.
	Since, Until int64
	// At selects the last event of each entry that was active at that time; 0 is not asked. Since and Until are then 0.
	At int64

	Limit int
	After string // Next of the page before

	sought *sought
}

// Bounds of a page.
const (
	UsualLimit = 100
	MaxLimit   = 1000
)

// Events are the words for Query.Event.
var Events = []string{blocklist.EventBlocked, blocklist.EventExtended, blocklist.EventCorrected, blocklist.EventEnded, blocklist.EventLifted, blocklist.EventOrdered}

// Orders are the words for Query.Order; unblock is the name that people have for pardon.
var Orders = []string{blocklist.OrderBlock.String(), blocklist.OrderAllow.String(), blocklist.OrderPardon.String(), blocklist.OrderPause.String(), blocklist.OrderConfirm.String(), "unblock"}

var (
	// ErrAfter reports a Query.After that no page had.
	ErrAfter = errors.New("after is the value of next in the page before")
	// ErrQuery reports members that exclude each other, or that no event can have.
	ErrQuery = errors.New("this cannot be asked")
)

// Check returns ErrAfter when no page has that Next.
func (q *Query) Check() error {
	_, err := q.first()
	return err
}

// A sought is what a text for a key selects.
type sought struct {
	text         string
	begins       bool   // text is the beginning of a key
	scope, value string // of a field; empty when the text is no field with a value
	prefix       netip.Prefix
}

func readSought(key string) *sought {
	if text, ok := strings.CutSuffix(key, "*"); ok {
		return &sought{text: text, begins: true}
	}
	s := &sought{text: key}
	scope, value, err := blocklist.ParseTarget(key)
	if err != nil {
		return s
	}
	if s.scope, s.value = scope, value; scope == "ip" {
		s.prefix, _ = address.Parse(value)
	}
	return s
}

// covers reports whether an event is about the key.
func (s *sought) covers(e *Event) bool {
	for _, text := range e.texts() {
		if text == s.text || s.begins && strings.HasPrefix(text, s.text) {
			return true
		}
	}
	if s.scope != "" && e.Fields[s.scope] == s.value {
		return true
	}
	return s.prefix.IsValid() && slices.ContainsFunc(e.prefixes(), s.prefix.Overlaps)
}

// Matches reports whether the query selects an event, apart from At, Limit and After.
func (q *Query) Matches(e *Event) bool {
	if !q.of(kindOf(e)) || q.Since != 0 && e.At < q.Since || q.Until != 0 && e.At >= q.Until {
		return false
	}
	return q.Key == "" || q.key().covers(e)
}

func (q *Query) key() *sought {
	if q.sought == nil {
		q.sought = readSought(q.Key)
	}
	return q.sought
}

// A kind is what many events have in common.
type kind struct{ rule, event, order, by string }

func kindOf(e *Event) kind {
	k := kind{rule: e.Rule, event: e.What, by: e.By}
	if e.Order != 0 {
		k.order = e.Order.String()
	}
	return k
}

// of reports whether the query selects events of a kind.
func (q *Query) of(k kind) bool {
	order := q.Order
	if order == "unblock" {
		order = blocklist.OrderPardon.String()
	}
	return (q.Rule == "" || q.Rule == k.rule) && (q.By == "" || q.By == k.by) && (q.Event == "" || q.Event == k.event) && (order == "" || order == k.order)
}

// ofAnyKind reports whether the query selects events of all kinds.
func (q *Query) ofAnyKind() bool { return q.Rule == "" && q.By == "" && q.Event == "" && q.Order == "" }

// A place is where an event stands in the order of all: by time, then by its arrival.
type place struct {
	at  int64
	seq uint64
}

const placeBytes = 16

func (p place) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	return binary.BigEndian.AppendUint64(b, p.seq)
}

func (p place) before(other place) bool {
	return p.at < other.at || p.at == other.at && p.seq < other.seq
}

// placeOf reads a place at the end of a key.
func placeOf(key []byte) (place, bool) {
	if len(key) < placeBytes {
		return place{}, false
	}
	key = key[len(key)-placeBytes:]
	p := place{int64(binary.BigEndian.Uint64(key)), binary.BigEndian.Uint64(key[8:])}
	return p, p.at >= 0
}

// cursor is the place as Query.After has it.
func (p place) cursor() string { return base64.RawURLEncoding.EncodeToString(p.append(nil)) }

// first is the place before which the page begins: its events are older.
func (q *Query) first() (place, error) {
	first := place{at: maxAt + 1}
	if q.Until != 0 {
		first = place{at: q.Until}
	}
	if q.After == "" {
		return first, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil || len(text) != placeBytes {
		return place{}, ErrAfter
	}
	after, ok := placeOf(text)
	if !ok {
		return place{}, ErrAfter
	}
	if after.before(first) {
		first = after
	}
	return first, nil
}
