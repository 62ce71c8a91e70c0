package pipeline

import (
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A Reason is why a request gave no hit.
type Reason uint8

const (
	Counted Reason = iota

	// It could not be read: the reasons of request.Reasons.
	ReasonFormat
	reasonTime
	reasonAddress
	reasonJSON
	reasonEnvelope
	ReasonLong // longer than a line may be

	reasonAhead    // its time is too far ahead of our clock
	reasonStart    // it is older than the configured start
	reasonFiltered // only does not select it
	reasonSeen     // its value was seen before (dedupe)

	// No rule counts it. With several rules it is the reason of the one that came nearest.
	reasonInline // no rule counts the log
	reasonAllowed
	reasonMatch
	reasonExpression
	reasonRefused
	reasonKey
	reasonCost

	ReasonLost   // it was deleted before it was read
	ReasonSender // it, or a connection, came from an address that may not send
	reasonKafka  // the hits were made, and Kafka refused them permanently

	reasons
)

var reasonWords = [reasons]string{"", "format", "time", "address", "json", "envelope", "long", "ahead", "start", "filtered", "seen",
	"inline", "allowed", "match", "expression", "refused", "key", "cost", "lost", "sender", "kafka"}

var ruleReasons = [rule.Reasons]Reason{Counted, reasonInline, reasonAllowed, reasonMatch, reasonExpression, reasonRefused, reasonKey, reasonCost}

// unreadable reports whether the line could not be read.
func (r Reason) unreadable() bool { return r >= ReasonFormat && r <= ReasonLong }

// reasonOf translates the error of a decoder.
func reasonOf(err error) Reason {
	word := request.Reason(err)
	for r := ReasonFormat; r <= ReasonLong; r++ {
		if reasonWords[r] == word {
			return r
		}
	}
	return ReasonFormat
}
