package request

import "strings"

// Formats write addresses of the web piece by piece, with nothing between the pieces: $scheme://$host$request_uri,
// $uri$is_args$args, %U%q. Where one piece ends can be told all the same: a path begins with a slash, a query with a
// question mark. Such variables become one step.

// joinAddresses makes each variable one token with the pieces that follow right behind it.
func joinAddresses(tokens []token) []token {
	var joined []token
	var last *variable // the last piece of the token before
	for _, t := range tokens {
		switch {
		case t.variable == nil || last == nil:
			joined, last = append(joined, t), t.variable
		case t.name == "is_args" && last.slot == slotPath:
			// It is the question mark, and belongs to what follows.
		case !t.follows(last):
			joined, last = append(joined, t), t.variable
		default:
			t.begins = t.firstByte()
			last.next, last = t.variable, t.variable
		}
	}

	return joined
}

// follows tells whether it can be told where the variable before ends.
func (v *variable) follows(before *variable) bool {
	return v.firstByte() == '/' && (before.slot == slotHost || before.name == "server_port") ||
		v.firstByte() == '?' && before.slot == slotPath
}

// firstByte is what the variable's text begins with, when there is a text; 0 when that is not known.
func (v *variable) firstByte() byte {
	switch v.slot {
	case slotPath:
		return '/'
	case slotQuery:
		return '?'
	}
	return 0
}

// withNext adds the pieces that follow right behind a variable.
func withNext(variables []*variable) []*variable {
	var all []*variable
	for _, v := range variables {
		for ; v != nil; v = v.next {
			all = append(all, v)
		}
	}
	return all
}

// setter sets the variable and all that follow right behind it.
func (v *variable) setter() setter {
	if v.next == nil {
		return v.set
	}
	first, next := v.set, v.next.setter()
	mine, theirs := &step{name: v.name}, &step{name: v.next.name}
	begins := v.next.begins
	return func(_ *step, r *Request, text string) *Unread {
		end := strings.IndexByte(text, begins)
		if end < 0 {
			end = len(text)
		}
		if fault := first(mine, r, text[:end]); fault != nil {
			return fault
		}
		return next(theirs, r, text[end:])
	}
}
