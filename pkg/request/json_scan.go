package request

import (
	"slices"
	"strconv"
	"strings"
)

const (
	maxRecordBytes = 16 << 20 // of one JSON text; a longer one is not read
	maxDepth       = 64       // of objects and arrays in each other
	maxPaths       = 1024     // that a scan learns from what it reads
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

// A jsonNode is a place in the tree of the paths that a scan looks for.
type jsonNode struct {
	name   string
	path   string // dotted, from the root
	prefix string // of the paths below
	slot   int    // of its value; -1 when only what is below it is looked for
	kids   [][]*jsonNode
}

const kidRows = 16 // children are found by the length of their name first

func (n *jsonNode) child(name string) *jsonNode {
	if n.kids == nil {
		return nil
	}
	for _, kid := range n.kids[len(name)%kidRows] {
		if kid.name == name {
			return kid
		}
	}
	return nil
}

func (n *jsonNode) grow(name string) *jsonNode {
	if kid := n.child(name); kid != nil {
		return kid
	}
	if n.kids == nil {
		n.kids = make([][]*jsonNode, kidRows)
	}
	path := strings.Clone(n.prefix + name) // the name is part of a buffer that is used again
	kid := &jsonNode{name: path[len(n.prefix):], path: path, prefix: path + ".", slot: -1}
	row := &n.kids[len(name)%kidRows]
	*row = append(*row, kid)
	return kid
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
	seen   []int  // with learn: the slots in the order met
}

func newJSONScan() *jsonScan { return &jsonScan{root: jsonNode{slot: -1}} }

// slot is the place of the value at a path, which is looked for from now on.
func (s *jsonScan) slot(path string) int {
	node := &s.root
	for name := range strings.SplitSeq(path, ".") {
		node = node.grow(name)
	}
	return s.claim(node)
}

// find is the slot of a path that is looked for already.
func (s *jsonScan) find(path string) (int, bool) {
	node := &s.root
	for name := range strings.SplitSeq(path, ".") {
		if node = node.child(name); node == nil {
			return 0, false
		}
	}
	return node.slot, node.slot >= 0
}

func (s *jsonScan) claim(node *jsonNode) int {
	if node.slot < 0 {
		node.slot = len(s.values)
		s.values = append(s.values, jsonValue{})
		s.paths = append(s.paths, node.path)
	}
	return node.slot
}

// needs are the slots of groups of paths: "a b|c.d" is a, and b or c.d.
func (s *jsonScan) needs(groups string) (needs [][]int) {
	for group := range strings.FieldsSeq(groups) {
		var slots []int
		for path := range strings.SplitSeq(group, "|") {
			slots = append(slots, s.slot(path))
		}
		needs = append(needs, slots)
	}
	return needs
}

// meets tells whether there is a value of each group.
func (s *jsonScan) meets(needs [][]int) bool {
	for _, group := range needs {
		if !slices.ContainsFunc(group, s.has) {
			return false
		}
	}
	return true
}

func (s *jsonScan) has(slot int) bool {
	_, ok := s.get(slot)
	return ok
}

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
	if node != nil && node.kids == nil && (!s.learn || t[i] == '[' && node.slot >= 0) {
		node = nil
	}
	if t[i] == '[' {
		return jsonArray, s.array(t, i, node, depth)
	}
	return jsonObject, s.object(t, i, node, depth)
}

// keep keeps a value if its place is looked for.
func (s *jsonScan) keep(node *jsonNode, v jsonValue) {
	if s.learn && v.kind < jsonObject {
		if node.slot < 0 && len(s.values) >= maxPaths {
			return
		}
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

// member is the node of a key; a key with dots goes down by its parts.
func (s *jsonScan) member(node *jsonNode, key string, escaped bool) *jsonNode {
	if escaped {
		from := len(s.text)
		s.text = appendUnescaped(s.text, key)
		key = Text(s.text[from:])
	}
	for {
		dot := strings.IndexByte(key, '.')
		if dot < 0 {
			return s.step(node, key)
		}
		if node = s.step(node, key[:dot]); node == nil {
			return nil
		}
		key = key[dot+1:]
	}
}

func (s *jsonScan) step(node *jsonNode, name string) *jsonNode {
	kid := node.child(name)
	if kid == nil && s.learn && len(s.values) < maxPaths && len(node.prefix)+len(name) <= 256 {
		kid = node.grow(name)
	}
	return kid
}
