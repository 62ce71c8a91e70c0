package kafka

// Header returns the value of the last header with a name, from a record's Headers, as a part of them. ok is false if there is
// none, if it is null, or if the headers are damaged.
func Header(headers []byte, name string) (value []byte, ok bool) {
	in := newWire(headers)
	for n := in.Signed(); n > 0 && !in.Failed; n-- {
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
