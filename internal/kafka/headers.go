package kafka

// mostHeaders of a record are read. A batch of some kilobytes may have hundreds of millions.
const mostHeaders = 1000

// Header returns the value of the last header with a name, from a record's Headers, as a part of them. ok is false if there is
// none, if it is null, or if the headers are damaged or too many.
func Header(headers []byte, name string) (value []byte, ok bool) {
	in := newWire(headers)
	n := in.Signed()
	if n > mostHeaders {
		return nil, false
	}
	for ; n > 0 && !in.Failed; n-- {
		key, v := in.bytes(), in.bytes()
		if string(key) == name {
			value, ok = v, v != nil
		}
	}
	if in.Failed {
		return nil, false
	}
	return value, ok
}
