package request

import (
	"slices"
	"strings"
)

// A shipper writes JSON records that contain a line, or the fields that it parsed from the line.
type shipper struct {
	name  string
	form  string // groups of paths by which its records are known, as in jsonShape.needs
	lines string // where the line is, in order of preference
	times string // where the time stands at which the shipper read the line
}

// shippers in the order in which Detect tries them.
var shippers = []shipper{
	{"docker", "log stream time", "log", "time"},
	{"logstash", "@timestamp @version", "message event.original", "@timestamp"},
	{"filebeat", "@timestamp @metadata.beat|agent.type|agent.ephemeral_id|beat.name|log.file.path|log.offset|fileset.name",
		"message event.original", "@timestamp"},
	{"vector", "source_type", "message", "timestamp"},
	{"syslog-ng", "MESSAGE PROGRAM|HOST|HOST_FROM|SOURCE|ISODATE|FACILITY", "MESSAGE", "ISODATE"},
	{"fluentbit", "@timestamp|date|time|timestamp log|message", "log message", "@timestamp date time timestamp"},
}

// Envelopes are the names of the envelopes that NewDecoder knows, except auto.
func Envelopes() []string {
	names := []string{"none", "cri", "otlp", "quoted", "syslog"}
	for _, s := range shippers {
		names = append(names, s.name)
	}
	return names
}

// slots are the places of the values at several paths.
func (s *jsonScan) slots(paths string) (slots []int) {
	for path := range strings.FieldsSeq(paths) {
		slots = append(slots, s.slot(path))
	}
	return slots
}

// openLine reads a record that is the line itself.
func (d *Decoder) openLine(record string, r *Request) error {
	return d.parser.Parse(record, r)
}

// openJSON reads a record that holds a line or, where the format is one of JSON, its fields.
func (d *Decoder) openJSON(record string, r *Request) error {
	if !d.scan.read(record) {
		if d.fields != nil && len(d.lines) == 0 {
			return d.fields.parseCut(record, r)
		}
		return errJSON
	}

	if d.stdout && d.isStderr() {
		return errStderr
	}
	line, ok := d.line()
	if d.fields != nil && (!ok || !beginsObject(line.raw)) {
		return d.timed(d.fields.fill(r), r)
	}
	if !ok {
		return errEnvelope
	}

	return d.timed(d.parser.Parse(d.scan.textOf(line), r), r)
}

// isStderr reports whether a record of JSON is of a container's standard error. Docker's driver for GELF writes a level
// of syslog in place of the stream: 3, an error, for standard error.
func (d *Decoder) isStderr() bool {
	has := func(slot int) bool { return d.scan.textAt(slot) != "" }
	return slices.ContainsFunc(d.streams, func(slot int) bool { return d.scan.textAt(slot) == "stderr" }) ||
		d.scan.textAt(d.level) == "3" && slices.ContainsFunc(d.containers, has)
}

// line is the text in the shipper's field for the line.
func (d *Decoder) line() (*jsonValue, bool) {
	for _, slot := range d.lines {
		if v, ok := d.scan.get(slot); ok && v.kind == jsonString && v.raw != "" {
			return v, true
		}
	}
	return nil, false
}

func beginsObject(text string) bool {
	i := skipSpace(text, 0)
	return i < len(text) && text[i] == '{'
}

// openDocker reads {"log":"…\n","stream":"stdout","time":"…"}. A text without a newline at its end is a part.
func (d *Decoder) openDocker(record string, r *Request) error {
	if !d.scan.read(record) {
		return errJSON
	}
	line, ok := d.line()
	if !ok {
		return errEnvelope
	}
	text := d.scan.textOf(line)
	return d.openPart(d.scan.textAt(d.stream), text, strings.HasSuffix(text, "\n"), r)
}

// openCRI reads 2023-10-06T00:17:09.669794202Z stdout F line, where P stands for a part.
func (d *Decoder) openCRI(record string, r *Request) error {
	time, stream, part, last, ok := cutCRI(record)
	if !ok {
		return errEnvelope
	}
	d.scan.put("time", time)
	d.scan.put("stream", stream)
	return d.openPart(stream, part, last, r)
}

// openSyslog reads a line that syslog or the journal has written to a file, behind their header. A format of JSON is
// read too: the line is then an object.
func (d *Decoder) openSyslog(record string, r *Request) error {
	line, ok := cutSyslogLine(record)
	if !ok {
		return errEnvelope
	}
	return d.parser.Parse(line, r)
}

// cutCRI splits a record of CRI; last means that no part of the line follows.
func cutCRI(record string) (time, stream, part string, last, ok bool) {
	time, rest, _ := strings.Cut(record, " ")
	stream, rest, _ = strings.Cut(rest, " ")
	tags, part, ok := strings.Cut(rest, " ")
	tag, _, _ := strings.Cut(tags, ":")
	_, iso := timeISO(time, nil)
	ok = ok && iso && (stream == "stdout" || stream == "stderr") && (tag == "F" || tag == "P")
	return time, stream, strings.TrimRight(part, "\r\n"), tag == "F", ok
}

// put keeps a string as if it stood at a path of the record.
func (s *jsonScan) put(path, text string) {
	s.values[s.slot(path)] = jsonValue{raw: text, kind: jsonString, record: s.record}
}

// openPart reads a line once it is complete. Each stream of a container has its own parts, since they may alternate.
func (d *Decoder) openPart(stream, part string, last bool, r *Request) error {
	p := &d.parts[0]
	if stream == "stderr" {
		if d.stdout {
			return errStderr
		}
		p = &d.parts[1]
	}
	if last && !p.open { // a line in one piece, as nearly all are, is not copied
		return d.timed(d.parser.Parse(part, r), r)
	}
	if !p.add(part, last) {
		return ErrNoRequest
	}

	d.joined = p
	return d.parse(p, r)
}

// parse reads a line that came in parts.
func (d *Decoder) parse(p *parts, r *Request) error {
	if p.length > maxLineBytes {
		return errLong
	}
	err := d.timed(d.parser.Parse(Text(p.text), r), r)
	if p.short && Reason(err) != "" {
		return errLong // time and client may come after the beginning that was kept
	}
	return err
}

// timed sets the envelope's time when the line or its fields have none.
func (d *Decoder) timed(err error, r *Request) error {
	if err != error(errNoTime) {
		return err
	}
	for _, slot := range d.times {
		// OTLP writes 0 for an unknown time.
		if text := d.scan.textAt(slot); known(text) != "" && text != "0" {
			at, ok := timeAny(text, nil)
			if !ok {
				return errTime
			}
			r.UnixMilli = at
			return nil
		}
	}
	return err
}
