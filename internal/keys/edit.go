package keys

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/regular"
)

// ErrName refuses a name for Add that is taken, and a name for Remove that does not exist.
var ErrName = errors.New("no such name")

// Add adds a key to a file, and creates a missing file. All else in the file stays as it is, including comments. Only
// when the file's form allows no addition, all keys are written again.
//
// The file is replaced at once, so a reader always sees the complete old or the complete new one. A new file is for its
// owner alone; an existing one keeps its owner and mode, without permissions for everyone. Processes that change the
// files of one folder wait for each other.
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

// Remove removes a key from a file, under the same rules as Add. The error is ErrName when there is no such name.
func Remove(path, name string) error {
	return change(path, func(text string, have []Key) (string, error) {
		want := slices.DeleteFunc(slices.Clone(have), func(k Key) bool { return k.Name == name })
		if len(want) == len(have) {
			return "", fmt.Errorf("%s: %w: %s", path, ErrName, name)
		}
		return edited(path, want, without(text, name)...), nil
	})
}

// change replaces a file by the result of edit, under the lock of its folder.
func change(path string, edit func(text string, have []Key) (string, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays a link
	}

	// The folder's lock, because the file itself is replaced. The file is read under it, or another program's change
	// would be lost.
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	data, err := regular.ReadFile(path)
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
	return writeFile(path, []byte(text))
}

// edited returns the first of the tries that reads as the wanted keys, or a file of just these keys.
func edited(path string, want []Key, tries ...string) string {
	// Texts are changed line by line, without a YAML writer, to keep comments. So each try is read again, and counts
	// only if it means what was wanted.
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

// line returns the key's line in a file. Quotes keep a name such as null, and a hash of digits, as text.
func (k Key) line() string {
	name, _ := json.Marshal(k.Name) // a text can always be encoded
	return fmt.Sprintf("{name: %s, role: %s, sha256: %q}", name, k.Role, hex.EncodeToString(k.hash[:]))
}

// appended adds a key after the last one of a list that has one dash per key.
func appended(text string, key Key) string {
	lines := splitLines(text)
	at, indent := -1, "  "
	for i, line := range lines {
		if before, ok := dash(line); ok {
			at, indent = endOf(lines, i), before
		} else if strings.HasPrefix(line, "keys:") {
			// An empty list has brackets, which would contradict the elements below.
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

// without returns the texts that result from removing one element with the name. Comments between elements stay.
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

// endOf returns the line after the element that begins at a line.
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

// dash reports whether a line begins an element, and returns its indentation.
func dash(line string) (indent string, ok bool) {
	rest := strings.TrimLeft(line, " ")
	return line[:len(line)-len(rest)], strings.HasPrefix(rest, "- ") || strings.TrimSpace(rest) == "-"
}

// splitLines returns the lines with their line ends; the last one gets one too.
func splitLines(text string) []string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := strings.SplitAfter(text, "\n")
	return lines[:len(lines)-1]
}
