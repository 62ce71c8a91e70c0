package request

import "strings"

// eachLine calls each for every line of a record: a shipper may send several in one. They are read as lines of their own
// only if the first of them can be read. Otherwise a program's message, in which a client has written a newline and a
// line of a log, would be a request.
func (d *Decoder) eachLine(record string, each func(*Request, error)) {
	line, rest := firstLine(record)
	if rest == "" {
		line = record
	}
	if !d.more(len(line)) {
		return
	}
	if rest == "" {
		each(&d.request, d.Decode(record, &d.request))
		d.forgetLine()
		return
	}

	err := d.Decode(line, &d.request)
	if Reason(err) != "" {
		rest = ""
		if d.more(len(record)) { // a JSON object over several lines is one request
			err = d.Decode(record, &d.request)
		}
	}
	each(&d.request, err)
	d.forgetLine()
	for rest != "" {
		if line, rest = firstLine(rest); !d.more(len(line)) {
			return
		}
		each(&d.request, d.Decode(line, &d.request))
		d.forgetLine()
	}
}

// firstLine cuts a record behind its first line that is not blank. rest is empty if only blank lines follow. However many
// blank lines there are, it looks at each of them once.
func firstLine(record string) (line, rest string) {
	begin := skipSpace(record, 0)
	line, rest, _ = strings.Cut(record[strings.LastIndexByte(record[:begin], '\n')+1:], "\n")
	if skipSpace(rest, 0) == len(rest) {
		return line, ""
	}
	return line, rest
}
