package request

import "strings"

// eachLine calls each for every line of a record: a shipper may send several in one. They are read as lines of their own
// only if the first of them can be read. Otherwise a program's message, in which a client has written a newline and a
// line of a log, would be a request.
func (d *Decoder) eachLine(record string, each func(*Request, error)) {
	line, rest := firstLine(record)
	if rest == "" {
		each(&d.request, d.Decode(record, &d.request))
		d.forgetLine()
		return
	}

	err := d.Decode(line, &d.request)
	if Reason(err) != "" { // a JSON object over several lines is one request
		err, rest = d.Decode(record, &d.request), ""
	}
	each(&d.request, err)
	d.forgetLine()
	for rest != "" && d.more() {
		line, rest = firstLine(rest)
		each(&d.request, d.Decode(line, &d.request))
		d.forgetLine()
	}
}

// firstLine cuts a record behind its first line that is not blank. rest is empty if only blank lines follow.
func firstLine(record string) (line, rest string) {
	for {
		end := strings.IndexByte(record, '\n')
		if end < 0 {
			return record, ""
		}
		line, rest = record[:end], record[end+1:]
		if skipSpace(rest, 0) == len(rest) {
			return line, ""
		}
		if skipSpace(line, 0) < end {
			return line, rest
		}
		record = rest
	}
}
