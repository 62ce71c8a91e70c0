package request

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A token is a piece of a format: a literal, or a variable.
type token struct {
	literal string
	*variable
}

// A variable is a value that a format can make a server write.
type variable struct {
	text      string // as written in the format, for messages
	name      string // as a further field
	slot      slot
	raw       bool // set undoes the escapes by itself
	always    bool // always read: its text may make a line unread
	rank      int  // decides which variable fills the slot when several could
	set       setter
	ending    ending      // endCLF, endList, endPattern: the variable has an end of its own
	pattern   timePattern // for endPattern
	better    slotSet     // for the request line
	next      *variable   // the variable that follows directly, with nothing between
	begins    byte        // the first byte of its text, if it has one, when it is a next
	took      setter      // of the request's duration; used where the format's time is its beginning
	beginning bool        // the time is that of the request's beginning
	loose     bool        // a client can write spaces into it, or the literal next to it; set by compile
	spaced    bool        // it may have spaces, which no client chooses or only older servers log; set by compile
	tells     bool        // it may say who the client is, or when; set by compile
}

// A layout is a format before it is compiled.
type layout struct {
	tokens   []token
	optional []token // follow the tokens, as far as the line has them
	escape   escape
	syslog   bool
	settled  bool      // its zones need no check: no client can move a field
	tail     bool      // a line may go on after the last token; the rest is the field moreField
	rest     *variable // takes a tail in another way
}

// moreField is the further field that takes the rest of a line behind a format with a tail.
const moreField = "more"

// rankRequestLine stands between the variables that are nearer to the client's text and those that are further from it.
const (
	rankServer = iota // the server made it
	rankRewritten
	rankRequestLine
	rankSent
	rankOption // named by Options.Fields
)

// compile makes the scanner of a layout.
func compile(l layout, o Options) (*scanner, error) {
	if l.tail {
		l.tokens = append(l.tokens, tailOf(l))
	}

	// Join before claimSlots changes the slots, which decide about the joining.
	required := len(variablesOf(joinAddresses(joinLiterals(l.tokens))))
	tokens := joinAddresses(joinLiterals(append(l.tokens, l.optional...)))

	// Refuse two adjacent variables when the end of the first one cannot be found.
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1].variable != nil && tokens[i].variable != nil {
			return nil, fmt.Errorf("nothing stands between %s and %s: so the end of the first cannot be found; put a space or quotes between them",
				tokens[i-1].text, tokens[i].text)
		}
	}

	findIdentity(tokens)
	variables := variablesOf(tokens)
	for i, t := range tokens {
		if t.variable != nil {
			t.spaced, t.tells = t.mayBeSpaced() || certificates.MatchString(t.name), t.mayTell()
			t.loose = t.fromClient() || t.unspaced(l.escape) && (t.mayHave(tokens[i+1:min(i+2, len(tokens))], l.escape) || i > 1 && t.mayHave(tokens[i-1:i], l.escape))
		}
	}

	spaced := len(tokens) > 0 && neverBeginsWithSpace(tokens[0])
	if err := claimSlots(variables, o); err != nil {
		return nil, err
	}
	measure(variables)
	s := &scanner{known: knownBefore(variables), required: required, escape: l.escape, syslog: l.syslog, spaced: spaced, free: -1, forgeable: o.forgeable, local: new(localTime)}
	if tokens[0].variable == nil {
		s.head, tokens = tokens[0].literal, tokens[1:]
	}

	for before := s.head; len(tokens) > 0; tokens = tokens[min(2, len(tokens)):] {
		literal := ""
		if len(tokens) > 1 {
			literal = tokens[1].literal
		}
		s.add(tokens[0].variable, before, literal, o.zone())
		before = literal
	}

	// For detection only, not for a format that escapes anything.
	switch {
	case l.settled || o.forgeable && s.escape != escapeNone:
	case s.escape == escapeHash:
		if err := s.refuseLoose(variables); err != nil {
			return nil, err
		}
	default:
		if err := s.addZones(variables); err != nil {
			return nil, err
		}
	}

	// A line that ends early is then a line that was cut off, not one of another format.
	last := &s.steps[len(s.steps)-1]
	if l.tail {
		last = &s.steps[len(s.steps)-2]
	}

	last.cuts = last.literal == `"` || len(l.optional) > 0 || l.tail
	return s, nil
}

// findIdentity marks Apache's %l where the user and the time follow it, as in the common log.
func findIdentity(tokens []token) {
	for i := range len(tokens) - 3 {
		identity, user := tokens[i], tokens[i+2]
		if identity.variable != nil && identity.name == "remote_logname" && tokens[i+1].literal == " " &&
			user.variable != nil && user.name == "remote_user" && tokens[i+3].literal == " [" {
			identity.ending = endIdentity
		}
	}
}

// neverBeginsWithSpace reports whether no line of a format that begins with this token begins with a space: a space there
// is not the server's. A relay of syslog adds one: rsyslog counts the space behind the tag to the message. Other fields
// may be empty, as nginx's $host for a request without one: without the space, the next field would take their place. A
// time may be padded.
func neverBeginsWithSpace(first token) bool {
	if v := first.variable; v != nil {
		return v.slot == slotIP && !v.fromClient()
	}
	return first.literal[0] != ' '
}

// tailOf is the token for the rest of a line behind the tokens.
func tailOf(l layout) token {
	switch {
	case l.rest != nil:
		return token{variable: l.rest}
	case strings.HasSuffix(l.tokens[len(l.tokens)-1].literal, " "):
		return token{variable: &variable{name: moreField, text: "the rest of the line", set: setFurther}}
	}
	return token{variable: &variable{name: moreField, text: "the rest of the line", always: true, set: setMore}}
}

// add makes the step of a variable between two literals.
func (s *scanner) add(v *variable, before, literal string, zone *time.Location) {
	st := step{name: v.name, literal: literal, ending: v.ending, missing: errFormat, better: v.better, pattern: v.pattern, local: zone, clf: new(clfMemory), twice: s.local}
	st.filledBy(v, v.setter())
	if v.slot == slotTime {
		st.missing = errTime
	}
	if !s.quoted && strings.HasSuffix(before, `"`) {
		s.quoted, s.asks = true, v.slot == slotRequestLine
	}

	// endQuote knows quotes that are escaped. With other escapes the literal alone ends the field.
	quoted := (s.escape == escapeBackslash || s.escape == escapeHash) && strings.HasSuffix(before, `"`) && strings.HasPrefix(literal, `"`)
	// The order matters. Times and request lines know their own end. Then the line's end and a quote are sure, whatever
	// the variable is. A list is tried last.
	switch {
	case v.ending == endCLF || v.ending == endPattern || v.ending == endWords:
	case literal == "":
		st.ending = endLine
	case quoted:
		st.ending = endQuote
	case v.ending == endList:
	case v.slot == slotForwarded:
		st.ending = endList
	}

	s.steps = append(s.steps, st)
}

// joinLiterals merges adjacent literals and drops empty ones.
func joinLiterals(tokens []token) []token {
	var joined []token
	for _, t := range tokens {
		last := len(joined) - 1
		switch {
		case t.variable == nil && t.literal == "":
		case t.variable == nil && last >= 0 && joined[last].variable == nil:
			joined[last].literal += t.literal
		default:
			joined = append(joined, t)
		}
	}
	return joined
}

func variablesOf(tokens []token) []*variable {
	var variables []*variable
	for _, t := range tokens {
		if t.variable != nil {
			variables = append(variables, t.variable)
		}
	}
	return variables
}

// claimSlots decides which variable fills which slot. All others become further fields.
func claimSlots(variables []*variable, o Options) error {
	variables = withNext(variables)
	if err := renamed(variables, o.Fields); err != nil {
		return err
	}

	var best [slots]*variable
	for _, v := range variables {
		if v.slot != slotNone && (best[v.slot] == nil || v.rank > best[v.slot].rank) {
			best[v.slot] = v
		}
	}

	// Without a time nothing can be counted; without a client a rule may still count by user.
	if best[slotTime] == nil {
		return fmt.Errorf("the format has no time: add one ($time_iso8601 or $msec in nginx, %%t in Apache)")
	}

	// The request line has method, path and query as the client sent them. Only a variable that is nearer to that is
	// better; then the line must not overwrite it.
	if line := best[slotRequestLine]; line != nil {
		for _, s := range []slot{slotMethod, slotPath, slotQuery} {
			if best[s] != nil && best[s].rank > rankRequestLine {
				line.better = line.better.with(s)
			} else {
				best[s] = nil
			}
		}
	}

	for _, v := range variables {
		if v.slot != slotNone && v != best[v.slot] {
			v.slot, v.set = slotNone, setFurther
		}
	}

	return nil
}

// renamed assigns the fields of the options to variables.
func renamed(variables []*variable, fields map[string]string) error {
	for _, ours := range slices.Sorted(maps.Keys(fields)) {
		theirs := fields[ours]
		at := slices.IndexFunc(variables, func(v *variable) bool { return v.name == strings.TrimPrefix(theirs, "$") })
		if at < 0 {
			return fmt.Errorf("field %s: the format has no %s; it has %s", ours, theirs, namesOf(variables))
		}

		// The user's word for a field is stronger than the variable's own meaning, and than every rank.
		v := variables[at]
		if word, ok := settersByWord[ours]; ok {
			v.slot, v.rank, v.set = word.slot, rankOption, word.set
		} else {
			v.name, v.slot, v.set = ours, slotNone, setFurther
		}
	}

	return nil
}

func namesOf(variables []*variable) string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	return strings.Join(names, ", ")
}
