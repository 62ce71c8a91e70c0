package request

import (
	"slices"
	"strings"
)

// Most rules read a few fields of a request only. Of a field that nobody reads it is enough to find where it ends, unless
// what it holds can make a line unread.

// slotFields are the fields that a slot fills. Slots that are not here are always filled: a line may be unread for what
// they hold, or the client is told by it.
var slotFields = [slots][]string{
	slotUser:        {"user"},
	slotMethod:      {"method"},
	slotHost:        {"host"},
	slotPath:        {"path", "query"},
	slotQuery:       {"query"},
	slotAgent:       {"agent"},
	slotReferrer:    {"referrer"},
	slotRequestLine: {"method", "host", "path", "query"},
}

// fields are those that the variable fills, and all that follow right behind it; always says that it is filled whoever
// reads it.
func (v *variable) fields() (names []string, always bool) {
	for ; v != nil; v = v.next {
		switch of := slotFields[v.slot]; {
		case v.always:
			return nil, true
		case v.slot == slotNone:
			names = append(names, v.name)
		case of == nil:
			return nil, true
		default:
			names = append(names, of...)
		}
	}

	return names, false
}

// filledBy makes the step fill what a variable says, with a setter.
func (s *step) filledBy(v *variable, set setter) {
	s.set, s.filler, s.raw = set, set, v.raw
	s.fields, s.always = v.fields()
}

// want makes the step fill its fields if one of them is among the names; nil is all.
func (s *step) want(names []string) {
	s.set = s.filler
	reads := func(field string) bool { return slices.Contains(names, field) }
	if names != nil && !s.always && !slices.ContainsFunc(s.fields, reads) {
		s.set = nil
	}
}

func (s *scanner) Want(names []string) {
	for i := range s.steps {
		s.steps[i].want(names)
	}
}

func (c *columns) Want(names []string) {
	c.wanted = names
	for i := range c.steps {
		c.steps[i].want(names)
	}
}

func (p *jsonParser) Want(names []string) {
	p.scan.want(names)
}

// want makes the scan learn these paths only; nil is whatever is met.
func (s *jsonScan) want(names []string) {
	s.closed = names != nil
	s.root.want(names)
	for _, name := range names {
		node := &s.root
		for part := range strings.SplitSeq(name, ".") {
			node = node.grow(part)
		}
		node.unread = false
	}
}

// want marks what is below n as read by nobody, unless names is nil.
func (n *jsonNode) want(names []string) {
	for _, row := range n.kids {
		for _, kid := range row {
			kid.unread = names != nil
			kid.want(names)
		}
	}
}
