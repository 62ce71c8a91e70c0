package blocklist

import (
	"bytes"
	"fmt"
	"strings"

	"weir/internal/address"
)

// An Order is a manual entry: a wish of a person for the list. Times are Unix milliseconds.
type Order struct {
	ID   string
	Kind Kind
	// Scope and Value name the target of a block or an allow: ip and an address or a prefix as pkg/rule writes them, or
	// the name of a field and its value.
	Scope, Value string
	// Rule is the rule of a pause, * for all, or of a confirmation; with Key it is the entry that a pardon is about.
	Rule, Key string
	// Pardons is the id of the entry that is pardoned. The pardon also covers all entries of the same rule and key that
	// begin by the time of the order: hits that still wait to be counted can lead to those.
	Pardons string
	From    int64  // when it was given
	Until   int64  // after From; Never when only a person lifts it
	Ended   int64  // when it was lifted before Until; 0 when it was not
	By      string // who gave it
	Why     string // the reason given
}

// given returns when the order was given, or lifted. Of two orders of one target the newer one is valid.
func (o *Order) given() int64 { return max(o.From, o.Ended) }

// pardons reports whether a pardon covers an entry of its rule and key.
func (o *Order) pardons(e *Entry) bool { return o.Pardons == e.ID || e.From <= o.From }

// A Kind is the kind of an order.
type Kind uint8

// The kinds.
const (
	OrderBlock   Kind = iota + 1 // refuse
	OrderAllow                   // let through, whatever other entries state
	OrderPardon                  // lift an entry
	OrderPause                   // suspend a rule's entries, or all, for a while
	OrderConfirm                 // enforce a rule's guarded entries for a while
)

var kindNames = [...]string{"", "block", "allow", "pardon", "pause", "confirm"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText writes block, allow, pardon, pause or confirm.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Kind) UnmarshalText(text []byte) error {
	return unword(k, text, OrderBlock, OrderAllow, OrderPardon, OrderPause, OrderConfirm)
}

// EveryRule is the rule of a pause for all rules.
const EveryRule = "*"

// The words in the place of a scope in the keys of pauses, pardons and confirmations.
const (
	pauseWord   = "pause"
	pardonWord  = "pardon"
	confirmWord = "~guard" // no field can have this name, while one may be named guard
)

// RecordKey returns the key of the order's record. Block and allow of one scope and value share it: the newest is
// valid, and of several from one instant the last.
func (o *Order) RecordKey() []byte {
	switch o.Kind {
	case OrderPause:
		return []byte(ManualRule + "/" + pauseWord + "/" + o.Rule)
	case OrderConfirm:
		return []byte(ManualRule + "/" + confirmWord + "/" + o.Rule)
	case OrderPardon:
		return []byte(ManualRule + "/" + pardonWord + "/" + o.Rule + "/" + o.Key)
	}
	return []byte(ManualRule + "/" + o.Scope + "/" + o.Value)
}

// readKey reads the part of an order that its record's key contains.
func (o *Order) readKey(record []byte) bool {
	rest, ok := bytes.CutPrefix(record, []byte(ManualRule+"/"))
	scope, value, found := strings.Cut(string(rest), "/")
	if !ok || !found {
		return false
	}

	switch o.Kind {
	case OrderPause:
		o.Rule = value
		return scope == pauseWord
	case OrderConfirm:
		o.Rule = value
		return scope == confirmWord
	case OrderPardon:
		// A rule's name has no slash, so the first one ends it; a key may have some.
		o.Rule, o.Key, found = strings.Cut(value, "/")
		return scope == pardonWord && found
	}

	o.Scope, o.Value = scope, value
	return true
}

// Entry returns the order in the form of an entry: its rule is manual.
func (o *Order) Entry() *Entry {
	e := &Entry{ID: o.ID, Rule: ManualRule, Key: o.Value, From: o.From, Until: o.Until, Decided: o.From, Ended: o.Ended,
		Source: Manual, Order: o.Kind, By: o.By, Why: o.Why}
	switch o.Kind {
	case OrderPause, OrderConfirm:
		e.Key, e.Fields = o.Rule, map[string]string{"rule": o.Rule}
	case OrderPardon:
		e.Key, e.Fields = o.Rule+"/"+o.Key, map[string]string{"rule": o.Rule, "key": o.Key, "pardons": o.Pardons}
	default:
		e.Fields = map[string]string{o.Scope: o.Value}
	}
	return e
}

// validate returns an error for an impossible order.
func (o *Order) validate() error {
	if o.ID == "" || o.By == "" || o.Why == "" || len(o.ID) > maxShort || len(o.By) > maxShort || len(o.Why) > maxWhy {
		return fmt.Errorf("%w: it needs an id, who gives it and why, each of a bounded length", ErrOrder)
	}
	for _, at := range []int64{o.From, o.Ended} {
		if at < 0 || at >= maxTime {
			return fmt.Errorf("%w: the time %d", ErrOrder, at)
		}
	}
	if o.Until <= o.From || o.Until >= 2*maxTime && o.Until != Never {
		return fmt.Errorf("%w: from %d until %d", ErrOrder, o.From, o.Until)
	}
	return o.validateTarget()
}

func (o *Order) validateTarget() error {
	ruleful := o.Rule != "" && len(o.Rule) <= maxShort && !strings.Contains(o.Rule, "/")
	good := false
	switch o.Kind {
	case OrderBlock, OrderAllow:
		good = o.Rule == "" && o.Key == "" && o.Pardons == "" && validTarget(o.Scope, o.Value)
	case OrderPause, OrderConfirm:
		good = ruleful && (o.Kind == OrderPause || o.Rule != EveryRule) && o.Scope == "" && o.Value == "" && o.Key == "" && o.Pardons == ""
	case OrderPardon:
		good = ruleful && o.Key != "" && len(o.Key) <= maxKey && o.Pardons != "" && len(o.Pardons) <= maxShort && o.Scope == "" && o.Value == ""
	}

	if !good {
		return fmt.Errorf("%w: %s of %.40q %.40q, rule %.40q, key %.40q", ErrOrder, o.Kind, o.Scope, o.Value, o.Rule, o.Key)
	}
	return nil
}

func validTarget(scope, value string) bool {
	if value == "" || len(value) > maxKey || len(scope) > maxShort || !validScope(scope) {
		return false
	}
	if scope != scopeIP {
		return true
	}
	prefix, err := address.Parse(value)
	return err == nil && address.Text(prefix) == value
}
