package request

// openQuoted reads a line that is written as a string of JSON.
func (d *Decoder) openQuoted(record string, r *Request) error {
	text, escaped, ok := cutString(record)
	if !ok {
		return errEnvelope
	}
	if escaped {
		d.text = appendUnescaped(d.text[:0], text)
		text = Text(d.text)
		if cap(d.text) > 64<<10 { // the request keeps it until the next record
			d.text = nil
		}
	}
	return d.parser.Parse(text, r)
}

// cutString is the text of a record that is one string of JSON, still escaped.
func cutString(record string) (text string, escaped, ok bool) {
	begin := skipSpace(record, 0)
	if begin == len(record) || record[begin] != '"' {
		return "", false, false
	}
	end, escaped := endOfString(record, begin)
	if end < 0 || skipSpace(record, end) < len(record) {
		return "", false, false
	}
	return record[begin+1 : end-1], escaped, true
}
