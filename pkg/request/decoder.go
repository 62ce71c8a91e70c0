package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Decoder takes records out of a shipper's envelope and makes requests of them.
//
// An envelope contains a line, which the format reads, or fields, which are read when the format is one of JSON. A line
// that is a JSON object is preferred to the fields around it, but in OTLP only if they are no request. The time of a
// request is the one in the line or the fields. Only when a JSON object has no time is the envelope's time used, which
// is when the shipper read the line (in OTLP: timeUnixNano, the event's own, else observedTimeUnixNano). A time that is
// there and cannot be read is never replaced.
//
// The strings of a request, and the results of Envelope, are valid until the next record and as long as the record's
// own memory. Docker and CRI cut long lines into parts, so a Decoder of these is for one file, and Pending reports
// whether parts of a line are missing. A Decoder allocates nothing once it has read the longest record, except for
// lines in parts of more than 128 KiB, and is for one goroutine at a time.
type Decoder struct {
	open       func(record string, r *Request) error
	parser     Parser      // of lines
	fields     *jsonParser // of fields; nil when the format is not one of JSON
	scan       *jsonScan   // of the record; nil when that is a line
	lines      []int       // slots of the line
	times      []int       // slots of the envelope's time
	stream     int         // slot of the container's stream, where the envelope has one
	streams    []int       // slots in which records of JSON have it
	level      int         // slot of the level of syslog, in records of Docker's driver for GELF
	containers []int       // slots of the container's id in these
	stdout     bool        // lines from the container's standard error are not read
	parts      [2]parts    // of standard output and standard error
	joined     *parts      // with the line that was read last, if it came in parts
	otlp       *otlp
	takes      *attemptParser // of records that are lines; nil for other formats
	text       []byte         // of a line that is a string of JSON

	record  string  // the last one
	request Request // for DecodeEach
	kept    error   // the result of Decode, with OTLP
	count   int

	trial bool // of a sample, which more bounds
	tried int
}

// NewDecoder makes a Decoder of an envelope (Envelopes, and "" for none) and a format (NewParser). Choose must have
// replaced "auto" before.
func NewDecoder(envelope, format string, o Options) (*Decoder, error) {
	if envelope == "auto" || strings.TrimSpace(format) == "auto" {
		return nil, errors.New("envelope and format are not known yet: auto is chosen from the first lines")
	}
	return decoderOf(envelope, o, func(o Options) (Parser, error) { return NewParser(format, o) })
}

func decoderOf(envelope string, o Options, newParser func(Options) (Parser, error)) (*Decoder, error) {
	parser, err := newParser(o)
	if err != nil {
		return nil, err
	}

	// Servers that write their log in JSON to standard error, as Caddy does, escape text of clients in all of it.
	d := &Decoder{parser: parser, stdout: !o.Stderr}
	if p, ok := parser.(*jsonParser); ok {
		d.stdout = d.stdout && p.name == nginxJSON
		// The lines in records of JSON may be JSON too, so each of both has its parser.
		d.fields = p
		d.parser, _ = newParser(o)
	}

	if err := d.use(envelope, o.Line); err != nil {
		return nil, err
	}

	if d.takes, _ = parser.(*attemptParser); d.takes != nil && envelope != "" && envelope != "none" {
		return nil, errors.New("attempts are in no envelope: a text of a client in a member of a record could look like one")
	}
	return d, nil
}

// use opens records in an envelope, whose line is at the path line; "" is where the shipper writes it.
func (d *Decoder) use(envelope, line string) error {
	if err := CheckLine(line, envelope); err != nil {
		return err
	}
	switch envelope {
	case "", "none":
		if line != "" {
			d.open, d.scan = d.openJSON, newJSONScan()
			if d.fields != nil {
				d.scan = d.fields.scan
			}
			d.useKeys(line, "")
			return nil
		}
		d.open = d.openLine
		d.stdout = false
		if d.fields != nil {
			// The scan of the fields serves Envelope too, so that the record is read once.
			d.open, d.scan = d.openJSON, d.fields.scan
		}
		return nil
	case "cri":
		d.open, d.scan = d.openCRI, newJSONScan()
		d.times = d.scan.slots("time")
		return nil
	case "syslog":
		d.open = d.openSyslog
		return nil
	case "quoted":
		d.open = d.openQuoted
		return nil
	case "otlp":
		d.open, d.otlp = d.openOTLP, newOTLP()
		d.scan, d.times = d.otlp.record, []int{recordTime, recordObserved}
		return nil
	}

	i := slices.IndexFunc(shippers, func(s shipper) bool { return s.name == envelope })
	if i < 0 {
		return fmt.Errorf("unknown envelope %q: it is none of %s", envelope, strings.Join(Envelopes(), ", "))
	}
	d.open, d.scan = d.openJSON, newJSONScan()
	if envelope == "docker" {
		d.open = d.openDocker
	} else if d.fields != nil {
		d.scan = d.fields.scan
	}
	if line == "" {
		line = shippers[i].lines
	}
	d.useKeys(line, shippers[i].times)
	return nil
}

// CheckLine returns the error of Options.Line with an envelope.
func CheckLine(line, envelope string) error {
	switch {
	case line == "":
		return nil
	case slices.Contains([]string{"cri", "otlp", "quoted", "syslog"}, envelope):
		return fmt.Errorf("line names a key in records of JSON, and records of the envelope %s have no such key", envelope)
	case len(line) > maxPathBytes || strings.ContainsFunc(line, unicode.IsSpace) || slices.Contains(strings.Split(line, "."), ""):
		return fmt.Errorf("%.100q is not a dotted path of keys", line)
	}
	return nil
}

// useKeys looks for the line, the envelope's time and the container's stream at their paths in records of JSON.
func (d *Decoder) useKeys(lines, times string) {
	d.stream = d.scan.slot("stream")
	d.streams = d.scan.slots("stream source log.iostream attributes.log.iostream")
	d.level, d.containers = d.scan.slot("level"), d.scan.slots("container_id _container_id")
	d.lines, d.times = d.scan.slots(lines), d.scan.slots(times)
}

// Decode reads a record that contains one request. The errors are those of Parser.Parse: ErrNoRequest also for a part
// of a line, and "envelope" for a record that contains several requests.
func (d *Decoder) Decode(record string, r *Request) error {
	if d.scan != nil { // else the parser does it
		r.Reset()
	}
	if !d.begin(record) {
		return ErrNoRequest
	}
	return d.open(record, r)
}

// DecodeEach calls each for every request of a record, and for every part of it that could not be read. The request is
// overwritten after each call.
func (d *Decoder) DecodeEach(record string, each func(*Request, error)) {
	if d.takes != nil {
		d.record = record
		d.takes.each(record, &d.request, each)
		return
	}
	if d.otlp == nil {
		d.eachLine(record, each)
		return
	}
	d.request.Reset()
	if d.begin(record) {
		d.eachOTLP(record, &d.request, each)
	}
}

// maxTried bounds the lines, log records and lists of these that a trial reads: every format reads all of a sample, and a
// body of a few kilobytes may unpack to millions of them. Each KiB counts as one more, and one of 512 KiB is not read.
const maxTried = 2000

// more reports whether a further one is read, of so many bytes.
func (d *Decoder) more(bytes int) bool {
	if !d.trial {
		return true
	}
	if bytes >= 512<<10 {
		return false
	}
	d.tried += 1 + bytes>>10
	return d.tried <= maxTried
}

// Want sets which fields of requests are read from the next record on, see Parser.Want.
func (d *Decoder) Want(names []string) {
	d.parser.Want(names)
	if d.fields != nil {
		d.fields.Want(names)
	}
}

// begin forgets the record before. It returns false for a blank record.
func (d *Decoder) begin(record string) bool {
	d.record = record
	d.forgetLine()
	if d.scan != nil {
		d.scan.begin()
	}
	if d.otlp != nil {
		d.otlp.attributes = [3]string{}
		d.otlp.forget()
	}
	return skipSpace(record, 0) < len(record)
}

func (d *Decoder) openOTLP(record string, r *Request) error {
	d.count, d.kept = 0, ErrNoRequest
	d.eachOTLP(record, r, d.keep)
	if d.count > 1 {
		return errEnvelope
	}
	return d.kept
}

func (d *Decoder) keep(_ *Request, err error) {
	d.count++
	d.kept = err
}

// Envelope returns a field of the last record itself by its dotted name: kubernetes.labels.app. Docker and CRI have
// stream and time; OTLP has the attributes of the log record, its scope and its resource. A name is looked for in the
// last record and then read with each of the next ones.
func (d *Decoder) Envelope(name string) (string, bool) {
	if d.otlp != nil {
		return d.otlp.attribute(name)
	}
	if d.scan == nil {
		return "", false
	}
	text := d.lookup(name)
	return text, text != ""
}

func (d *Decoder) lookup(name string) string {
	scan := d.scan
	if _, ok := scan.find(name); !ok && len(scan.values) >= maxPaths {
		scan = newJSONScan()
		scan.begin()
	}
	before := len(scan.values)
	slot := scan.slot(name)
	if len(scan.values) > before {
		scan.again(d.record)
	}
	return scan.textAt(slot)
}

// Pending reports whether parts of a line are missing. A caller that drops the records so far would lose its beginning.
func (d *Decoder) Pending() bool { return d.parts[0].open || d.parts[1].open }

// Share makes the decoder use a Memory that it shares with others, before its first record. Of a line in parts it always
// keeps the first 128 KiB, and more only if the Memory has room: otherwise it reads the line by its beginning, as a line
// that was cut off. Without Share such a line may have 16 MiB.
func (d *Decoder) Share(m *Memory) { d.parts[0].memory, d.parts[1].memory = m, m }

// End calls each for every line that still lacks parts, and forgets it. The beginning of the line is read as a line that
// was cut off.
func (d *Decoder) End(each func(*Request, error)) {
	for i := range d.parts {
		p := &d.parts[i]
		if !p.open {
			continue
		}
		d.request.Reset()
		each(&d.request, d.parse(p, &d.request))
		p.open = false
		p.free()
	}
}

// Drop forgets the parts of lines that are not complete, and gives their memory back.
func (d *Decoder) Drop() {
	for i := range d.parts {
		d.parts[i].free()
		d.parts[i].text, d.parts[i].open = nil, false
	}
}

// forgetLine gives the memory of a line in parts back once the line was read.
func (d *Decoder) forgetLine() {
	if d.joined != nil {
		d.joined.free()
		d.joined = nil
	}
}
