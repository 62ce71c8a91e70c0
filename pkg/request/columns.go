package request

import (
	"errors"
	"strings"
)

// A columns parser reads the W3C's extended log format: a "#Fields:" line names the columns, and another one may follow
// in the middle of a file with others. Until the first one, the columns are those that the parser was made with.
type columns struct {
	dialect
	steps   []step
	options Options
	wanted  []string // nil means all
}

// A dialect is the way in which a server writes the format.
type dialect struct {
	separator byte
	grows     int                                   // lines may have other columns after so many; 0: exactly those named
	decoder   func(v *variable) func(string) string // undoes the server's encoding of a column; nil for none
	decodes   bool                                  // cs-uri-stem is the path decoded
	longest   int                                   // X-Forwarded-For is cut off at so many bytes; 0: it is not
}

var (
	dialectIIS        = dialect{separator: ' ', decoder: decoderIIS, decodes: true, longest: maxCustomFieldLength}
	dialectCloudFront = dialect{separator: '\t', grows: 12, decoder: decoderCloudFront}
)

// maxCustomFieldLength is the default of IIS's setting of this name.
const maxCustomFieldLength = 4096

// w3cColumns are the columns that fill more than a further field of their own name.
var w3cColumns = map[string]variable{
	"date":           {slot: slotDay, set: setDay},
	"time":           {slot: slotTime, set: setTimeOfDay},
	"c-ip":           {slot: slotIP, set: setAddress},
	"cs-username":    {slot: slotUser, set: setUser},
	"cs-method":      {slot: slotMethod, set: setMethod},
	"x-host-header":  {slot: slotHost, set: setHost, rank: rankSent},
	"cs-host":        {slot: slotHost, set: setHost, rank: rankRewritten},
	"cs(Host)":       {slot: slotHost, set: setHost, rank: rankServer},
	"cs-uri-stem":    {slot: slotPath, set: setTarget, rank: rankSent},
	"cs-uri":         {slot: slotPath, set: setTarget, rank: rankRewritten},
	"cs-uri-query":   {slot: slotQuery, set: setQuery},
	"sc-status":      {slot: slotStatus, set: setStatus},
	"sc-bytes":       {slot: slotBytes, set: setBytes},
	"cs(User-Agent)": {slot: slotAgent, set: setAgent},
	"cs(Referer)":    {slot: slotReferrer, set: setReferrer},
}

const fieldsDirective = "#Fields:"

// newColumns makes the parser of a file that begins with these columns.
func newColumns(names string, d dialect, o Options) (*columns, error) {
	c := &columns{dialect: d, options: o}
	return c, c.begin(names)
}

// begin reads the names of columns after "#Fields:".
func (c *columns) begin(names string) error {
	// An error below leaves no steps: lines under names that cannot be read must not be read by the names before.
	c.steps = nil
	var variables []*variable
	for _, name := range strings.Fields(names) {
		variables = append(variables, c.variable(name))
	}

	if !strings.Contains(names, "date") {
		return errors.New("the columns have no date")
	}
	if err := claimSlots(variables, c.options); err != nil {
		return err
	}

	for _, v := range variables {
		st := step{name: v.name}
		set := decoded(v.set, c.decoder(v))
		if v.slot == slotForwarded && c.longest > 0 {
			set = cutOff(set, c.longest)
		}
		st.filledBy(v, set)

		// The readers' wish outlives the columns: new names may come in the middle of a file.
		st.want(c.wanted)
		c.steps = append(c.steps, st)
	}

	return nil
}

func (c *columns) variable(name string) *variable {
	v, ok := w3cColumns[name]
	if !ok {
		v.set = setFurther
	}

	v.name, v.text = name, name
	if name == "cs-uri-stem" && c.decodes {
		v.set = setDecodedTarget
	}

	// IIS and CloudFront write headers as cs(Name), and CloudFront this one without: both are compared without the
	// frame.
	switch header := underscored(strings.TrimSuffix(name[strings.IndexByte(name, '(')+1:], ")")); header {
	case c.options.header():
		v.slot, v.set = slotForwarded, setForwarded
	case "x_weir":
		v.name = refusedField
	}

	return &v
}

// decoded is a setter for the decoded text.
func decoded(set setter, decode func(string) string) setter {
	if decode == nil {
		return set
	}
	return func(s *step, r *Request, text string) *Unread { return set(s, r, decode(text)) }
}

// cutOff is a setter that leaves a text of so many bytes out. Its end may be missing, which the proxy wrote, so that it
// could end with any address that the client likes.
func cutOff(set setter, longest int) setter {
	return func(s *step, r *Request, text string) *Unread {
		if r.cut = r.cut || len(text) >= longest; r.cut {
			return nil
		}
		return set(s, r, text)
	}
}

// Parse reads one line. A "#Fields:" line changes the meaning of the following ones.
func (c *columns) Parse(line string, r *Request) error {
	line = trimLine(line)
	if names, ok := strings.CutPrefix(line, fieldsDirective); ok {
		// After an error there are no steps, so each of the lines that follow is reported as unread.
		_ = c.begin(names)
	}
	if isNoRequest(line) {
		return ErrNoRequest
	}

	r.Reset()
	n, more := 0, true
	for ; n < len(c.steps) && more; n++ {
		end := strings.IndexByte(line, c.separator)
		text := line
		if more = end >= 0; more {
			text, line = line[:end], line[end+1:]
		}
		if unread := c.steps[n].fill(r, text, escapeNone); unread != nil {
			return unread
		}
	}

	// A line with fewer or more columns than were named belongs to other names. CloudFront appends columns over time,
	// so from grows on both are fine.
	if n == 0 || (n < len(c.steps) || more) && (c.grows == 0 || n < c.grows) {
		return errFormat
	}

	return nil
}

// decoderIIS is the decoder of headers, in which a plus stands for a space. X-Forwarded-For is a column of the
// administrator's own, without a cs( in front: 198.51.100.9,+203.0.113.7.
func decoderIIS(v *variable) func(string) string {
	if v.slot == slotForwarded || strings.HasPrefix(v.text, "cs(") {
		return spaced
	}
	return nil
}

func spaced(text string) string {
	if strings.IndexByte(text, '+') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "+", " ")
}

// decoderCloudFront is the decoder of columns that are percent-encoded once more than they were sent.
func decoderCloudFront(v *variable) func(string) string {
	switch v.text {
	case "cs-uri-stem", "cs-uri-query", "cs(Referer)", "cs(Cookie)", "x-forwarded-for":
		return percentDecoded
	case "cs(User-Agent)":
		return decodedAgent
	}
	return nil
}

// decodedAgent also reads older logs, in which the spaces of an agent are encoded twice.
func decodedAgent(text string) string {
	text = percentDecoded(text)
	if strings.IndexByte(text, ' ') < 0 {
		return percentDecoded(text)
	}
	return text
}

// percentDecoded undoes escapes such as %20.
func percentDecoded(text string) string {
	return escapePercent.undo(text)
}

const (
	columnsIIS = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) " +
		"sc-status sc-substatus sc-win32-status time-taken"
	columnsCloudFront = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) " +
		"cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes " +
		"time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status " +
		"fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len " +
		"sc-range-start sc-range-end"
)
