package keys

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const secret = "0123456789abcdefghijklmn"

func made(t *testing.T, name string, role Role, secret string) Key {
	t.Helper()
	key, err := New(name, role, secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestMakeSecret(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s := MakeSecret()
		if len(s) != 43 || s[0] == '-' || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || seen[s] {
			t.Fatalf("%q", s)
		}
		seen[s] = true
	}
}

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct{ name, role, secret, says string }{
		{" ", "read", secret, "name is empty"},
		{"a\nb", "read", secret, "cannot be printed"},
		{"a", "reed", secret, `the role "reed" is not known; write one of read, write, send, take, admin`},
		{"a", "read", "secret", "a key of 6 characters can be guessed"},
		{"a", "read", secret + " " + secret, "a space"},
		{"a", "read", secret + "ä", "outside ASCII"},
	} {
		if _, err := New(test.name, Role(test.role), test.secret); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// The contents of a file before and after a key is added; <key> is the place of the new key.
func TestAddKeepsTheFilesText(t *testing.T) {
	old := `{name: old, role: read, sha256: "` + hashOf("o") + `"}`
	for _, test := range []struct{ name, before, after string }{
		{"empty", "", "keys:\n  - <key>\n"},
		{"comments only", "# who may what\n", "# who may what\nkeys:\n  - <key>\n"},
		{"no key yet", "keys: [] # none\n# end\n", "keys: # none\n  - <key>\n# end\n"},
		{"a bare section", "keys:\n", "keys:\n  - <key>\n"},
		{"one", "# a\nkeys: # b\n    # c\n    - " + old + " # d\n\n# e\n", "# a\nkeys: # b\n    # c\n    - " + old + " # d\n    - <key>\n\n# e\n"},
		{"no line's end", "keys:\n- " + old, "keys:\n- " + old + "\n- <key>\n"},
		{"spread", "keys:\n  - name: old\n    role: read\n    # its hash\n    sha256: \"" + hashOf("o") + "\"\n", "keys:\n  - name: old\n    role: read\n    # its hash\n    sha256: \"" + hashOf("o") + "\"\n  - <key>\n"},
		{"on one line", "# a\nkeys: [" + old + "]\n", "keys:\n  - {name: \"old\", role: read, sha256: \"" + hashOf("o") + "\"}\n  - <key>\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			if test.before != "" {
				write(t, path, test.before)
			}
			if err := Add(path, made(t, "null", Send, secret)); err != nil {
				t.Fatal(err)
			}
			got, _ := os.ReadFile(path)
			if want := strings.Replace(test.after, "<key>", `{name: "null", role: send, sha256: "`+hashOf(secret)+`"}`, 1); string(got) != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if key, ok := f.Find(secret); !ok || key.Name != "null" || key.Role != Send {
				t.Errorf("%+v, %v", key, ok)
			}
		})
	}
}

func TestAddRefusesAnExistingKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := Add(path, made(t, "a", Read, secret)); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for says, key := range map[string]Key{
		"has a key of the name a already":  made(t, "a", Admin, secret+"2"),
		"has this very key already, as a$": made(t, "b", Admin, secret),
	} {
		if err := Add(path, key); err == nil || !strings.Contains(err.Error()+"$", says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	write(t, path, "keys: faulty")
	if err := Add(path, made(t, "c", Read, secret+"3")); err == nil {
		t.Error("a faulty file was changed")
	}
	if after, _ := os.ReadFile(path); string(after) != "keys: faulty" {
		t.Errorf("%s, before %s", after, before)
	}
}

func TestRemove(t *testing.T) {
	line := func(name string) string {
		return `{name: "` + name + `", role: read, sha256: "` + hashOf(name) + `"}`
	}
	for _, test := range []struct{ name, before, after string }{
		{"first", "# a\nkeys:\n  # of one\n  - " + line("one") + "\n  # of two\n  - " + line("two") + "\n# end\n", "# a\nkeys:\n  # of one\n  # of two\n  - " + line("two") + "\n# end\n"},
		{"last", "keys:\n  - " + line("two") + "\n  - name: one\n    # x\n    role: read\n    sha256: \"" + hashOf("one") + "\"\n\n# end\n", "keys:\n  - " + line("two") + "\n\n# end\n"},
		{"a name within another", "keys:\n  - " + line("one-more") + "\n  - " + line("one") + "\n", "keys:\n  - " + line("one-more") + "\n"},
		{"the only one", "keys:\n  - " + line("one") + "\n# end\n", "keys:\n# end\n"},
		{"on one line", "keys: [" + line("one") + "]\n", "keys: []\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			write(t, path, test.before)
			if err := Remove(path, "one"); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(path); string(got) != test.after {
				t.Errorf("got\n%s\nwant\n%s", got, test.after)
			}
			if err := Remove(path, "one"); !errors.Is(err, ErrName) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestTheFileIsForItsOwner(t *testing.T) {
	folder := t.TempDir()
	path, link := filepath.Join(folder, "real.yaml"), filepath.Join(folder, "link.yaml")
	mode := func() os.FileMode {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	if err := Add(path, made(t, "a", Read, secret)); err != nil || mode() != 0o600 {
		t.Fatalf("%v, %o", err, mode())
	}
	if err := errors.Join(os.Chmod(path, 0o644), os.Symlink("real.yaml", link), Add(link, made(t, "b", Read, secret+"b"))); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(link); mode() != 0o640 || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%o, and the link is %v", mode(), info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(folder, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// No key is lost, however many processes change the file at once.
func TestSeveralAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	var adding sync.WaitGroup
	for i := range 20 {
		key := made(t, fmt.Sprintf("k%02d", i), Read, fmt.Sprint(secret, i))
		adding.Go(func() {
			if err := Add(path, key); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, key := range f.All() {
		names = append(names, key.Name)
	}
	if slices.Sort(names); len(names) != 20 || names[19] != "k19" {
		t.Errorf("%v", names)
	}
}

// After Add and Remove a file reads as its former keys with their changes, whatever it contained.
func FuzzEdit(f *testing.F) {
	f.Add("keys:\n  - {name: a, role: read, sha256: \""+hashOf("a")+"\"}\n", "b")
	f.Add("keys: [{name: a, role: read, sha256: \""+hashOf("a")+"\"}]", "- ")
	f.Add("---\n# x\nkeys: &k\n- name: a\n  role: read\n  sha256: \""+hashOf("a")+"\"\n", "a: b #")
	f.Fuzz(func(t *testing.T, text, name string) {
		have, err := Parse("f", []byte(text))
		key, keyErr := New(name, Read, secret)
		if err != nil || keyErr != nil || slices.ContainsFunc(have, func(k Key) bool { return k.Name == name || k.hash == key.hash }) {
			return
		}
		want := append(slices.Clone(have), key)
		added := edited("f", want, appended(text, key))
		if got, err := Parse("f", []byte(added)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("added: %v, %v\n%s", got, err, added)
		}
		removed := edited("f", have, without(added, name)...)
		if got, err := Parse("f", []byte(removed)); err != nil || !slices.Equal(got, have) {
			t.Fatalf("removed: %v, %v\n%s", got, err, removed)
		}
	})
}
