package listeners

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

const lokiPath = "/loki/api/v1/push"

var (
	errLokiPath = errors.New("Loki's clients push to " + lokiPath)
	errLokiType = errors.New("the content type of a push is " + typeProtobuf + " or " + typeJSON)
	errNotLoki  = errors.New("the body is not a push of Loki's clients: it is damaged, or of another kind")
	errSnappy   = errors.New("the body is not compressed with snappy, as a push in protobuf is")
)

// serveLoki answers one push of a client of Loki: 204 once Kafka has the hits of all its lines. The push is read as
// OTLP's logs: its labels are attributes of the resource, and an entry's metadata those of a scope of its own. Those of
// its log record would be taken for the request, and the line is the request.
func (h *httpSource) serveLoki(w http.ResponseWriter, r *http.Request) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	_, wrong := h.export(w, r, errLokiType, func(p *post) { p.loki, p.json = true, media == typeJSON })
	if wrong == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.refuse(w, wrong)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8") // clients log it as it is
	w.WriteHeader(wrong.Status)
	fmt.Fprintln(w, wrong.Detail)
}

// readLoki reads a push, and makes OTLP's logs of it.
func (p *post) readLoki(m *room, r *http.Request, most int64) error {
	p.loki = false
	if strings.EqualFold(r.Header.Get("Content-Encoding"), "snappy") { // a few clients name what is always so
		r.Header.Del("Content-Encoding")
	}
	if err := p.read(m, r, most); err != nil {
		return err
	}

	if !p.json {
		size, err := snappy.DecodedLen(p.body)
		switch {
		case err != nil:
			return errSnappy
		case int64(size) > most:
			return errLarge
		case !m.reserve(p, int64(size)):
			return errFull
		}
		if p.body, err = snappy.Decode(nil, p.body); err != nil {
			return errSnappy
		}
	}

	// An entry is hardly longer as OTLP. The lists of labels are, by a few bytes for each.
	room := min(4*int64(len(p.body))+1024, m.rest(p))
	if !m.reserve(p, room) {
		return errFull
	}
	push := lokiPush{most: int(room)}
	var ok bool
	if p.json {
		ok = push.readJSON(p.body)
	} else {
		ok = push.readWire(p.body)
	}
	switch {
	case push.full:
		return errLarge
	case !ok:
		return errNotLoki
	}
	p.body, p.json = push.out, false
	return nil
}

// A lokiPush writes a push as OTLP's logs in protobuf.
type lokiPush struct {
	out  []byte
	most int
	full bool

	labels, records, record, metadata []byte // records are scopes with a log record each
}

// The fields of logproto.PushRequest, and of OTLP.
const (
	pushStreams = 1 // PushRequest

	streamLabels  = 1 // StreamAdapter
	streamEntries = 2

	entryTime     = 1 // EntryAdapter
	entryLine     = 2
	entryMetadata = 3

	timeSeconds = 1 // Timestamp
	timeNanos   = 2

	nameOfPair, valueOfPair = 1, 2 // LabelPairAdapter

	logsOfResource, resourceOfLogs, scopeOfLogs = 1, 1, 2
	nameOfScope, logOfScope, attributeOfScope   = 1, 2, 3
	timeOfLog, bodyOfLog                        = 1, 5
)

// readWire reads a push in protobuf.
func (l *lokiPush) readWire(push []byte) bool {
	return eachPart(push, func(number protowire.Number, stream []byte) bool {
		if number != pushStreams {
			return true
		}
		l.begin()
		return eachPart(stream, func(number protowire.Number, part []byte) bool {
			switch number {
			case streamLabels:
				return l.label(string(part))
			case streamEntries:
				return l.wireEntry(part)
			}
			return true
		}) && l.end()
	})
}

func (l *lokiPush) wireEntry(entry []byte) bool {
	var at uint64
	var line []byte
	whole := eachPart(entry, func(number protowire.Number, part []byte) bool {
		switch number {
		case entryTime:
			nanos, ok := timestamp(part)
			at = nanos
			return ok
		case entryLine:
			line = part
		case entryMetadata:
			var name, value []byte
			if !eachPart(part, func(number protowire.Number, text []byte) bool {
				switch number {
				case nameOfPair:
					name = text
				case valueOfPair:
					value = text
				}
				return true
			}) {
				return false
			}
			l.metadata = appendAttribute(l.metadata, attributeOfScope, string(name), string(value))
		}
		return true
	})
	return whole && l.entry(at, string(line))
}

// timestamp is a Timestamp in nanoseconds.
func timestamp(message []byte) (nanos uint64, ok bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, false
		}
		message = message[n:]
		if kind != protowire.VarintType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return 0, false
			}
			message = message[n:]
			continue
		}

		value, n := protowire.ConsumeVarint(message)
		if n < 0 {
			return 0, false
		}
		message = message[n:]
		switch number {
		case timeSeconds:
			nanos += value * 1e9
		case timeNanos:
			nanos += value
		}
	}
	return nanos, true
}

// eachPart calls do for each part of a message that has a length, until do returns false.
func eachPart(message []byte, do func(protowire.Number, []byte) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		n = protowire.ConsumeFieldValue(number, kind, message)
		if n < 0 {
			return false
		}
		if kind == protowire.BytesType {
			if part, _ := protowire.ConsumeBytes(message); !do(number, part) {
				return false
			}
		}
		message = message[n:]
	}
	return true
}

// begin begins a stream.
func (l *lokiPush) begin() { l.labels, l.records = l.labels[:0], l.records[:0] }

// end ends a stream. It returns false when there is no room.
func (l *lokiPush) end() bool {
	resource := protowire.SizeBytes(len(l.labels)) + 1
	if len(l.out)+resource+len(l.records)+16 > l.most {
		l.full = true
		return false
	}
	l.out = protowire.AppendTag(l.out, logsOfResource, protowire.BytesType)
	l.out = protowire.AppendVarint(l.out, uint64(resource+len(l.records))) //nolint:gosec // lengths
	l.out = appendPart(l.out, resourceOfLogs, l.labels)
	l.out = append(l.out, l.records...)
	return true
}

// entry adds an entry to the stream, with the metadata that came before.
func (l *lokiPush) entry(nanos uint64, line string) bool {
	record := protowire.AppendTag(l.record[:0], timeOfLog, protowire.Fixed64Type)
	record = protowire.AppendFixed64(record, nanos)
	record = appendPart(record, bodyOfLog, appendPart(nil, 1, []byte(line)))
	metadata := l.metadata
	l.record, l.metadata = record, l.metadata[:0]
	if len(l.records)+len(metadata)+len(record) > l.most {
		l.full = true
		return false
	}

	scope := protowire.SizeBytes(len(metadata)) + protowire.SizeBytes(len(record)) + 2
	l.records = protowire.AppendTag(l.records, scopeOfLogs, protowire.BytesType)
	l.records = protowire.AppendVarint(l.records, uint64(scope)) //nolint:gosec // lengths
	l.records = appendPart(l.records, nameOfScope, metadata)
	l.records = appendPart(l.records, logOfScope, record)
	return true
}

func appendPart(b []byte, number protowire.Number, part []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), part)
}

// appendAttribute appends a KeyValue with a text.
func appendAttribute(b []byte, number protowire.Number, key, text string) []byte {
	pair := appendPart(nil, 1, []byte(key))
	pair = appendPart(pair, 2, appendPart(nil, 1, []byte(text)))
	return appendPart(b, number, pair)
}
