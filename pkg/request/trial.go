package request

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A trial is the result of a format in an envelope on the sample.
type trial struct {
	envelope, format string
	loose, rival     bool
	newParser        func(Options) (Parser, error)
	judged           bool // lines that no server writes do not count
	known            bool // the format has been chosen before
	read, lines      int
	plain, doubted   int          // lines read with a user of one word, and those with one that makes them another format's
	clients          []netip.Addr // of each of the lines, where the format is one of lines; the zero Addr when it was not read
	named, strange   int          // lines in which the header for the client stands, and those in which it names no address
	hosts            hosts        // at the beginning of lines, in host_combined
	doubts           clientDoubts // about the client, in JSON
	opened           int          // requests in the envelope's form, read or not
	unread           string       // the first record that could not be read, and why
	failure          error
	refused          error // of NewDecoder: the pair does not go with the options
}

func (t *trial) readsMost() bool { return t.refused == nil && t.read > 0 && t.read*2 > t.lines }

// contradicted is another trial that reads most of the sample and finds other clients.
func (t *trial) contradicted(trials []trial) *trial {
	for i := range trials {
		other := &trials[i]
		if other.readsMost() && other.envelope == t.envelope && t.differs(other)*2 > t.read && !(other.rival && t.readsMore(other) && t.hosts.shown()) {
			return other
		}
	}
	return nil
}

// readsMore reports whether other cannot have written the sample: t reads all the lines that other reads, and more.
func (t *trial) readsMore(other *trial) (more bool) {
	for i := range min(len(t.clients), len(other.clients)) {
		a, b := t.clients[i].IsValid(), other.clients[i].IsValid()
		if b && !a {
			return false
		}
		more = more || a && !b
	}
	return more
}

// listsOf is the rival that finds lists of addresses where a format has the client and cannot read them. A client can
// begin a line with such a list only where the host comes first.
func (t *trial) listsOf(trials []trial) *trial {
	if t.format == "vhost_combined" || t.format == "host_combined" {
		return nil
	}
	for i := range trials {
		if other := &trials[i]; other.format == forwardedFirst && other.envelope == t.envelope && other.readsOthers(t) {
			return other
		}
	}
	return nil
}

// readsOthers reports whether t finds a client in a line in which other finds none.
func (t *trial) readsOthers(other *trial) bool {
	for i := range min(len(t.clients), len(other.clients)) {
		if t.clients[i].IsValid() && !other.clients[i].IsValid() {
			return true
		}
	}
	return false
}

// differs counts the lines in which both find a client, and not the same one.
func (t *trial) differs(other *trial) (lines int) {
	for i := range min(len(t.clients), len(other.clients)) {
		if a, b := t.clients[i], other.clients[i]; a.IsValid() && b.IsValid() && a != b {
			lines++
		}
	}
	return lines
}

// byRead sorts trials that fit the options first, and these by the number of requests that they read.
func byRead(a, b trial) int {
	if (a.refused == nil) != (b.refused == nil) {
		if a.refused == nil {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.read, a.read)
}

func (t trial) String() string {
	if t.envelope == "none" {
		return fmt.Sprintf("%s: %d", t.format, t.read)
	}
	return fmt.Sprintf("%s in %s: %d", t.format, t.envelope, t.read)
}

// candidates are the pairs to try, in the order in which ties are decided.
func candidates(envelope, format string, sample []string, o Options) (pairs []trial) {
	envelopes := []string{envelope}
	if envelope == "auto" {
		envelopes = envelopesOf(sample)
	}
	if envelope == "auto" && o.Line != "" {
		envelopes = []string{"none"} // the user has named where the line is
	}

	tried := []preset{{name: format, parser: func(o Options) (Parser, error) { return NewParser(format, o) }}}
	if format == "auto" {
		tried = formatsFor(o)
	}

	for _, e := range envelopes {
		for _, f := range tried {
			pairs = append(pairs, trial{envelope: e, format: f.name, loose: f.loose, newParser: f.parser, judged: format == "auto"})
		}

		// With a format that the user named, no other can be meant.
		for _, f := range rivals {
			if format == "auto" {
				pairs = append(pairs, trial{envelope: e, format: f.name, rival: true, newParser: f.parser, judged: true})
			}
		}
	}

	return pairs
}

// formatsFor are the presets. With fields taken from elsewhere, a record of JSON shows less of its writer. So of the
// JSON formats only json is tried, which checks all fields of each writer.
func formatsFor(o Options) []preset {
	formats := slices.Clone(presets)
	for _, p := range forgeablePresets {
		formats = append(formats, preset{name: p.name, parser: p.make})
	}
	if len(o.Fields) == 0 {
		return formats
	}
	return slices.DeleteFunc(formats, func(p preset) bool {
		return p.name != "json" && slices.ContainsFunc(jsonShapes, func(s jsonShape) bool { return s.name == p.name })
	})
}

// envelopesOf are the envelopes whose form at least half of the sample has, and none, before syslog: a format that reads
// syslog's header by itself needs no envelope.
func envelopesOf(sample []string) []string {
	form := []shipper{{name: "cri"}, {name: "quoted"}, {name: "otlp", form: "resourceLogs"}}

	// Docker's records also have the form of Fluent Bit's, so the more specific forms come first.
	form = slices.Concat(shippers[:1], form, shippers[1:], []shipper{{name: "syslog"}})
	names := []string{"none"}
	for _, s := range form {
		count, records := 0, 0
		for _, record := range sample {
			if skipSpace(record, 0) < len(record) {
				records++
				count += s.matches(record)
			}
		}

		switch {
		case count == 0 || count*2 < records:
		case s.name == "syslog":
			names = append(names, s.name)
		default:
			names = slices.Insert(names, len(names)-1, s.name)
		}
	}

	return names
}

// matches is 1 when a record has the shipper's typical fields, else 0.
func (s shipper) matches(record string) int {
	line, _ := firstLine(record)
	switch s.name {
	case "cri":
		_, _, _, _, ok := cutCRI(line)
		return oneIf(ok)
	case "quoted":
		_, _, ok := cutString(line)
		return oneIf(ok)
	case "syslog":
		_, ok := cutSyslogLine(line)
		return oneIf(ok)
	}

	scan := newJSONScan()
	needs := scan.needs(s.form)
	if scan.read(record) || scan.read(line) {
		return oneIf(scan.meets(needs))
	}
	return oneIf(s.name == "otlp" && isOTLP(record))
}

func oneIf(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// run counts the requests that the pair reads. If the format lacks a field that the options name, it is tried without
// that field: the missing field is then the error to report if no other format reads the sample.
func (t *trial) run(sample []string, o Options) {
	o.forgeable = t.rival // only to detect it: no record is decoded with it
	d, err := decoderOf(t.envelope, o, t.newParser)
	if err != nil {
		t.refused = err

		// The trial stays refused. It runs to learn how much it would read, so that the error can name the true reason.
		o.Fields, o.forgeable = nil, true
		if d, err = decoderOf(t.envelope, o, t.newParser); err != nil {
			return
		}
	}

	d.trial = true
	isLines := d.fields == nil
	if inner, ok := d.parser.(*jsonParser); ok {
		inner.doubts, d.fields.doubts = &t.doubts, &t.doubts
	}
	stderr := 0
	for _, record := range sample {
		d.DecodeEach(record, func(r *Request, err error) {
			if err == ErrNoRequest || err == nil && r.cut { // the end of a line distinguishes formats
				return
			}
			if t.envelope != "none" && Reason(err) != errEnvelope.Reason {
				t.opened++
			}
			if err == error(errStderr) { // a client can write any number of these
				stderr, t.unread = stderr+1, record
				return
			}
			if err == nil && isLines && t.judged {
				err = t.judge(r)
			}
			switch {
			case err == nil:
				t.read++
				t.plain += oneIf(strings.IndexByte(r.User, ' ') < 0)
			// Whether these count is known only when the sample has been read, below.
			case err == errDoubted:
				t.doubted++
				fallthrough
			case t.failure == nil:
				t.unread, t.failure = record, err
			}
			t.lines++
			if isLines {
				t.clients = append(t.clients, clientOf(r, err))
			}
		})
	}

	if t.lines == 0 && stderr > 0 {
		t.lines, t.failure = stderr, errStderr
	}

	// A line without a space in its user shows that the format has one field there, so the doubted lines count.
	if t.plain > 0 {
		t.read += t.doubted
	}

	// Where the header for the client mostly names no address, the lines have another format. A format that was chosen
	// before is not doubted for this, because clients write that text.
	if t.strange*2 > t.named && !t.known {
		t.read, t.failure = 0, errFormat
	}
}
