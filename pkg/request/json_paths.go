package request

import (
	"slices"
	"strings"
)

const (
	maxPaths     = 1024 // that a scan learns from records
	maxPathBytes = 256
)

// A jsonNode is a node in the tree of paths that a scan looks for.
type jsonNode struct {
	name   string
	path   string // dotted, from the root
	prefix string // of the paths below
	slot   int    // of its value; -1 when only the paths below it are looked for
	kids   [][]*jsonNode
	named  map[string]*jsonNode // the children, where a row of them is long: a client may choose many names of one length
	unread bool                 // as a further field
}

const (
	kidRows = 16 // children are found by the length of their name first
	longRow = 16
)

func (n *jsonNode) child(name string) *jsonNode {
	if n.kids == nil {
		return nil
	}
	if n.named != nil {
		return n.named[name]
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
	path := strings.Clone(n.prefix + name) // the name is part of a buffer that is overwritten
	kid := &jsonNode{name: path[len(n.prefix):], path: path, prefix: path + ".", slot: -1}
	row := &n.kids[len(name)%kidRows]
	*row = append(*row, kid)
	if n.named == nil && len(*row) > longRow {
		n.named = map[string]*jsonNode{}
		for _, kid := range slices.Concat(n.kids...) {
			n.named[kid.name] = kid
		}
	}
	if n.named != nil {
		n.named[kid.name] = kid
	}
	return kid
}

// slot is the slot of the value at a path. From now on the scan looks for it.
func (s *jsonScan) slot(path string) int {
	node := &s.root
	for name := range strings.SplitSeq(path, ".") {
		node = node.grow(name)
	}
	return s.claim(node)
}

// find is the slot of a path that the scan already looks for.
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

// meets reports whether each group has a value.
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

// member is the node of a key; a key with dots goes down by its parts. Below the first level, a number behind a dot is
// no part of a path: it would be that of an array's element.
func (s *jsonScan) member(node *jsonNode, key string, escaped bool, depth int) *jsonNode {
	// A key may be written with escapes, and means the same.
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
		if next, _, _ := strings.Cut(key, "."); depth > 1 && next != "" && strings.Trim(next, "0123456789") == "" {
			return nil
		}
	}
}

func (s *jsonScan) step(node *jsonNode, name string) *jsonNode {
	kid := node.child(name)
	if kid == nil && s.learn && !s.closed && s.grown < maxPaths && len(node.prefix)+len(name) <= maxPathBytes {
		s.grown++
		kid = node.grow(name)
	}
	return kid
}
