package request

import "strconv"

const (
	maxRecordBytes = 16 << 20 // of one JSON text; a longer one is refused
	maxDepth       = 64       // of objects and arrays in each other; deeper ones are left out
)

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonObject
	jsonArray
)

// A jsonValue is one value as it stands in the text; a string is without its quotes and still escaped.
type jsonValue struct {
	raw     string
	kind    jsonKind
	escaped bool
	record  uint64 // the number of the text it comes from
	cut     bool   // it is the beginning of a string
}

// A jsonScan reads JSON objects, each from beginning to end once, and keeps the values at the requested paths. Paths
// are dotted, and a key with dots in it means the same as nested objects; elements of arrays go by their index, and in
// a nested object no key does: in {"headers":{"A":["x"],"A.0":["y"]}} of Caddy, a client has chosen the second name. Text
// that is not JSON is refused as encoding/json refuses it, with two exceptions: values of nginx without quotes
// (withBareValues), and \xHH in strings. nginx writes it unless its log_format has escape=json, and a client must not
// make its line unreadable by sending a quote.
// For the same reason, objects and arrays may be nested without end: in one below maxDepth, only brackets and strings are
// looked at.
// If a path has several values, the last is kept.
type jsonScan struct {
	root   jsonNode
	paths  []string // by slot
	values []jsonValue
	record uint64 // the number of the text read last
	cutAt  int    // the end of a string that was cut off; 0 if there is none
	text   []byte // unescaped strings of that text
	learn  bool   // add every path that occurs
	closed bool   // with learn: except paths that are not in the tree
	grown  int    // with learn: the number of paths added
	found  []int  // with learn: the slots in the order met
}

func newJSONScan() *jsonScan { return &jsonScan{root: jsonNode{slot: -1}} }

// begin forgets the values of the text before.
func (s *jsonScan) begin() {
	s.record++
	s.found = s.found[:0]
	s.text = s.text[:0]
	if cap(s.text) > 64<<10 {
		s.text = nil
	}
}

// read reads one object and overwrites the unescaped strings of the text before.
func (s *jsonScan) read(text string) bool {
	s.begin()
	return s.again(text)
}

// again reads one object and keeps the unescaped strings.
func (s *jsonScan) again(text string) bool {
	if len(text) > maxRecordBytes {
		return false
	}
	if i := skipSpace(text, 0); i == len(text) || text[i] != '{' {
		return false
	}
	if s.complete(text) {
		return true
	}
	bare := withBareValues(text)
	if bare == "" {
		return false
	}
	if s.cutAt > 0 {
		s.cutAt += len(bare) - len(text) // all of these values stand in front of the string that was cut off
	}
	return s.complete(bare)
}

// complete reads one object and nothing else.
func (s *jsonScan) complete(text string) bool {
	i := s.object(text, skipSpace(text, 0), &s.root, 1)
	return i > 0 && skipSpace(text, i) == len(text)
}

// get is the value of a slot; null counts as no value.
func (s *jsonScan) get(slot int) (*jsonValue, bool) {
	v := &s.values[slot]
	return v, v.record == s.record && v.kind != jsonNull
}

// The functions below read the value that begins at i and return the index after it, or -1. A node is its place in the
// tree of paths; nil when nothing below it is looked for.

func (s *jsonScan) object(t string, i int, node *jsonNode, depth int) int {
	i = skipSpace(t, i+1)
	if i < len(t) && t[i] == '}' {
		return i + 1
	}

	for {
		if i >= len(t) || t[i] != '"' {
			return -1
		}
		end, escaped := endOfString(t, i)
		if end < 0 {
			return -1
		}

		// Where nothing below is looked for, the text is only checked.
		var member *jsonNode
		if node != nil {
			member = s.member(node, t[i+1:end-1], escaped, depth)
		}
		if i = skipSpace(t, end); i >= len(t) || t[i] != ':' {
			return -1
		}
		if i = s.value(t, skipSpace(t, i+1), member, depth); i < 0 {
			return -1
		}

		i = skipSpace(t, i)
		if i < len(t) && t[i] == '}' {
			return i + 1
		}
		if i >= len(t) || t[i] != ',' {
			return -1
		}

		i = skipSpace(t, i+1)
	}
}

func (s *jsonScan) array(t string, i int, node *jsonNode, depth int) int {
	i = skipSpace(t, i+1)
	if i < len(t) && t[i] == ']' {
		return i + 1
	}

	for n := 0; ; n++ {
		var element *jsonNode
		// Elements beyond the hundredth are checked and not kept: paths would otherwise grow with an array that a
		// client fills.
		if node != nil && n < 100 {
			element = s.step(node, strconv.Itoa(n))
		}
		if i = s.value(t, i, element, depth); i < 0 {
			return -1
		}

		i = skipSpace(t, i)
		if i < len(t) && t[i] == ']' {
			return i + 1
		}
		if i >= len(t) || t[i] != ',' {
			return -1
		}

		i = skipSpace(t, i+1)
	}
}

func (s *jsonScan) value(t string, i int, node *jsonNode, depth int) int {
	v, end := s.element(t, i, node, depth)
	if node != nil && end > 0 {
		s.keep(node, v)
	}
	return end
}

func (s *jsonScan) element(t string, i int, node *jsonNode, depth int) (v jsonValue, end int) {
	if i >= len(t) {
		return v, -1
	}
	switch t[i] {
	case '"':
		end, escaped := endOfString(t, i)
		if end < 0 {
			return v, end
		}

		// A string is cut without its quotes; all others are cut below as they stand.
		return jsonValue{t[i+1 : end-1], jsonString, escaped, s.record, end == s.cutAt}, end
	case '{', '[':
		v.kind, end = s.composite(t, i, node, depth+1)
	case 't':
		v.kind, end = jsonBool, endOfWord(t, i, "true")
	case 'f':
		v.kind, end = jsonBool, endOfWord(t, i, "false")
	case 'n':
		v.kind, end = jsonNull, endOfWord(t, i, "null")
	default:
		v.kind, end = jsonNumber, endOfNumber(t, i)
	}

	if end > 0 {
		v.raw, v.record = t[i:end], s.record
	}
	return v, end
}

func (s *jsonScan) composite(t string, i int, node *jsonNode, depth int) (jsonKind, int) {
	if depth > maxDepth {
		return jsonNull, endOfComposite(t, i)
	}

	// The elements of an array that is wanted as one value are not learned too.
	if node != nil && node.kids == nil && (!s.learn || s.closed || t[i] == '[' && node.slot >= 0) {
		node = nil
	}
	if t[i] == '[' {
		return jsonArray, s.array(t, i, node, depth)
	}
	return jsonObject, s.object(t, i, node, depth)
}

// endOfComposite finds the end of an object or array by its brackets, without recursion.
func endOfComposite(t string, i int) int {
	for depth := 0; i < len(t); i++ {
		switch t[i] {
		case '"':
			end, _ := endOfString(t, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// keep keeps a value if its path is looked for.
func (s *jsonScan) keep(node *jsonNode, v jsonValue) {
	if s.learn && v.kind < jsonObject && !node.unread {
		s.claim(node)
		if s.values[node.slot].record != s.record {
			s.found = append(s.found, node.slot)
		}
	}
	if node.slot >= 0 {
		s.values[node.slot] = v
	}
}

// set keeps a value at a node, if there is one, as if it stood there in the text.
func (s *jsonScan) set(node *jsonNode, v jsonValue) {
	if node != nil {
		v.record = s.record
		s.keep(node, v)
	}
}
