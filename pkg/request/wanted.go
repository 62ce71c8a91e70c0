package request

import (
	"slices"
	"strings"
)

// Most rules read a few fields of a request only. Of a field without a reader only its end is searched, unless its text
// can make a line unread.

// slotFields are the fields that a slot fills. Slots that are not here are always filled: their text may make a line
// unread, or they identify the client.
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

// alwaysFields are the fields of slots that are always filled.
var alwaysFields = [slots][]string{slotIP: {"ip"}, slotStatus: {"status"}, slotBytes: {"bytes"}, slotForwarded: {"ip"}}

// fields are the fields of the variable and of all that follow it directly. With always, it is filled without a reader
// too.
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

// filledBy makes the step fill the fields of a variable, with a setter.
func (s *step) filledBy(v *variable, set setter) {
	s.set, s.filler, s.raw = set, set, v.raw
	s.fields, s.always = v.fields()
	s.part = partOf(v)
	for ; v != nil; v = v.next {
		if v.slot == slotNone {
			s.fills = append(s.fills, v.name)
		} else {
			s.fills = append(s.fills, slotFields[v.slot]...)
			s.fills = append(s.fills, alwaysFields[v.slot]...)
		}
	}
}

// want makes the step fill its fields if one of them is among the names; nil means all.
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

// want makes the scan learn these paths only; nil means every path that occurs.
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

// want sets that no reader needs the paths below n, unless names is nil.
func (n *jsonNode) want(names []string) {
	for _, row := range n.kids {
		for _, kid := range row {
			kid.unread = names != nil
			kid.want(names)
		}
	}
}
