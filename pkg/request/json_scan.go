package request

import "strconv"

const (
	maxRecordBytes = 16 << 20 // of one JSON text; a longer one is not read
	maxDepth       = 64       // of objects and arrays in each other
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
	record  uint64 // the number of the text it was seen in
}

// A jsonScan reads JSON objects, each from beginning to end once, and keeps the values at the paths it was told of.
// Paths are dotted, and a key with dots in it is as good as objects in each other; elements of arrays go by their
// index. What is no JSON is refused as encoding/json refuses it, but for \xHH in strings: nginx writes that unless
// its log_format says escape=json, and who sends a quote must not thereby become unreadable. Of several values for
// one path the last is kept.
type jsonScan struct {
	root   jsonNode
	paths  []string // by slot
	values []jsonValue
	record uint64 // the number of the text read last
	text   []byte // what was unescaped of that text
	learn  bool   // take up every path that is met
	closed bool   // with learn: but none that is not in the tree
	grown  int    // with learn: the places taken up
	seen   []int  // with learn: the slots in the order met
}

func newJSONScan() *jsonScan { return &jsonScan{root: jsonNode{slot: -1}} }

// begin forgets the values of the text before.
func (s *jsonScan) begin() {
	s.record++
	s.seen = s.seen[:0]
	s.text = s.text[:0]
	if cap(s.text) > 64<<10 {
		s.text = nil
	}
}

// read reads one object; what was unescaped of the text before is written over.
func (s *jsonScan) read(text string) bool {
	s.begin()
	return s.again(text)
}

// again reads one object and leaves alone what has been unescaped.
func (s *jsonScan) again(text string) bool {
	if len(text) > maxRecordBytes {
		return false
	}
	i := skipSpace(text, 0)
	if i == len(text) || text[i] != '{' {
		return false
	}
	i = s.object(text, i, &s.root, 1)
	return i > 0 && skipSpace(text, i) == len(text)
}

// get is the value of a slot; null is none.
func (s *jsonScan) get(slot int) (*jsonValue, bool) {
	v := &s.values[slot]
	return v, v.record == s.record && v.kind != jsonNull
}

// The functions below read what begins at i and give the index after it, or -1. A node is where in the tree of
// paths they are; nil when nothing below is looked for.

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

		var member *jsonNode
		if node != nil {
			member = s.member(node, t[i+1:end-1], escaped)
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
		return jsonValue{t[i+1 : end-1], jsonString, escaped, s.record}, end
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
		return 0, -1
	}
	// An array that is wanted whole is not taken up by its elements too.
	if node != nil && node.kids == nil && (!s.learn || s.closed || t[i] == '[' && node.slot >= 0) {
		node = nil
	}
	if t[i] == '[' {
		return jsonArray, s.array(t, i, node, depth)
	}
	return jsonObject, s.object(t, i, node, depth)
}

// keep keeps a value if its place is looked for.
func (s *jsonScan) keep(node *jsonNode, v jsonValue) {
	if s.learn && v.kind < jsonObject && !node.unread {
		s.claim(node)
		if s.values[node.slot].record != s.record {
			s.seen = append(s.seen, node.slot)
		}
	}
	if node.slot >= 0 {
		s.values[node.slot] = v
	}
}

// set keeps a value at a node, if that is one, as if it stood there in the text.
func (s *jsonScan) set(node *jsonNode, v jsonValue) {
	if node != nil {
		v.record = s.record
		s.keep(node, v)
	}
}
