package rule

import (
	"fmt"
	"strings"

	"weir/internal/keytext"
	"weir/internal/network"
)

// Fields splits a canonical key into its parts, by their names, as the requests had them. If the key was cut, the part
// at the cut ends in "…#" and the hash, and the parts behind it are left out.
func (k Key) Fields(key string) map[string]string {
	fields := make(map[string]string, len(k.parts))
	if len(k.parts) == 1 {
		fields[k.parts[0].name] = unescape(key)
		return fields
	}
	for i, text := range strings.Split(key, " ") {
		if i < len(k.parts) {
			fields[k.parts[i].name] = unescape(text)
		}
	}
	return fields
}

// unescape undoes keytext.Append.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], `\\`):
			b = append(b, '\\')
			i++
		case strings.HasPrefix(text[i:], `\x`) && len(text) >= i+4:
			b = append(b, hexDigit(text[i+2])<<4|hexDigit(text[i+3]))
			i += 3
		// A backslash that begins no escape stays: a person may have typed the key.
		default:
			b = append(b, text[i])
		}
	}

	return string(b)
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// Canonical is the canonical form of a key that a person typed: addresses and prefixes in the form that the rule counts
// (an IPv6 address becomes its /64), hosts in lower case, secrets as their hashes, the rest unchanged. A canonical key stays the same.
func (k Key) Canonical(typed string) (string, error) {
	words := []string{strings.TrimSpace(typed)}
	if len(k.parts) > 1 {
		words = strings.Fields(typed)
	}

	// A key that was cut has lost the parts behind the cut.
	if len(words) > len(k.parts) || len(words) < len(k.parts) && !strings.Contains(typed, keytext.CutMark) {
		return "", fmt.Errorf("%q has %d parts; write %s with a space between", typed, len(words), strings.Join(k.Words(), " and "))
	}

	for i := range words {
		if words[i] == "" {
			return "", fmt.Errorf("the key is empty; write %s", strings.Join(k.Words(), " and "))
		}
		if k.parts[i].secret {
			words[i] = k.canonicalSecret(words[i])
			continue
		}
		switch k.parts[i].name {
		case "ip":
			address, err := k.parts[i].canonicalAddress(words[i])
			if err != nil {
				return "", err
			}
			words[i] = address
		case "host":
			// With an escape it is a canonical key already, and escaping it again would make another one.
			if !strings.Contains(words[i], `\`) {
				words[i] = string(appendHost(nil, words[i], len(words) > 1))
			}
		}
	}

	return strings.Join(words, " "), nil
}

func (p *part) canonicalAddress(typed string) (string, error) {
	prefix, err := network.Parse(typed)
	if err != nil {
		return "", err
	}
	bits := p.bits6
	if prefix.Addr().Is4() {
		bits = p.bits4
	}
	if prefix.Bits() < bits {
		return "", fmt.Errorf("%s is wider than the /%d that the rule counts by; block the prefix itself instead", prefix, bits)
	}
	return string(p.appendAddress(nil, prefix.Addr())), nil
}
