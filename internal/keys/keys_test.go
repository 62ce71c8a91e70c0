package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileOf(t *testing.T) *File {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write(t, path, "keys:\n"+
		"  - {name: reader, role: read, sha256: \""+hashOf("r")+"\"}\n"+
		"  - {name: writer, role: write, sha256: \""+hashOf("w")+"\"}\n"+
		"  - {name: sender, role: send, sha256: \""+strings.ToUpper(hashOf("s"))+"\"}\n"+
		"  - {name: boss, role: admin, sha256: \""+hashOf("a")+"\"}\n")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Holders of a key of each role, and clients without one, make requests that need each role.
func TestAdmit(t *testing.T) {
	f := fileOf(t)
	admitted := map[string]string{"r": "read", "w": "read write", "s": "send", "a": "read write send admin"}
	for _, secret := range []string{"r", "w", "s", "a", "x", ""} {
		for _, role := range []Role{Read, Write, Send, Admin} {
			for header, value := range map[string]string{"X-Api-Key": secret, "Authorization": "bearer " + secret} {
				r := &http.Request{Header: http.Header{}}
				r.Header.Set(header, value)
				_, err := f.Admit(r, role)
				want := error(nil)
				switch {
				case secret == "":
					want = ErrNone
				case secret == "x":
					want = ErrUnknown
				case !strings.Contains(admitted[secret], string(role)):
					want = ErrRole
				}
				if !errors.Is(err, want) {
					t.Errorf("%s: %q for %s: %v, want %v", header, secret, role, err, want)
				}
			}
		}
	}
}

func TestAdmitSaysWhoItIs(t *testing.T) {
	r := &http.Request{Header: http.Header{"X-Api-Key": {"s"}}}
	key, err := fileOf(t).Admit(r, Send)
	if err != nil || key.Name != "sender" || key.Role != Send {
		t.Errorf("%+v, %v", key, err)
	}
	r = &http.Request{Header: http.Header{"Authorization": {"Basic cw=="}}}
	if _, err := fileOf(t).Admit(r, Send); !errors.Is(err, ErrNone) {
		t.Errorf("another scheme: %v", err)
	}
}

func TestFaults(t *testing.T) {
	hash := hashOf("k")
	tests := map[string]string{
		"keys: [{name: a, role: send}]":                                        "k.yaml:1:8: the key has no sha256; add sha256",
		"keys: [{name: a, role: sned, sha256: \"" + hash + "\"}]":              "k.yaml:1:24: the role \"sned\" is not known",
		"keys: [{name: ' ', role: send, sha256: \"" + hash + "\"}]":            "k.yaml:1:15: the name is empty",
		"keys: [{name: a, role: send, sha256: \"123\"}]":                       "k.yaml:1:38: this is not a SHA-256",
		"keys: [{name: a, role: send, sha256: \"" + hashOf("") + "\"}]":        "this is the SHA-256 of nothing",
		"keys: [{name: a, role: send, key: secret, sha256: \"" + hash + "\"}]": "k.yaml:1:30: ",
		"keys: 7": "where a list of keys is expected",
		"keys:\n- {name: a, role: send, sha256: \"" + hash + "\"}\n- {name: b, role: read, sha256: \"" + hash + "\"}":        "k.yaml:3:33: a and b are the same key",
		"keys:\n- {name: a, role: send, sha256: \"" + hash + "\"}\n- {name: a, role: read, sha256: \"" + hashOf("l") + "\"}": "k.yaml:3:10: two keys have the name a",
	}
	for text, want := range tests {
		_, err := Parse("k.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// An error never shows the text in the place of a hash: it may be the key.
func TestErrorsKeepSecrets(t *testing.T) {
	_, err := Parse("k.yaml", []byte("keys: [{name: a, role: send, sha256: hunter2hunter2}]"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestRereadKeepsTheLastGoodKeys(t *testing.T) {
	f := fileOf(t)
	if changed, err := f.Reread(); changed || err != nil {
		t.Errorf("the same file: %v, %v", changed, err)
	}
	write(t, f.path, "keys: [{name: n, role: send, sha256: \""+hashOf("new")+"\"}]")
	if changed, err := f.Reread(); !changed || err != nil {
		t.Errorf("another file: %v, %v", changed, err)
	}
	if _, ok := f.Find("s"); ok {
		t.Error("a key that was taken out is still known")
	}
	for range 2 {
		write(t, f.path, "keys: [{name: n}]")
		if changed, err := f.Reread(); changed || err == nil {
			t.Errorf("a faulty file: %v, %v", changed, err)
		}
	}
	if key, ok := f.Find("new"); !ok || key.Name != "n" {
		t.Error("the last good keys are gone")
	}
	write(t, f.path, "keys: []")
	if changed, err := f.Reread(); !changed || err != nil {
		t.Errorf("no keys: %v, %v", changed, err)
	}
	if _, ok := f.Find("new"); ok {
		t.Error("a key of an empty file")
	}
}

func TestOpenWantsAFile(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("opened what is not there")
	}
}

// Deleting the file makes all keys invalid; the same file again restores them.
func TestADeletedFileHasNoKeys(t *testing.T) {
	f := fileOf(t)
	data, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(f.path)
	for _, want := range []bool{true, false} {
		if changed, err := f.Reread(); changed != want || err == nil || !strings.Contains(err.Error(), "is gone") {
			t.Errorf("no file: %v, %v", changed, err)
		}
		if _, ok := f.Find("a"); ok || len(f.All()) > 0 {
			t.Error("a key of a file that is gone is known")
		}
	}
	write(t, f.path, string(data))
	if changed, err := f.Reread(); !changed || err != nil {
		t.Errorf("the file again: %v, %v", changed, err)
	}
	if _, ok := f.Find("a"); !ok {
		t.Error("a key that was written again is not known")
	}
}

// A named pipe in place of the file is an error: to read it could take for ever, and the keys would never change again.
func TestAPipeIsNoFileOfKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
}
