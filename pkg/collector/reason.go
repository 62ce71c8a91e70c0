package collector

import (
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A reason is why a request gave no hit.
type reason uint8

const (
	counted reason = iota

	// It could not be read: the reasons of request.Reasons.
	reasonFormat
	reasonTime
	reasonAddress
	reasonJSON
	reasonEnvelope
	reasonLong // longer than a line may be

	reasonAhead    // its time is too far ahead of our clock
	reasonStart    // it is older than the configured start
	reasonFiltered // only does not select it

	// No rule counts it. With several rules it is the reason of the one that came nearest.
	reasonAllowed
	reasonMatch
	reasonExpression
	reasonRefused
	reasonKey
	reasonCost

	reasonLost   // it was deleted before it was read
	reasonSender // it, or a connection, came from an address that may not send
	reasonKafka  // the hits were made, and Kafka refused them permanently

	reasons
)

var reasonWords = [reasons]string{"", "format", "time", "address", "json", "envelope", "long", "ahead", "start", "filtered",
	"allowed", "match", "expression", "refused", "key", "cost", "lost", "sender", "kafka"}

var ruleReasons = [rule.Reasons]reason{counted, reasonAllowed, reasonMatch, reasonExpression, reasonRefused, reasonKey, reasonCost}

// unreadable reports whether the line could not be read.
func (r reason) unreadable() bool { return r >= reasonFormat && r <= reasonLong }

// reasonOf translates the error of a decoder.
func reasonOf(err error) reason {
	word := request.Reason(err)
	for r := reasonFormat; r <= reasonLong; r++ {
		if reasonWords[r] == word {
			return r
		}
	}
	return reasonFormat
}
