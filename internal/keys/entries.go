package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/yamlfile"
)

// entries are the keys of a file.
type entries []Key

// FromYAML reads a list of keys. Names identify people, so each is unique.
func (e *entries) FromYAML(v yamlfile.Value) {
	*e = nil
	elements, ok := v.List()
	if !ok && !v.Null() {
		v.Faultf("write keys: [{name: edge-1, role: send, sha256: …}]", "%s where a list of keys is expected", v.Found())
	}

	names, hashes := map[string]bool{}, map[[sha256.Size]byte]string{}
	for _, element := range elements {
		key, ok := readEntry(element)
		if !ok {
			continue
		}
		if names[key.Name] {
			element.Key("name").Faultf("give each its own", "two keys have the name %s", key.Name)
		}
		if other, taken := hashes[key.hash]; taken {
			element.Key("sha256").Faultf("make a key for each", "%s and %s are the same key", other, key.Name)
		}

		// Kept after an error too, so that further mistakes are found.
		names[key.Name], hashes[key.hash] = true, key.Name
		*e = append(*e, key)
	}
}

// readEntry reads one key; ok is false when it has an error.
func readEntry(v yamlfile.Value) (key Key, ok bool) {
	var entry struct {
		Name   string   `yaml:"name"`
		Role   roleText `yaml:"role"`
		SHA256 hashText `yaml:"sha256"`
	}

	if !v.Decode(&entry) {
		return Key{}, false
	}
	for _, name := range []string{"name", "role", "sha256"} {
		if !v.Has(name) {
			v.Faultf("add "+name, "the key has no %s", name)
			return Key{}, false
		}
	}

	if strings.TrimSpace(entry.Name) == "" {
		v.Key("name").Faultf("write who holds the key", "the name is empty")
		return Key{}, false
	}
	return Key{entry.Name, Role(entry.Role), entry.SHA256}, true
}

type roleText Role

// FromYAML reads a role.
func (r *roleText) FromYAML(v yamlfile.Value) {
	*r = roleText(v.Text())
	if !slices.Contains(Roles(), Role(*r)) {
		v.Faultf(nearest.Suggest(string(*r), roleNames(), "write one of "), "the role %q is not known", string(*r))
	}
}

type hashText [sha256.Size]byte

// FromYAML reads a SHA-256.
func (h *hashText) FromYAML(v yamlfile.Value) {
	text := v.Text()
	sum, err := hex.DecodeString(text)
	switch {
	case v.Faulty():
	case err != nil || len(sum) != len(h):
		v.Faultf("write the 64 hexadecimal digits that sha256sum gives for the key, without a line end after it", "this is not a SHA-256")
	case [sha256.Size]byte(sum) == sha256.Sum256(nil):
		v.Faultf("hash the key itself", "this is the SHA-256 of nothing")
	default:
		copy(h[:], sum)
	}
}
