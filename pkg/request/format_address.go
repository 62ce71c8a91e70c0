package request

import "strings"

// Formats write URLs piece by piece, with nothing between the pieces: $scheme://$host$request_uri, $uri$is_args$args,
// %U%q. The end of each piece can still be found: a path begins with a slash, a query with a question mark. Such
// variables become one step.

// joinAddresses joins each variable and the pieces that follow it directly to one token.
func joinAddresses(tokens []token) []token {
	var joined []token
	var last *variable // the last piece of the token before
	for _, t := range tokens {
		switch {
		case t.variable == nil || last == nil:
			joined, last = append(joined, t), t.variable
		case t.name == "is_args" && last.slot == slotPath:
			// It is the question mark and belongs to the next piece.
		case !t.follows(last):
			joined, last = append(joined, t), t.variable
		default:
			t.begins = t.firstByte()
			last.next, last = t.variable, t.variable
		}
	}

	return joined
}

// follows reports whether v marks the end of the variable before.
func (v *variable) follows(before *variable) bool {
	return v.firstByte() == '/' && (before.slot == slotHost || before.name == "server_port") ||
		v.firstByte() == '?' && before.slot == slotPath
}

// firstByte is the first byte of the variable's text, if there is a text; 0 when it is not known.
func (v *variable) firstByte() byte {
	switch v.slot {
	case slotPath:
		return '/'
	case slotQuery:
		return '?'
	}
	return 0
}

// withNext returns the variables and the pieces that follow them directly.
func withNext(variables []*variable) []*variable {
	var all []*variable
	for _, v := range variables {
		for ; v != nil; v = v.next {
			all = append(all, v)
		}
	}
	return all
}

// setter sets the variable and all that follow it directly.
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
		if unread := first(mine, r, text[:end]); unread != nil {
			return unread
		}
		return next(theirs, r, text[end:])
	}
}
