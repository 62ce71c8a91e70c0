package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secretBytes is the number of random bytes in a key.
const secretBytes = 32

// shortest is the least length of a key that was made elsewhere: about 128 bits in any usual encoding.
const shortest = 22

// MakeSecret makes a key: 32 random bytes in 43 letters, digits, dashes and underscores, so it needs no quoting in a
// URL, a header or a shell. It never begins with a dash.
func MakeSecret() string {
	for {
		var b [secretBytes]byte
		_, _ = rand.Read(b[:]) // never fails: it would end the process instead
		if secret := base64.RawURLEncoding.EncodeToString(b[:]); secret[0] != '-' {
			return secret
		}
	}
}

// New makes a key with the given secret. It refuses a secret that a header could not carry or that could be guessed.
func New(name string, role Role, secret string) (Key, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return Key{}, errors.New("the key's name is empty; write who holds it")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return Key{}, fmt.Errorf("the name %q has characters that cannot be printed", name)
	case !slices.Contains(Roles(), role):
		return Key{}, fmt.Errorf("the role %q is not known; write one of %s", role, strings.Join(roleNames(), ", "))
	case len(secret) < shortest:
		return Key{}, fmt.Errorf("a key of %d characters can be guessed; use %d or more, at random", len(secret), shortest)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Key{}, errors.New("the key has a space or a character outside ASCII, which a header cannot carry")
	}

	return Key{name, role, sha256.Sum256([]byte(secret))}, nil
}

// Roles returns all roles.
func Roles() []Role { return []Role{Read, Write, Send, Take, Admin} }

func roleNames() []string {
	var names []string
	for _, role := range Roles() {
		names = append(names, string(role))
	}
	return names
}
