package rule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/internal/yamlfile"
)

// A Key defines the value that a rule counts by: one part of the request, or several.
type Key struct {
	parts  []part
	secret *secret          // of the parts that are hashed; nil hashes none
	places []yamlfile.Fault // of the parts, where the key stands in a file
}

type part struct {
	name string // ip, user, host … or the name of a further field
	// The number of bits of an address that count.
	bits4, bits6 int
	secret       bool // it is hashed
}

// The number of bits of an address that count by default.
const (
	defaultBits4 = 32
	defaultBits6 = 64
	maxParts     = 8
)

var (
	keyWords  = []string{"ip", "user", "host", "path", "raw_path", "method", "query", "status", "agent", "referrer"}
	fieldName = regexp.MustCompile(`^[\pL_@$][\pL\pN_@$.:-]*$`)
)

// ParseKey reads the parts of a key: ip, ip/24+56 (bits of IPv4 and IPv6; ip/24 leaves IPv6 at 64), user, host, path,
// method, query, status, agent, referrer, or the name of any further field. A word may contain several parts with
// commas between them.
func ParseKey(words ...string) (Key, error) {
	var k Key
	var errs []error
	for _, word := range strings.Split(strings.Join(words, ","), ",") {
		p, err := parsePart(strings.TrimSpace(word))
		if err == nil && k.has(p.name) {
			err = fmt.Errorf("the key names %s twice; leave one of them out", p.name)
		}
		if err != nil {
			errs = append(errs, err)
		}
		k.parts = append(k.parts, p)
	}

	if len(k.parts) > maxParts {
		errs = append(errs, fmt.Errorf("a key of %d parts is too long; name at most %d", len(k.parts), maxParts))
	}
	return k, errors.Join(errs...)
}

func (k Key) has(name string) bool {
	return slices.ContainsFunc(k.parts, func(p part) bool { return p.name == name })
}

func parsePart(word string) (part, error) {
	if bits, masked := strings.CutPrefix(word, "ip/"); masked {
		first, second, both := strings.Cut(bits, "+")
		p := part{name: "ip", bits4: defaultBits4, bits6: defaultBits6}
		var err4, err6 error
		p.bits4, err4 = parseMask(first, 32)
		if both {
			p.bits6, err6 = parseMask(second, 128)
		}
		if err4 != nil || err6 != nil {
			return p, fmt.Errorf("%q has no such prefixes; write ip/24+56, with 1 to 32 bits of IPv4 and 1 to 128 of IPv6", word)
		}
		return p, nil
	}
	switch {
	case word == "":
		return part{}, errors.New("the key is empty; write what to count by, such as ip or user")
	case word == "ip":
		return part{name: "ip", bits4: defaultBits4, bits6: defaultBits6}, nil
	case word == "bytes" || word == "time":
		return part{}, fmt.Errorf("%s cannot be a key; count by ip, user, host, path or another field", word)
	case strings.Contains(word, "/"):
		return part{}, fmt.Errorf("%q is no key: only ip has prefixes; write ip/24+56 for them", word)
	case !fieldName.MatchString(word):
		return part{}, fmt.Errorf("%q is no name of a field; count by ip, user, host, path or another field", word)
	}

	return part{name: word}, nil
}

func parseMask(text string, most int) (int, error) {
	bits, err := strconv.Atoi(text)
	if err != nil || bits < 1 || bits > most || text != strconv.Itoa(bits) {
		return 0, errors.New("no mask")
	}
	return bits, nil
}

// Words are the parts of the key as ParseKey reads them, prefixes written out where they are not the default.
func (k Key) Words() []string {
	words := make([]string, len(k.parts))
	for i, p := range k.parts {
		words[i] = p.name
		if p.name == "ip" && (p.bits4 != defaultBits4 || p.bits6 != defaultBits6) {
			words[i] = fmt.Sprintf("ip/%d+%d", p.bits4, p.bits6)
		}
	}
	return words
}

// String is the words with commas between them.
func (k Key) String() string { return strings.Join(k.Words(), ",") }

// FromYAML reads one word or a list of them.
func (k *Key) FromYAML(v yamlfile.Value) {
	elements := v.OneOrMore()
	if len(elements) == 0 {
		v.Faultf("write what to count by, such as ip or user", "the key is empty")
	}

	for _, element := range elements {
		k.add(element)
	}
	if len(k.parts) > maxParts {
		v.Faultf(fmt.Sprintf("name at most %d", maxParts), "a key of %d parts is too long", len(k.parts))
	}
}

func (k *Key) add(v yamlfile.Value) {
	word := v.Text()
	if v.Faulty() {
		return
	}

	p, err := parsePart(word)
	switch {
	case strings.Contains(word, ","):
		v.Faultf("write ["+strings.Join(strings.FieldsFunc(word, comma), ", ")+"]", "%q has several parts in one word", word)
	case err != nil:
		v.Fault(err)
	case k.has(p.name):
		v.Faultf("leave one of them out", "the key names %s twice", p.name)
	}

	k.parts, k.places = append(k.parts, p), append(k.places, v.Place())
}

func comma(r rune) bool { return r == ',' || r == ' ' }
