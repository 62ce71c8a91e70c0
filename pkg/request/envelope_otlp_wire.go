package request

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// An otlpWire writes the parts of OTLP's logs in protobuf as the JSON that OTLP gives them, one log record at a time, so
// that both encodings are read by the same code. The messages of the protobuf library would take some hundred bytes for
// each attribute, and a sender can put an attribute into every two bytes.
type otlpWire struct {
	resource, scope, pairs []byte // the JSON of attributes
	log                    []byte // the JSON of a log record
}

// The fields of opentelemetry.proto.logs.v1 and common.v1 that are read.
const (
	wireLogs = 1 // LogsData.resource_logs

	wireResource = 1 // ResourceLogs
	wireScopes   = 2

	wireResourceAttributes = 1 // Resource
	wireScope              = 1 // ScopeLogs
	wireRecords            = 2
	wireScopeAttributes    = 3 // InstrumentationScope

	wireTime       = 1 // LogRecord
	wireBody       = 5
	wireAttributes = 6
	wireObserved   = 11

	wireKey   = 1 // KeyValue
	wireValue = 2

	wireString = 1 // AnyValue
	wireBool   = 2
	wireInt    = 3
	wireDouble = 4
	wireList   = 5
	wireMap    = 6
	wireBytes  = 7

	wireElements = 1 // ArrayValue, KeyValueList
)

// A wireField is one field of a message.
type wireField struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of a message, text or bytes
	value  uint64 // of a number
}

// nextField cuts the first field off a message. ok is false if it is damaged.
func nextField(message []byte) (f wireField, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 {
		return f, nil, false
	}

	f.number, f.kind = number, kind
	message = message[n:]
	switch kind {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(message)
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(message)
	case protowire.Fixed64Type:
		f.value, n = protowire.ConsumeFixed64(message)
	case protowire.Fixed32Type:
		_, n = protowire.ConsumeFixed32(message)
	default: // groups, which OTLP does not have
		return f, nil, false
	}
	if n < 0 {
		return f, nil, false
	}
	return f, message[n:], true
}

// eachField calls do for each field of a message that is a message itself, text or bytes, until do returns false. It
// returns false if the message is damaged, or do did.
func eachField(message []byte, do func(protowire.Number, []byte) bool) bool {
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok || f.kind == protowire.BytesType && !do(f.number, f.bytes) {
			return false
		}
		message = rest
	}
	return true
}

// isOTLP reports whether a record has the form of OTLP's logs in protobuf, with at least one log record.
func isOTLP(record string) bool {
	logs, complete := countOTLP(record)
	return complete && logs > 0
}

// countOTLP counts the log records of OTLP's logs in protobuf. complete means that the record is of that form, down to
// the fields of its log records. Such a record begins with a resource; much text would be fields that are not known.
func countOTLP(record string) (logs int, complete bool) {
	if record != "" && record[0] != byte(protowire.EncodeTag(wireLogs, protowire.BytesType)) {
		return 0, false
	}
	complete = eachField(wireOf(record), func(number protowire.Number, resource []byte) bool {
		return number == wireLogs && eachField(resource, func(number protowire.Number, scope []byte) bool {
			return number != wireScopes || eachField(scope, func(number protowire.Number, log []byte) bool {
				logs += oneIf(number == wireRecords)
				return number != wireRecords || eachField(log, func(protowire.Number, []byte) bool { return true })
			})
		})
	})
	return logs, complete
}

// CheckOTLP reports whether a record is OTLP's logs in protobuf: complete, and not damaged.
func CheckOTLP(record []byte) bool {
	_, complete := countOTLP(Text(record))
	return complete
}

// eachWire calls each for every log record of OTLP's logs in protobuf.
func (d *Decoder) eachWire(record string, r *Request, each func(*Request, error)) {
	w := &d.otlp.wire
	complete := eachField(wireOf(record), func(number protowire.Number, resource []byte) bool {
		if number != wireLogs || !d.more(0) {
			return true
		}

		w.resource = w.resource[:0]
		whole := eachField(resource, func(number protowire.Number, part []byte) bool {
			return number != wireResource || w.attributes(&w.resource, part, wireResourceAttributes)
		})
		d.otlp.share(2, listOf(&w.resource))
		return whole && eachField(resource, func(number protowire.Number, scope []byte) bool {
			return number != wireScopes || !d.more(0) || d.eachWireLog(scope, r, each)
		})
	})
	if !complete {
		each(r, errEnvelope)
	}
}

func (d *Decoder) eachWireLog(scope []byte, r *Request, each func(*Request, error)) bool {
	w := &d.otlp.wire
	w.scope = w.scope[:0]
	whole := eachField(scope, func(number protowire.Number, part []byte) bool {
		return number != wireScope || w.attributes(&w.scope, part, wireScopeAttributes)
	})
	d.otlp.share(1, listOf(&w.scope))
	return whole && eachField(scope, func(number protowire.Number, log []byte) bool {
		if number != wireRecords || !d.more(len(log)) {
			return true
		}
		r.Reset()
		if !w.record(log) {
			return false
		}
		each(r, d.openLog(Text(w.log), r))
		return true
	})
}

// attributes adds the attributes of a message to a list.
func (w *otlpWire) attributes(to *[]byte, message []byte, list protowire.Number) bool {
	return eachField(message, func(number protowire.Number, pair []byte) (whole bool) {
		if number == list {
			*to, whole = appendPair(*to, pair, 0)
			return whole
		}
		return true
	})
}

// listOf closes a list of attributes, whose elements each have a comma before them.
func listOf(list *[]byte) string {
	if len(*list) == 0 {
		return ""
	}
	(*list)[0] = '['
	*list = append(*list, ']')
	return Text(*list)
}

// record writes a log record as JSON.
func (w *otlpWire) record(log []byte) bool {
	if cap(w.log) > maxKeptLog {
		w.log = nil
	}
	w.pairs = w.pairs[:0]
	if !w.attributes(&w.pairs, log, wireAttributes) {
		return false
	}

	b := w.log[:0]
	b = append(b, '{')
	for rest := log; len(rest) > 0; {
		f, after, _ := nextField(rest) // attributes has read all of it
		rest = after
		switch {
		case f.number == wireTime && f.kind == protowire.Fixed64Type:
			b = appendTime(b, `"timeUnixNano":"`, f.value)
		case f.number == wireObserved && f.kind == protowire.Fixed64Type:
			b = appendTime(b, `"observedTimeUnixNano":"`, f.value)
		case f.number == wireBody && f.kind == protowire.BytesType:
			var whole bool
			if b, whole = appendValue(append(b, `"body":`...), f.bytes, true, 0); !whole {
				return false
			}
			b = append(b, ',')
		}
	}
	b = append(b, `"attributes":[`...)
	if len(w.pairs) > 0 {
		b = append(b, w.pairs[1:]...)
	}
	b = append(b, "]}"...)
	w.log = b
	return true
}

const (
	maxKeptLog   = 1 << 20  // bytes of JSON that are kept for the next log record
	maxKeptText  = 64 << 10 // bytes of an attribute that are kept for the next body
	maxOTLPDepth = 12       // of lists and maps in each other, each some levels of JSON; deeper ones are left out
)

func appendTime(b []byte, name string, nanos uint64) []byte {
	b = strconv.AppendUint(append(b, name...), nanos, 10)
	return append(b, '"', ',')
}

// appendPair appends a comma and {"key":…,"value":…}.
func appendPair(b, pair []byte, depth int) ([]byte, bool) {
	var key, value []byte
	if !eachField(pair, func(number protowire.Number, part []byte) bool {
		switch number {
		case wireKey:
			key = part
		case wireValue:
			value = part
		}
		return true
	}) {
		return b, false
	}

	if len(key) == 0 {
		return b, true
	}
	b = appendEscaped(append(b, `,{"key":"`...), key)
	b, whole := appendValue(append(b, `","value":`...), value, false, depth)
	return append(b, '}'), whole
}

// appendValue appends an AnyValue. Of several values in one, the last counts. Bytes are a text in a body, and left out
// elsewhere.
func appendValue(b, value []byte, body bool, depth int) ([]byte, bool) {
	if depth > maxOTLPDepth {
		return append(b, "{}"...), true
	}
	var last wireField
	for rest := value; len(rest) > 0; {
		f, after, ok := nextField(rest)
		if !ok {
			return b, false
		}
		last, rest = f, after
	}

	b = append(b, '{')
	whole := true
	switch number, kind := last.number, last.kind; {
	case kind == protowire.BytesType && (number == wireString || number == wireBytes && body):
		b = appendEscaped(append(b, `"stringValue":"`...), last.bytes)
		b = append(b, '"')
	case kind == protowire.VarintType && number == wireBool:
		b = strconv.AppendBool(append(b, `"boolValue":`...), last.value != 0)
	case kind == protowire.VarintType && number == wireInt:
		b = strconv.AppendInt(append(b, `"intValue":`...), int64(last.value), 10)
	case kind == protowire.Fixed64Type && number == wireDouble:
		if v := math.Float64frombits(last.value); !math.IsNaN(v) && !math.IsInf(v, 0) { // those are no numbers in JSON
			b = strconv.AppendFloat(append(b, `"doubleValue":`...), v, 'g', -1, 64)
		}
	case kind == protowire.BytesType && number == wireList:
		b, whole = appendElements(append(b, `"arrayValue":{"values":[`...), last.bytes, appendElement, depth)
		b = append(b, "]}"...)
	case kind == protowire.BytesType && number == wireMap:
		b, whole = appendElements(append(b, `"kvlistValue":{"values":[`...), last.bytes, appendPair, depth)
		b = append(b, "]}"...)
	}
	return append(b, '}'), whole
}

func appendElement(b, value []byte, depth int) ([]byte, bool) {
	return appendValue(append(b, ','), value, false, depth)
}

// appendElements appends the elements of a list or a map.
func appendElements(b, list []byte, one func(b, element []byte, depth int) ([]byte, bool), depth int) ([]byte, bool) {
	begin := len(b)
	whole := eachField(list, func(number protowire.Number, element []byte) (whole bool) {
		if number == wireElements {
			b, whole = one(b, element, depth+1)
			return whole
		}
		return true
	})
	if len(b) > begin { // without the first comma
		b = append(b[:begin], b[begin+1:]...)
	}
	return b, whole
}

// appendEscaped appends a text as it stands in a string of JSON.
func appendEscaped(b, text []byte) []byte {
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
