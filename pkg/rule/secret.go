package rule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/maphash"
	"slices"
	"strings"
	"unsafe"

	"weir/internal/keytext"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/request"
)

// Rules with secret: true count by a keyed hash of a secret value instead of the value, so that no part ever stores or
// shows it. Every part makes the same hash, because all of them have the key.

const (
	hiddenMark   = "#"
	hiddenDigits = 20 // 80 bits of HMAC-SHA256: of a billion values, two have one hash with a probability of 1 to a million
	// leastSecret is the least length of the key in bytes, and mostSecret the greatest.
	leastSecret = 16
	mostSecret  = 4096
)

// openParts are the parts of keys that are no secrets of clients.
var openParts = []string{"ip", "host", "path", "raw_path", "method", "status"}

// A secret is the key of the hashes. It has no bytes when a tool could not read its file: then it makes no hashes, and no
// keys either.
type secret struct{ key []byte }

// Hidden is the hash that stands for a value.
func (s *secret) hidden(value string) string {
	var h hider
	return string(h.append(nil, s, value))
}

// isHidden reports whether a text has the form of a hash.
func isHidden(text string) bool {
	digits, ok := strings.CutPrefix(text, hiddenMark)
	return ok && len(digits) == hiddenDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// A hider makes hashes, and remembers some: those of keys that are asked for again and again.
type hider struct {
	of    *secret
	mac   hash.Hash
	value []byte // that is hashed
	sum   [sha256.Size]byte
	seed  maphash.Seed
	known [64]hiddenValue // by a hash of the value
}

// A hiddenValue is a value and the hash that stands for it. Longer values are not remembered.
type hiddenValue struct {
	value  [64]byte
	size   int // 0 is none
	hidden [len(hiddenMark) + hiddenDigits]byte
}

// append appends the hash of a value.
func (h *hider) append(b []byte, of *secret, value string) []byte {
	if of.key == nil || value == "" {
		return b
	}
	if h.of != of {
		*h = hider{of: of, mac: hmac.New(sha256.New, of.key), seed: maphash.MakeSeed()}
	}
	known := &h.known[maphash.String(h.seed, value)%uint64(len(h.known))]
	if known.size > 0 && string(known.value[:known.size]) == value {
		return append(b, known.hidden[:]...)
	}

	h.value = append(h.value[:0], value...)
	h.mac.Reset()
	h.mac.Write(h.value)
	sum := h.mac.Sum(h.sum[:0])
	b = append(b, hiddenMark...)
	b = hex.AppendEncode(b, sum[:hiddenDigits/2])
	if len(value) <= len(known.value) {
		known.size = copy(known.value[:], value)
		copy(known.hidden[:], b[len(b)-len(known.hidden):])
	}
	return b
}

// appendHidden appends the hash of a part of the key. Records of attempts have hashes already.
func (s *subject) appendHidden(b []byte, of *secret, name string) []byte {
	value := secretOf(s.Request, name)
	if f, ok := geoip.FieldOf(name); ok && s.finder.Has(f) {
		value = s.placeText(f)
	}
	if s.Take != nil && isHidden(value) {
		return append(b, value...)
	}
	return s.hide(b, of, value)
}

func (s *subject) hide(b []byte, of *secret, value string) []byte {
	if s.hider == nil {
		s.hider = new(hider)
	}
	return s.hider.append(b, of, value)
}

// secretOf is the value of a field that may be secret.
func secretOf(r *request.Request, name string) string {
	switch name {
	case "user":
		return r.User
	case "query":
		return r.Query
	case "agent":
		return r.Agent
	case "referrer":
		return r.Referrer
	}
	return field(r, name)
}

// hiding is the key with hashes of its secret parts.
func (k Key) hiding(s *secret) Key {
	k.secret, k.parts = s, slices.Clone(k.parts)
	for i := range k.parts {
		k.parts[i].secret = !slices.Contains(openParts, k.parts[i].name)
	}
	return k
}

// canonicalSecret is the form of a secret part that a person typed: its hash, unless it is one. In a list, spaces are
// escaped.
func (k Key) canonicalSecret(typed string) string {
	if isHidden(typed) || k.secret.key == nil {
		return typed
	}
	if len(k.parts) > 1 {
		if strings.Contains(typed, keytext.CutMark) {
			return typed
		}
		typed = unescape(typed)
	}
	return k.secret.hidden(typed)
}

// Hides reports whether the values of a field are secret: a rule with secret: true counts by it.
func (s *Set) Hides(field string) bool { return slices.Contains(s.hides, field) }

// HiddenValue is the form in which entries have a value of a field: its hash if the field is secret.
func (s *Set) HiddenValue(field, value string) string {
	if !s.Hides(field) || isHidden(value) || s.secret.key == nil {
		return value
	}
	return s.secret.hidden(value)
}

// HiddenKeys are the forms in which entries may have a key that a person typed, if it has a secret in it.
func (s *Set) HiddenKeys(typed string) (keys []string) {
	if s.secret == nil {
		return nil
	}
	add := func(key string) {
		if key != typed && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if name, value, ok := strings.Cut(typed, ":"); ok {
		add(name + ":" + s.HiddenValue(name, value))
	}
	for _, r := range s.Rules {
		if !r.Secret {
			continue
		}
		if key, err := r.Key.Canonical(typed); err == nil {
			add(key)
		}
	}
	return keys
}

// Hide appends the form in which entries have a value of a field, which is hidden then.
func (j *Judge) Hide(b []byte, value string) (grown []byte, hidden string) {
	start := len(b)
	if b = j.subject.hide(b, j.set.secret, value); len(b) == start {
		return b, ""
	}
	return b, unsafe.String(&b[start], len(b)-start)
}

// shortSecret is the length below which a value is not searched in other texts.
const shortSecret = 3

// A shownSecret is the value of a secret field of a request that is shown.
type shownSecret struct{ name, value string }

// Masked is a request to be stored or shown: without the values of secret fields in its user, path, query and agent. It
// is r itself where there are none, and else valid until the next call. Further fields stay as they are.
func (j *Judge) Masked(r *request.Request) *request.Request {
	shown := r
	j.masks, j.secrets = j.masks[:0], j.secrets[:0]
	for _, name := range j.set.hides {
		if value := secretOf(r, name); value != "" && (r.Take == nil || !isHidden(value)) {
			j.secrets = append(j.secrets, shownSecret{name, value})
		}
	}
	// A secret may be a part of another one, whose rest would be shown if that part were masked first.
	slices.SortStableFunc(j.secrets, func(a, b shownSecret) int { return len(b.value) - len(a.value) })

	for _, one := range j.secrets {
		name, value := one.name, one.value
		texts := [...]string{shown.User, shown.Path, shown.Query, shown.Agent}
		for i, text := range texts {
			if i == 0 && name != "user" {
				continue
			}
			texts[i] = j.mask(text, value)
		}
		if texts[1] == shown.Path && j.isEncoded(r, value) {
			texts[1] = "/***"
		}
		if texts[3] == shown.Agent && len(value) >= shortSecret && j.encodes(shown.Agent, value) {
			texts[3] = "***"
		}
		if texts == [...]string{shown.User, shown.Path, shown.Query, shown.Agent} {
			continue
		}
		if shown == r {
			j.masked = *r
			shown = &j.masked
		}
		shown.User, shown.Path, shown.Query, shown.Agent = texts[0], texts[1], texts[2], texts[3]
	}
	return shown
}

// isEncoded reports whether the path has a value in another spelling.
func (j *Judge) isEncoded(r *request.Request, value string) bool {
	return len(value) >= shortSecret && strings.Contains(r.Path, "%") && strings.Contains(j.Path(r), value)
}

// encodes reports whether a text has a value in which bytes are written as %XX or %25XX, and spaces perhaps as +.
func (j *Judge) encodes(text, value string) bool {
	for range 2 {
		if !strings.Contains(text, "%") {
			break
		}
		text = j.unescaped(text)
		if strings.Contains(text, value) {
			return true
		}
	}
	return strings.Contains(text, "+") && strings.Contains(j.spaced(text), value)
}

// unescaped is a text with the bytes that its %XX stand for. A % without two hex digits stands for itself.
func (j *Judge) unescaped(text string) string {
	start := len(j.masks)
	for i := 0; i < len(text); i++ {
		var b [1]byte
		if text[i] == '%' && i+2 < len(text) {
			if _, err := hex.Decode(b[:], []byte(text[i+1:i+3])); err == nil {
				j.masks = append(j.masks, b[0])
				i += 2
				continue
			}
		}
		j.masks = append(j.masks, text[i])
	}
	return unsafe.String(&j.masks[start], len(j.masks)-start)
}

// spaced is a text with spaces for its +.
func (j *Judge) spaced(text string) string {
	start := len(j.masks)
	for i := range len(text) {
		if text[i] == '+' {
			j.masks = append(j.masks, ' ')
			continue
		}
		j.masks = append(j.masks, text[i])
	}
	return unsafe.String(&j.masks[start], len(j.masks)-start)
}

// mask is a text without a value: the hash of the value if that is all of it, and else with *** for it.
func (j *Judge) mask(text, value string) string {
	start := len(j.masks)
	switch {
	case text == value:
		var hidden string
		j.masks, hidden = j.Hide(j.masks, value)
		return hidden
	case len(value) < shortSecret || !strings.Contains(text, value):
		return text
	}
	for {
		before, after, found := strings.Cut(text, value)
		j.masks = append(j.masks, before...)
		if !found {
			return unsafe.String(&j.masks[start], len(j.masks)-start)
		}
		j.masks, text = append(j.masks, "***"...), after
	}
}

// A secretFileSpec is the path of the file with the key of the hashes.
type secretFileSpec struct {
	path  string
	place yamlfile.Value
	given bool
}

// FromYAML reads the path.
func (s *secretFileSpec) FromYAML(v yamlfile.Value) {
	if s.path = v.Text(); s.path == "" && !v.Faulty() {
		v.Faultf("write the path of a file", "the path is empty")
	}
	s.place, s.given = v, !v.Faulty()
}

// checkSecret finds a secret rule whose key has nothing to hide.
func (r *ruleSpec) checkSecret(v yamlfile.Value) {
	if !r.Secret || v.Key("key").Faulty() || len(r.Key.parts) == 0 {
		return
	}
	if !slices.ContainsFunc(slices.Concat(r.Key.parts, r.Distinct.parts), func(p part) bool { return !slices.Contains(openParts, p.name) }) {
		v.Key("secret").Faultf("leave it out", "secret: true hides users, headers and other fields, and the key has only %s", r.Key)
	}
}

// addSecret keeps a file's secret_file, which is for all rules of the set.
func (l *loader) addSecret(s secretFileSpec, file string) {
	switch {
	case !s.given:
	case l.secret == nil:
		l.secret, l.secretOf = &s, file
	case l.secret.path != s.path:
		fault, first := s.place.Place(), l.secret.place.Place()
		fault.What = fmt.Sprintf("secret_file differs from the one at %s:%d", first.File, first.Line)
		fault.Remedy = "write secret_file once: it is for all rules that are read together"
		l.faults = append(l.faults, fault)
	}
}

// hide makes the rules with secret: true count by hashes.
func (l *loader) hide(set *Set) {
	first := slices.IndexFunc(set.Rules, func(r *Rule) bool { return r.Secret || r.CountsDistinct() && l.secret != nil })
	if first < 0 {
		return
	}
	if l.secret == nil && len(l.faults) > 0 {
		return // it may be one of them
	}
	if l.secret == nil {
		fault := set.Rules[first].place
		fault.What = "the rule " + set.Rules[first].Name + " has secret: true, and there is no key for the hashes"
		fault.Remedy = "write secret_file: and a path at the top of the file, and make that file: openssl rand -hex 32"
		l.faults = append(l.faults, fault)
		return
	}

	set.secret = l.readSecret()
	for _, r := range set.Rules {
		if r.CountsDistinct() {
			r.valuesBy = set.secret
		}
		if !r.Secret {
			continue
		}
		r.Key = r.Key.hiding(set.secret)
		r.refusals = r.countsRefusals()
		for _, p := range slices.Concat(r.Key.parts, r.Distinct.hiding(set.secret).parts) {
			if p.secret && !slices.Contains(set.hides, p.name) {
				set.hides = append(set.hides, p.name)
			}
		}
	}
}

// readSecret reads the key of the hashes.
func (l *loader) readSecret() *secret {
	fault := l.secret.place.Place()
	fault.Remedy = "make it with openssl rand -hex 32"
	name, text, err := l.read(l.secretOf, l.secret.path)
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil && l.lenient:
		l.warn(fault, err.Error(), "parts need it; here the rules have no fingerprint, and secret rules count nothing")
		return &secret{}
	case err != nil:
		fault.What = err.Error()
	case len(key) < leastSecret || len(key) > mostSecret:
		fault.What = fmt.Sprintf("the key in %s has %d bytes; it needs %d to %d", name, len(key), leastSecret, mostSecret)
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		fault.What = fmt.Sprintf("the key in %s has characters that are not printable", name)
	default:
		return &secret{[]byte(key)}
	}
	l.faults = append(l.faults, fault)
	return &secret{}
}

// sum is a hash of the key for fingerprints; empty without a key.
func (s *secret) sum() string {
	if s == nil || s.key == nil {
		return ""
	}
	return s.hidden("fingerprint")
}

// secretWords are in the names of fields that are probably secrets.
var secretWords = []string{"authorization", "api_key", "api-key", "apikey", "token", "secret", "password", "session", "sessid", "jwt", "bearer", "credential"}

// secretField reports whether a part of a key is a secret by its name, or in another rule.
func secretField(set *Set) func(part) bool {
	return func(p part) bool {
		name := strings.ToLower(p.name)
		return set.Hides(p.name) || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
	}
}

// exposed warns of rules whose keys show a secret wherever they are stored.
func (l *loader) exposed(set *Set) {
	for _, r := range set.Rules {
		if r.Secret {
			continue
		}
		if of := slices.IndexFunc(r.Distinct.parts, secretField(set)); of >= 0 && set.secret == nil {
			l.warn(r.place, fmt.Sprintf("the rule %s counts different values of %s, which looks like a secret: topics have a hash of each, and short ones can be guessed", r.Name, r.Distinct.parts[of].name),
				"write secret: true in the rule, and secret_file: at the top of the file")
		}
		at := slices.IndexFunc(r.Key.parts, secretField(set))
		if at < 0 {
			continue
		}
		name, remedy := r.Key.parts[at].name, "write secret: true in the rule"
		what := fmt.Sprintf("the rule %s counts by %s, which is secret in another rule: topics, lists and logs have it in clear", r.Name, name)
		if !set.Hides(name) {
			what = fmt.Sprintf("the rule %s counts by %s, which looks like a secret: topics, lists and logs have it in clear", r.Name, name)
			remedy += ", and secret_file: at the top of the file"
		}
		l.warn(r.place, what, remedy)
	}
}
