package request

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxSample bounds the records that are tried.
const maxSample = 1000

// A Choice is an envelope and a format for NewDecoder.
type Choice struct {
	Envelope, Format string
	Read, Lines      int // of the requests in the sample; both 0 when nothing had to be detected

	second   *trial // the best of the other formats that read anything
	doubt    clientDoubt
	doubtful int // requests with the doubt
}

// Detect finds the envelope and the format of the first records of a source: Choose with auto for both.
func Detect(sample []string, o Options) (Choice, error) { return Choose("auto", "auto", sample, o) }

// Choose finds the envelope, the format or both where they are auto, so that NewDecoder accepts the choice, and keeps
// those that are given.
//
// Every format is tried in every envelope whose form at least half of the sample has, and the pair that reads most
// requests is chosen. Among equals the first is chosen: envelopes in the order docker, cri, quoted, otlp, logstash, filebeat,
// vector, syslog-ng, fluentbit, none, syslog; within one, formats in the order of Presets, where the formats of lines come before
// those of JSON, since the time in a line is the server's own. Formats with a tail, which read the lines of many
// others, are chosen only when no other format reads more than half. When no pair does, the error names the nearest
// ones and shows a masked line that could not be read. It is ErrNoRequest (errors.Is) when the sample has no line that
// could identify a format, so that more lines may help.
//
// A line does not count as read when a format finds in it something that no server writes (a user "- -", an address in
// place of the client's identity, a host with a space). When two formats read most of the sample and name different
// clients, nothing is chosen, and the error names both: the user has to choose. A client can write such lines as often
// as it likes, so one line that only one of the formats can have written decides: a user of one word. A host that is not
// an address decides where at most three addresses stand in its place, or fewer lines with an address than with a name.
//
// A record of JSON may have several members with addresses. The first path of its shape is taken, and Choice.Doubt names
// a member that has another address.
//
// When the format is given and its envelope is not, lines that cannot be read do not stop the others from being read. A
// choice is then returned together with the error: the envelope that most of the sample has, or none. Choice.Sure
// reports whether the sample is enough.
func Choose(envelope, format string, sample []string, o Options) (Choice, error) {
	format = strings.TrimSpace(format)
	if envelope != "auto" && format != "auto" {
		_, err := NewDecoder(envelope, format, o)
		return Choice{Envelope: envelope, Format: format}, err
	}

	// The sample comes from outside: each record is read by every candidate.
	sample = slices.Clone(sample[:min(len(sample), maxSample)])
	for i, record := range sample {
		sample[i] = shortOTLP(record)
	}
	trials := candidates(envelope, format, sample, o)
	for i := range trials {
		trials[i].run(sample, o)
	}

	// Stable, so that among equals the order of the candidates decides.
	slices.SortStableFunc(trials, byRead)
	best := winner(trials)
	// A forgeable format that fits is refused by its name. If its lines were read with another format that happens to
	// fit, clients could forge them.
	if forged := forgeable(trials); forged != nil && format == "auto" && (best == nil || best.loose || forged.read >= best.read) {
		return Choice{}, fmt.Errorf("%s: %w", forged.format, forged.refused)
	}

	// Two readings that name different clients would block the wrong one, so neither is taken.
	if best != nil {
		if other := best.listsOf(trials); other != nil && format == "auto" {
			return Choice{}, lookLike(other)
		}
		if other := best.contradicted(trials); other != nil && format == "auto" {
			return Choice{}, ambiguous(best, other)
		}
		if format == "auto" && !best.hosts.shown() {
			return Choice{}, lookLike(&trial{format: forwardedFirst})
		}
		return best.chosen(trials), nil
	}

	// The rivals are never chosen. They only explain why nothing else could be.
	if i := slices.IndexFunc(trials, func(t trial) bool { return t.rival && t.readsMost() }); i >= 0 && format == "auto" {
		return Choice{}, lookLike(&trials[i])
	}

	// The user named the format, so it is used even if most of the sample cannot be read: only the envelope is chosen.
	if best := enveloped(trials); format != "auto" && best.lines > 0 {
		return best.chosen(nil), unknown(trials)
	}

	return Choice{}, unknown(trials)
}

// forgeable is the trial of a format that a client can forge, if it reads the most.
func forgeable(trials []trial) *trial {
	for i := range trials {
		if t := &trials[i]; 2*t.read > t.lines && slices.ContainsFunc(forgeablePresets, func(p forgeablePreset) bool { return p.name == t.format }) {
			return t
		}
	}
	return nil
}

// chosen is the choice of a trial, with the best of the others.
func (t *trial) chosen(trials []trial) Choice {
	c := Choice{Envelope: t.envelope, Format: t.format, Read: t.read, Lines: t.lines}
	c.doubt, c.doubtful = t.doubts.worst()
	for i := range trials {
		if other := &trials[i]; c.second == nil && other.refused == nil && other.format != t.format && other.read > 0 && !other.loose {
			c.second = other
		}
	}
	return c
}

// String describes the choice and its reason: "combined in filebeat: reads 99 of 100 requests; next main in filebeat:
// 40".
func (c Choice) String() string {
	text := c.Format
	if c.Envelope != "none" && c.Envelope != "" {
		text += " in " + c.Envelope
	}
	if c.Lines == 0 {
		return text + ", as configured"
	}
	text += fmt.Sprintf(": reads %d of %d requests", c.Read, c.Lines)
	if c.doubt.taken != "" {
		text += fmt.Sprintf("; the client is %s, not %s", c.doubt.taken, c.doubt.other)
	}
	if c.second != nil {
		text += "; next " + c.second.String()
	}
	return text
}

// Holds reports whether a choice made from other records also fits these, for a source that is configured with this
// format: whether it reads at least half of them. Text from clients does not count against it, so that a client cannot
// change how a log is read by what it sends when the log is rotated.
func (c Choice) Holds(format string, sample []string, o Options) bool {
	t := candidates(c.Envelope, c.Format, nil, o)[0]
	t.judged, t.known = format == "auto", true
	t.run(sample[:min(len(sample), maxSample)], o)
	return t.refused == nil && 2*t.read >= t.lines
}

// sureLines is the number of lines without an envelope that show that there is none.
const sureLines = 100

// Sure reports whether more records cannot change the choice: most of the sample can be read, or is in an envelope, or
// the sample is long enough to show that there is none.
func (c Choice) Sure() bool {
	return 2*c.Read > c.Lines || c.Envelope != "none" || c.Lines >= sureLines
}

// winner is the trial to choose; nil when none reads most of the sample.
func winner(trials []trial) (loose *trial) {
	for i := range trials {
		switch t := &trials[i]; {
		case !t.readsMost() || t.rival:
		case !t.loose:
			return t
		case loose == nil, t.format == "combined-plus" && loose.format == "common-plus" && 10*t.read >= 9*loose.read:
			loose = t // a few broken lines must not hide referrer and agent in the rest of all lines
		}
	}
	return loose
}

// lookLike is the error when the lines have the format of a rival.
func lookLike(rival *trial) error {
	return fmt.Errorf("the lines look like %s, in which a header that clients write stands without quotes: "+
		"write the server's log_format or LogFormat as format, better with quotes around that header", rival.format)
}

// ambiguous is the error when two formats fit.
func ambiguous(a, b *trial) error {
	for i := range min(len(a.clients), len(b.clients)) {
		if x, y := a.clients[i], b.clients[i]; x.IsValid() && y.IsValid() && x != y {
			return fmt.Errorf("two formats fit and name different clients: to %s the client of a line is %s, to %s it is %s; "+
				"write the right one as format, or the server's log_format or LogFormat", a.format, x, b.format, y)
		}
	}
	return nil
}

// enveloped is the trial of the envelope that most of the sample has, or that of none.
func enveloped(trials []trial) (best trial) {
	for _, t := range trials {
		switch {
		case t.refused != nil:
		case t.envelope == "none" && best.envelope == "", t.envelope != "none" && t.opened > best.opened:
			best = t
		}
	}
	return best
}

// unknown is the error when nothing reads more than half. The best trial comes first.
func unknown(trials []trial) error {
	best := trials[0]

	// A format that reads most of the sample does not go with the options: that is what the user has to correct.
	for i := range trials {
		if t := &trials[i]; t.refused != nil && (t.read*2 > t.lines || best.refused != nil) {
			return fmt.Errorf("%s: %w", t.format, t.refused)
		}
	}

	if best.lines == 0 {
		return fmt.Errorf("no line shows which format it is: %w", ErrNoRequest)
	}
	if why := senderFault(best.unread); why != "" && best.envelope == "none" {
		return errors.New(why)
	}
	nearest := nearestOf(trials)
	text := "none"
	if nearest != nil {
		text = strings.Join(nearest, ", ")
	}

	return fmt.Errorf("no known format reads more than half of the first %d requests (nearest: %s): "+
		"give the server's log_format or LogFormat, or the fields of its JSON; a line that was not read (%s): %s",
		best.lines, text, Reason(best.failure), Sample(best.unread))
}

// nearestOf names up to three formats that read something. Formats that read the lines of many others are named only
// when no other format reads any.
func nearestOf(trials []trial) (nearest []string) {
	for _, others := range []bool{false, true} {
		for i := range trials {
			if t := &trials[i]; t.read > 0 && t.refused == nil && (t.loose || t.rival) == others && len(nearest) < 3 {
				nearest = append(nearest, t.String())
			}
		}
		if nearest != nil {
			return nearest
		}
	}
	return nil
}
