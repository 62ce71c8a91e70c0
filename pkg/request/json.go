package request

import (
	"slices"
	"strings"
)

// errNoTime is the error of a format or a record without any time; an envelope's time may then be used.
var errNoTime = &Unread{"time", "there is no time in the line"}

// maxFurther bounds the further fields that are kept of one record.
const maxFurther = 64

// A jsonParser reads one JSON object a line. It allocates nothing once it has read the longest record.
type jsonParser struct {
	name    string // of the preset
	scan    *jsonScan
	shapes  []jsonMapping
	further []jsonField
	options Options
	local   localTime
	doubts  *clientDoubts // nil, except in a trial
	cut     bool          // the record that is read was cut off
}

// A jsonMapping is a shape with the slots of its paths in the scan.
type jsonMapping struct {
	needs [][]int
	roles [roleCount][]jsonField
	path  jsonField
	uses  []bool    // by slot, for those that are a field of the request itself
	took  *jsonTook // nil when the time is not that of the beginning

	logger int // the slot of the part of a server that has written the record; -1 for none
	client int // of the addresses in roleIP, the first that a complete record had, plus 1; 0 before one had any

	free    bool // its writer may give the client's address any name
	percent bool // texts are percent-encoded
	hash    bool // a # is part of the path, which the server passes on as %23
}

type jsonField struct {
	name   string
	slot   int
	day    int  // slot of the day, if slot has the time of day; -1 for none
	unix   bool // may be a Unix time
	quoted bool // may stand in additional quotes
}

// newJSONParser makes the parser of one preset of JSON.
func newJSONParser(name string, o Options) *jsonParser {
	p := &jsonParser{name: name, scan: newJSONScan(), options: o}
	for _, shape := range jsonShapes {
		switch name {
		case "json":
			p.shapes = append(p.shapes, p.mapping(shape))
		case shape.name:
			shape.needs = o.needs(shape)
			p.shapes = append(p.shapes, p.mapping(shape))
		}
	}

	// Look up the further fields that the options name, and let the scan learn others.
	for ours, theirs := range p.options.Fields {
		if !slices.Contains(roleNames[:], ours) {
			p.further = append(p.further, jsonField{name: ours, slot: p.scan.slot(theirs)})
		}
	}
	slices.SortFunc(p.further, func(a, b jsonField) int { return strings.Compare(a.name, b.name) })
	p.scan.learn = true

	return p
}

// needs are a shape's needs, except those that the options take from elsewhere.
func (o Options) needs(shape jsonShape) string {
	var elsewhere []string
	for role, paths := range shape.paths {
		if o.Fields[roleNames[role]] != "" {
			elsewhere = append(elsewhere, strings.Fields(strings.ReplaceAll(paths, "#", ""))...)
		}
	}
	groups := slices.DeleteFunc(strings.Fields(shape.needs), func(group string) bool {
		return !slices.ContainsFunc(strings.Split(group, "|"), func(path string) bool { return !slices.Contains(elsewhere, path) })
	})
	return strings.Join(groups, " ")
}

func (p *jsonParser) mapping(shape jsonShape) jsonMapping {
	m := jsonMapping{needs: p.scan.needs(shape.needs), path: p.field(roleNames[rolePath]), percent: shape.name == cloudFrontJSON, hash: shape.name == caddyJSON,
		free: !slices.Contains(serverShapes, shape.name) && p.options.Fields[roleNames[roleIP]] == ""}
	for role, paths := range shape.paths {
		fields := strings.Fields(p.options.path(paths))
		if isOwnRole(role) && !slices.ContainsFunc(fields, func(path string) bool { return strings.TrimRight(path, `#"`) == roleNames[role] }) {
			fields = append(fields, roleNames[role])
		}

		// A path that the user gives replaces all others: a fallback would fill the field with something that was not
		// asked for.
		if theirs := p.options.Fields[roleNames[role]]; theirs != "" {
			fields = []string{theirs + "#"}
		}

		for _, path := range fields {
			field := p.field(path)
			m.roles[role] = append(m.roles[role], field)
			m.use(field.slot)
			if field.day >= 0 {
				m.use(field.day)
			}
		}
	}

	if m.logger = -1; shape.name == caddyJSON {
		m.logger = p.scan.slot("logger")
	}
	m.took = p.took(shape)
	return m
}

// isOwnRole reports whether a member with the role's own name is used for the role, in every shape that has no better
// path. A member named host is not: it is mostly the machine that wrote the record.
func isOwnRole(r int) bool {
	switch role(r) {
	case roleUser, roleMethod, roleQuery, roleAgent, roleReferrer:
		return true
	}
	return false
}

func (m *jsonMapping) use(slot int) {
	for len(m.uses) <= slot {
		m.uses = append(m.uses, false)
	}
	m.uses[slot] = true
}

// dayAndTime is a time whose day stands in another field.
const dayAndTime = "date+time"

func (p *jsonParser) field(path string) jsonField {
	path, unix := strings.CutSuffix(path, "#")
	path, quoted := strings.CutSuffix(path, `"`)
	day := -1
	if before, after, ok := strings.Cut(path, "+"); ok && path == dayAndTime {
		day, path = p.scan.slot(before), after
	}
	return jsonField{name: path, slot: p.scan.slot(path), day: day, unix: unix, quoted: quoted}
}

func (p *jsonParser) Parse(line string, r *Request) error {
	r.Reset()
	if skipSpace(line, 0) == len(line) {
		return ErrNoRequest
	}
	if !p.scan.read(line) {
		return p.parseCut(line, r)
	}
	return p.fill(r)
}

// fill makes the request from the scanned values. When the error is errNoTime the rest of r is filled.
func (p *jsonParser) fill(r *Request) error {
	m := p.fitting()
	if m == nil {
		return errFormat
	}
	if m.logger >= 0 && isNoAccess(p.scan.textAt(m.logger)) {
		return ErrNoRequest
	}

	// Errors of these texts are ignored: a client writes them, and must not make its line unread.
	ownPath := p.fillURL(m, r)
	_ = setUser(nil, r, p.text(m.roles[roleUser]))
	r.Agent = known(bare(p.text(m.roles[roleAgent])))
	r.Referrer = known(bare(p.text(m.roles[roleReferrer])))
	r.Forwarded = p.text(m.roles[roleForwarded])
	p.addFurther(m, ownPath, r)
	// It decodes the texts that are set in r by now.
	if m.percent {
		r.decodePercent()
	}
	if unread := setStatus(nil, r, trimZeros(p.text(m.roles[roleStatus]))); unread != nil {
		return unread
	}
	if unread := setBytes(nil, r, trimZeros(p.text(m.roles[roleBytes]))); unread != nil {
		return unread
	}

	// It comes after Forwarded is filled, which it leaves as it is.
	if !p.fillIP(m, r) {
		return errAddress
	}
	if !p.hasRequest(r) {
		return errFormat
	}

	// The time is the last, because an envelope may still give one: with errNoTime all else has to be there.
	return p.fillTime(m, r)
}

// isNoAccess reports whether a part of Caddy writes no access log. Its records of errors have the request, too, which is in
// the access log as well.
func isNoAccess(logger string) bool {
	return strings.HasPrefix(logger, "http.") && !strings.HasPrefix(logger, "http.log.access")
}

// decodePercent undoes CloudFront's encoding of texts, as decoderCloudFront does for columns.
func (r *Request) decodePercent() {
	query := percentDecoded(r.Query)
	_ = setTarget(nil, r, percentDecoded(r.Path))
	_ = setQuery(nil, r, query)
	r.Referrer, r.Agent, r.Forwarded = percentDecoded(r.Referrer), decodedAgent(r.Agent), percentDecoded(r.Forwarded)
}

// fitting is the first shape whose needs are met, or nil.
func (p *jsonParser) fitting() *jsonMapping {
	for i := range p.shapes {
		if p.scan.meets(p.shapes[i].needs) {
			return &p.shapes[i]
		}
	}
	return nil
}

// text is the first of the fields that has a value, as text.
func (p *jsonParser) text(fields []jsonField) string {
	for i := range fields {
		text := p.scan.textAt(fields[i].slot)
		if fields[i].quoted && len(text) > 1 && text[0] == '"' {
			text = strings.TrimSuffix(text[1:], `"`)
		}
		if known(text) != "" {
			return text
		}
	}
	return ""
}

// fillURL uses the request line first, then members that are more exact, and last a member named path, in which
// Logstash has the log's file. own is true when it used that one.
func (p *jsonParser) fillURL(m *jsonMapping, r *Request) (own bool) {
	line := splitRequestLine(p.text(m.roles[roleRequest]))
	if method := p.text(m.roles[roleMethod]); method != "" {
		line.method = method
	}
	if uri := p.text(m.roles[roleURI]); uri != "" {
		line = targetOf(requestLine{method: line.method}, uri)
	}

	r.Method = line.method
	r.Host = line.host
	r.Path = line.path
	r.Query = line.query
	if path := p.text(m.roles[rolePath]); path != "" {
		_ = setTarget(nil, r, path)
	}

	if r.Path == "" {
		_ = setTarget(nil, r, p.scan.textAt(m.path.slot))
		own = r.Path != ""
	}

	// Otherwise the path would end at the #, and one that the server serves could hide behind it.
	if m.hash && strings.IndexByte(r.Path, '#') >= 0 {
		r.Path = strings.ReplaceAll(r.Path, "#", "%23")
	}
	_ = setQuery(nil, r, p.text(m.roles[roleQuery]))
	_ = setHost(nil, r, p.text(m.roles[roleHost]))
	return own
}

// trimZeros turns 200.0, written by programs without integers, into 200.
func trimZeros(number string) string {
	if integer, fraction, ok := strings.Cut(number, "."); ok && strings.Trim(fraction, "0") == "" {
		return integer
	}
	return number
}

// fillIP uses the first address. It is false when there are values and none is an address. A list of addresses is a
// header in the place of the client (Traefik's ClientHost behind a proxy that it trusts): its last address is the one
// that the nearest proxy has seen, and all are kept for Client.Resolve.
func (p *jsonParser) fillIP(m *jsonMapping, r *Request) bool {
	fine := true
	for i, field := range m.roles[roleIP] {
		text := p.scan.textAt(field.slot)
		if known(text) == "" {
			continue
		}

		list := strings.IndexByte(text, ',') >= 0
		if list && r.Forwarded == "" {
			r.Forwarded = text
		}

		address, ok := parseAddress(text)
		if list {
			_, last := lastEntry(text)
			address, ok = forwardedAddress(last)
		}

		if ok && address.IsValid() {
			// A better one may have been cut off: this one is a proxy's then.
			if p.cut && m.client > 0 && i >= m.client {
				return false
			}
			if !p.cut && (m.client == 0 || i+1 < m.client) {
				m.client = i + 1
			}
			r.IP = address
			if p.doubts != nil && m.free {
				p.doubts.see(p, m, i, address)
			}
			return true
		}

		// A value that is not an address does not stop the search, but if no other is one, the line is unread.
		fine = fine && ok
	}

	if p.doubts != nil {
		p.doubts.lacks(p)
	}
	return fine
}

// hasRequest reports whether a record is a request and not another kind of event: besides its time it names its target,
// its client or its result, or one of the fields that Options.Fields names.
func (p *jsonParser) hasRequest(r *Request) bool {
	if r.IP.IsValid() || r.User != "" || r.Method != "" || r.Path != "" || r.Status != 0 {
		return true
	}
	for i := range p.further {
		if p.options.Fields[p.further[i].name] != "" && p.scan.textAt(p.further[i].slot) != "" {
			return true
		}
	}
	return false
}

// fillTime uses the first time that is there. When that cannot be read, no other is used instead.
func (p *jsonParser) fillTime(m *jsonMapping, r *Request) error {
	for _, field := range m.roles[roleTime] {
		text := p.scan.textAt(field.slot)
		if known(text) == "" {
			continue
		}

		at, ok := p.time(text, field.unix)
		if field.day >= 0 {
			at, ok = timeOfBoth(p.scan.textAt(field.day), text)
		}

		// No other time is taken instead: it could be the shipper's, which may be hours later.
		if !ok {
			return errTime
		}

		r.UnixMilli, r.TookMilli = at, 0
		if m.took != nil && field.slot != m.took.ended {
			r.TookMilli = p.tookAt(m.took, at)
		}
		if field.day < 0 { // the others are UTC
			p.local.settleText(r, text, p.options.zone())
		}
		r.endAfter(r.TookMilli)
		return nil
	}

	return errNoTime
}

// timeOfBoth reads a day and a time of day.
func timeOfBoth(day, clock string) (int64, bool) {
	since, ok := timeDay(day)
	at, fine := timeOfDay(clock)
	return since + at, ok && fine
}

func (p *jsonParser) time(text string, unix bool) (int64, bool) {
	if digits := skipDigits(text, 0); !unix && (digits == len(text) || text[digits] == '.') {
		return 0, false
	}
	return timeAny(text, p.options.zone())
}

// addFurther adds the fields that the options name, and all others that the shape did not use.
func (p *jsonParser) addFurther(m *jsonMapping, ownPath bool, r *Request) {
	for i := range p.further {
		r.add(p.further[i].name, p.scan.textAt(p.further[i].slot))
	}
	for _, slot := range p.scan.found {
		used := slot < len(m.uses) && m.uses[slot] || ownPath && slot == m.path.slot
		if !used && len(r.Fields) < maxFurther {
			r.add(p.scan.paths[slot], p.scan.textAt(slot))
		}
	}
}
