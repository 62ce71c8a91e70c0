package request

import (
	"bytes"
	"encoding/base64"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// An otlp walks OTLP's logs in JSON: resourceLogs[].scopeLogs[].logRecords[]. Each level is read by a scan of its own,
// whose slots are the constants below.
type otlp struct {
	root, resource, scope, record, pair, value *jsonScan

	attributes [3]string // of the last log record, its scope and its resource, as they stand in the text
	shared     [3][]otlpFound
	found      *jsonScan // the values asked for
	depth      int       // of the map whose pairs are read
	wire       otlpWire
	body       []byte // of bytes
	bytes      jsonValue
}

// An otlpFound is an attribute of a scope or a resource that was asked for. All log records of it ask for the same few:
// without it, many attributes and many records in one body would cost the product of both.
type otlpFound struct {
	name string
	text []byte
	has  bool
}

// otlpStreams are the attributes, and the labels of Loki, with a container's stream: OpenTelemetry's, those of promtail and
// Alloy, and that of Docker's driver.
var otlpStreams = []string{"log.iostream", "stream", "logstream", "source"}

const (
	rootLogs = 0

	resourceScopes     = 0
	resourceAttributes = 1

	scopeRecords    = 0
	scopeAttributes = 1

	recordTime       = 0
	recordObserved   = 1
	recordLine       = 2
	recordMap        = 3
	recordAttributes = 4
	recordBytes      = 5

	pairKey   = 0
	pairValue = 1

	valueMap    = 0
	valueList   = 1
	valueScalar = 2 // the first of them
)

func newOTLP() *otlp {
	return &otlp{
		root:     scanOf("resourceLogs"),
		resource: scanOf("scopeLogs resource.attributes"),
		scope:    scanOf("logRecords scope.attributes"),
		record:   scanOf("timeUnixNano observedTimeUnixNano body.stringValue body.kvlistValue.values attributes body.bytesValue"),
		pair:     scanOf("key value"),
		value:    scanOf("kvlistValue.values arrayValue.values stringValue intValue doubleValue boolValue"),
		found:    scanOf("value"),
	}
}

// forget gives up memory that a long record needed.
func (o *otlp) forget() {
	for _, b := range []*[]byte{&o.body, &o.wire.resource, &o.wire.scope, &o.wire.pairs, &o.wire.log} {
		if cap(*b) > maxKeptLog {
			*b = nil
		}
	}
	for level := range o.shared {
		o.shared[level] = o.shared[level][:0]
		all := o.shared[level][:cap(o.shared[level])]
		for i := range all {
			if cap(all[i].text) > maxKeptText {
				all[i].text = nil
			}
		}
	}
}

func scanOf(paths string) *jsonScan {
	s := newJSONScan()
	s.slots(paths)
	return s
}

// longOTLP is the length from which a record is shortened for a trial, and the bound on what is left of one in JSON.
const longOTLP = 1 << 20

// shortOTLP is a long record with its first log records only: in a trial every format scans the whole text, and some of
// it several times.
func shortOTLP(record string) string {
	if len(record) < longOTLP {
		return record
	}
	if _, complete := countOTLP(record); complete {
		room := maxTried << 10
		return Text(shortWire(wireOf(record), []protowire.Number{wireLogs, wireScopes, wireRecords}, &room))
	}
	o := newOTLP()
	if !o.root.read(record) || !o.root.has(rootLogs) {
		return record
	}
	b := []byte(`{"resourceLogs":[`)
	begin := func(before, attributes, after string) {
		if attributes == "" || len(attributes) > longOTLP/8 {
			attributes = "[]"
		}
		b = append(append(append(b, before...), attributes...), after...)
	}
	end := func(brackets string) { b = append(bytes.TrimSuffix(b, []byte(",")), brackets...) }

	resources := o.root.list(rootLogs)
	for resource, i := nextObject(resources, 0); i > 0 && len(b) < longOTLP; resource, i = nextObject(resources, i) {
		o.resource.read(resource)
		begin(`{"resource":{"attributes":`, o.resource.list(resourceAttributes), `},"scopeLogs":[`)
		scopes := o.resource.list(resourceScopes)
		for scope, i := nextObject(scopes, 0); i > 0 && len(b) < longOTLP; scope, i = nextObject(scopes, i) {
			o.scope.read(scope)
			begin(`{"scope":{"attributes":`, o.scope.list(scopeAttributes), `},"logRecords":[`)
			logs := o.scope.list(scopeRecords)
			for log, i := nextObject(logs, 0); i > 0 && len(b) < longOTLP; log, i = nextObject(logs, i) {
				if len(log) < longOTLP {
					b = append(append(b, log...), ',')
				}
			}
			end(`]},`)
		}
		end(`]},`)
	}
	end(`]}`)
	return Text(b)
}

// shortWire is the beginning of a message in protobuf. Parts with the first number of the path are shortened likewise.
func shortWire(message []byte, path []protowire.Number, room *int) (b []byte) {
	eachField(message, func(number protowire.Number, part []byte) bool {
		inPath := number == path[0]
		if inPath && len(path) > 1 {
			part = shortWire(part, path[1:], room)
		} else if inPath && len(part) >= longOTLP/2 || !inPath && len(part) > longOTLP/8 {
			return true
		} else {
			*room -= len(part)
		}
		*room -= 16 // an empty one takes time too
		b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), part)
		return *room > 0
	})
	return b
}

// eachOTLP calls each for every log record.
func (d *Decoder) eachOTLP(record string, r *Request, each func(*Request, error)) {
	o := d.otlp
	if !o.root.read(record) {
		if _, complete := countOTLP(record); complete {
			d.eachWire(record, r, each)
			return
		}
		each(r, errJSON)
		return
	}
	if !o.root.has(rootLogs) {
		each(r, errEnvelope)
		return
	}

	resources := o.root.list(rootLogs)
	for resource, i := nextObject(resources, 0); i > 0 && d.more(0); resource, i = nextObject(resources, i) {
		o.resource.read(resource)
		o.share(2, o.resource.list(resourceAttributes))
		scopes := o.resource.list(resourceScopes)
		for scope, i := nextObject(scopes, 0); i > 0 && d.more(0); scope, i = nextObject(scopes, i) {
			d.eachLog(scope, r, each)
		}
	}
}

func (d *Decoder) eachLog(scope string, r *Request, each func(*Request, error)) {
	o := d.otlp
	o.scope.read(scope)
	o.share(1, o.scope.list(scopeAttributes))
	logs := o.scope.list(scopeRecords)
	for log, i := nextObject(logs, 0); i > 0 && d.more(0); log, i = nextObject(logs, i) {
		r.Reset()
		each(r, d.openLog(log, r))
	}
}

// openLog reads a log record whose body is a line or, where the format is one of JSON, its attributes and the body's
// fields.
func (d *Decoder) openLog(log string, r *Request) error {
	o := d.otlp
	if !o.record.read(log) { // only what was protobuf can be longer as JSON
		return errLong
	}
	o.attributes[0] = o.record.list(recordAttributes)

	// Values that were found in the record before are forgotten.
	o.found.begin()
	if d.stdout {
		for _, name := range otlpStreams {
			if stream, _ := o.attribute(name); stream == "stderr" {
				return errStderr
			}
		}
	}
	line, ok := o.line()
	if d.fields != nil {
		err := d.openFields(r)
		// The attributes come first: a client may write the body, and an object there must not replace them.
		if err == nil || !ok || !beginsObject(line.raw) {
			return err
		}
		r.Reset()
	}

	if !ok {
		return errEnvelope
	}
	return d.timed(d.parser.Parse(o.record.textOf(line), r), r)
}

// openFields reads the attributes of the last log record, and the fields of its body unless the attributes are a request
// with its client: a client may write the body.
func (d *Decoder) openFields(r *Request) error {
	body := d.otlp.record.list(recordMap)
	err := d.openPairs("", r)
	if body == "" || err == nil && (r.IP.IsValid() || r.Forwarded != "") {
		return err
	}
	r.Reset()
	return d.openPairs(body, r)
}

// openPairs reads the fields of a body, and the attributes of the last log record. Of two values the last one counts.
func (d *Decoder) openPairs(body string, r *Request) error {
	o, into := d.otlp, d.fields.scan
	into.begin()
	o.pairs(body, &into.root, into)
	o.pairs(o.attributes[0], &into.root, into)
	return d.timed(d.fields.fill(r), r)
}

// line is the text of the last log record's body, also where that is bytes.
func (o *otlp) line() (*jsonValue, bool) {
	line, ok := o.record.get(recordLine)
	if bytes, is := o.record.get(recordBytes); is && !ok && bytes.kind == jsonString {
		text := wireOf(o.record.textOf(bytes))
		var err error
		o.body = slices.Grow(o.body[:0], len(text))
		if o.body, err = base64.StdEncoding.AppendDecode(o.body, text); err != nil {
			return nil, false
		}
		o.bytes = jsonValue{raw: Text(o.body), kind: jsonString, record: o.record.record}
		return &o.bytes, true
	}
	return line, ok
}

// pairs puts [{"key": …, "value": …}, …] under a node of another scan.
func (o *otlp) pairs(array string, node *jsonNode, into *jsonScan) {
	for pair, i := nextObject(array, 0); i > 0; pair, i = nextObject(array, i) {
		o.pair.read(pair)
		key, ok := o.pair.get(pairKey)
		if !ok || key.kind != jsonString {
			continue
		}
		if at := into.member(node, key.raw, key.escaped, 1); at != nil {
			o.put(at, into)
		}
	}
}

// put copies the value of the pair that was read last to a node of another scan.
func (o *otlp) put(node *jsonNode, into *jsonScan) {
	value, ok := o.pair.get(pairValue)
	if !ok || value.kind != jsonObject {
		return
	}

	o.value.read(value.raw)
	switch {
	case o.value.has(valueMap):
		// Each map is read again for its own pairs, so deeper ones are left out.
		if o.depth < maxOTLPDepth {
			o.depth++
			o.pairs(o.value.list(valueMap), node, into)
			o.depth--
		}
	case o.value.has(valueList):
		from := len(into.text)
		list := o.value.list(valueList)
		for element, i := nextObject(list, 0); i > 0; element, i = nextObject(list, i) {
			// From here on o.value is an element, and what stood in it before has been taken out: list is a part of the
			// record's text.
			o.value.read(element)
			if v := o.scalar(); v.kind != jsonNull {
				into.join(from, v)
			}
		}
		into.set(node, jsonValue{raw: Text(into.text[from:]), kind: jsonString})
	default:
		into.set(node, o.scalar())
	}
}

// scalar is the string, number or boolean of the value that was read last.
func (o *otlp) scalar() jsonValue {
	for slot := valueScalar; slot < len(o.value.values); slot++ {
		if v, ok := o.value.get(slot); ok && v.kind < jsonObject {
			return *v
		}
	}
	return jsonValue{kind: jsonNull}
}

// share sets the attributes of the next log records' scope (1) or resource (2).
func (o *otlp) share(level int, attributes string) {
	o.attributes[level], o.shared[level] = attributes, o.shared[level][:0]
}

// attribute finds an attribute of the last log record's resource, else of its scope, else its own. So a program whose
// records have an attribute of that name does not stand for another one.
func (o *otlp) attribute(name string) (string, bool) {
	for level := len(o.attributes) - 1; level >= 0; level-- {
		if text, has := o.attributeOf(level, name); has {
			return text, text != ""
		}
	}
	return "", false
}

func (o *otlp) attributeOf(level int, name string) (text string, has bool) {
	if level == 0 || o.attributes[level] == "" {
		return o.search(o.attributes[level], name)
	}
	all := o.shared[level]
	for i := range all {
		if all[i].name == name {
			return Text(all[i].text), all[i].has
		}
	}

	text, has = o.search(o.attributes[level], name)
	all = slices.Grow(all, 1)[:len(all)+1] // an element that was used before keeps its memory
	last := &all[len(all)-1]
	last.name, last.text, last.has = name, append(last.text[:0], text...), has
	o.shared[level] = all
	return Text(last.text), has
}

// search finds the first attribute of a name in a list.
func (o *otlp) search(attributes, name string) (text string, has bool) {
	for pair, i := nextObject(attributes, 0); i > 0; pair, i = nextObject(attributes, i) {
		o.pair.read(pair)
		if o.pair.textAt(pairKey) == name {
			o.found.record++ // values found before stay in its memory
			o.put(o.found.root.child("value"), o.found)
			return o.found.textAt(0), true
		}
	}
	return "", false
}

// list is the array in a slot as it stands in the text; "" when there is none.
func (s *jsonScan) list(slot int) string {
	if v, ok := s.get(slot); ok && v.kind == jsonArray {
		return v.raw
	}
	return ""
}

// nextObject is jsonScan.next for objects only.
func nextObject(array string, i int) (string, int) {
	var s jsonScan
	for {
		v, end := s.next(array, i)
		if end < 0 || v.kind == jsonObject {
			return v.raw, end
		}
		i = end
	}
}
