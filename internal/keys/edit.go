package keys

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrName is what Add refuses a name with that is taken, and Remove one that there is not.
var ErrName = errors.New("no such name")

// Add writes a further key into a file, and makes the file where there is none. All else in the file stays as it is,
// comments too, unless it is written in a way that nothing can be added to: then all keys are written anew.
//
// The file is replaced as a whole, so that a reader sees the old or the new one, whatever happens meanwhile. A new one
// is for its owner alone; one that exists keeps its owner and mode, without what it grants to everyone. Several that
// change the files of one folder wait for each other.
func Add(path string, key Key) error {
	return change(path, func(text string, have []Key) (string, error) {
		for _, other := range have {
			if other.Name == key.Name {
				return "", fmt.Errorf("%s has a key of the name %s already; remove it, or give another name", path, key.Name)
			}
			if other.hash == key.hash {
				return "", fmt.Errorf("%s has this very key already, as %s", path, other.Name)
			}
		}
		return edited(path, append(slices.Clone(have), key), appended(text, key)), nil
	})
}

// Remove takes a key out of a file, as Add puts one in. The error is ErrName when there is none of the name.
func Remove(path, name string) error {
	return change(path, func(text string, have []Key) (string, error) {
		want := slices.DeleteFunc(slices.Clone(have), func(k Key) bool { return k.Name == name })
		if len(want) == len(have) {
			return "", fmt.Errorf("%s: %w: %s", path, ErrName, name)
		}
		return edited(path, want, without(text, name)...), nil
	})
}

// change replaces a file by what edit makes of it, under the lock of its folder.
func change(path string, edit func(text string, have []Key) (string, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the API keys: %w", err)
	}

	have, err := Parse(path, data)
	if err != nil {
		return fmt.Errorf("reading the API keys: %w", err)
	}

	text, err := edit(string(data), have)
	if err != nil {
		return err
	}
	return replace(path, []byte(text))
}

// edited is the first of the tries that reads as the keys wanted, else these keys and nothing else.
func edited(path string, want []Key, tries ...string) string {
	for _, text := range tries {
		if got, err := Parse(path, []byte(text)); err == nil && slices.Equal(got, want) {
			return text
		}
	}

	text := "keys:"
	if len(want) == 0 {
		text += " []"
	}

	for _, key := range want {
		text += "\n  - " + key.line()
	}
	return text + "\n"
}

// line is the key as a file holds it. Quotes keep a name such as null, and a hash of digits, what they are.
func (k Key) line() string {
	name, _ := json.Marshal(k.Name) // a text always can be
	return fmt.Sprintf("{name: %s, role: %s, sha256: %q}", name, k.Role, hex.EncodeToString(k.hash[:]))
}

// appended puts a key behind the last one of a list that is written a key to a dash.
func appended(text string, key Key) string {
	lines := splitLines(text)
	at, indent := -1, "  "
	for i, line := range lines {
		if before, ok := dash(line); ok {
			at, indent = endOf(lines, i), before
		} else if strings.HasPrefix(line, "keys:") {
			lines[i] = strings.Replace(line, " []", "", 1)
			at = i + 1
		}
	}

	if at < 0 {
		lines = append(lines, "keys:\n")
		at = len(lines)
	}
	return strings.Join(slices.Insert(lines, at, indent+"- "+key.line()+"\n"), "")
}

// without are the texts that come of leaving out one element that bears the name. Comments between elements stay.
func without(text, name string) []string {
	lines := splitLines(text)
	var tries []string
	for i, line := range lines {
		if _, ok := dash(line); !ok {
			continue
		}
		end := endOf(lines, i)
		if strings.Contains(strings.Join(lines[i:end], ""), name) {
			tries = append(tries, strings.Join(slices.Delete(slices.Clone(lines), i, end), ""))
		}
	}
	return tries
}

// endOf is behind the last line of the element that begins at a line.
func endOf(lines []string, begin int) int {
	end := begin + 1
	for i := begin + 1; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		if _, next := dash(lines[i]); next || strings.HasPrefix(lines[i], "keys:") {
			break
		}
		if trimmed != "" && trimmed[0] != '#' {
			end = i + 1
		}
	}
	return end
}

// dash says whether a line begins an element, and what stands before it.
func dash(line string) (indent string, ok bool) {
	rest := strings.TrimLeft(line, " ")
	return line[:len(line)-len(rest)], strings.HasPrefix(rest, "- ") || strings.TrimSpace(rest) == "-"
}

// splitLines are the lines with their ends, of which the last has one too.
func splitLines(text string) []string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	return lines[:len(lines)-1]
}
