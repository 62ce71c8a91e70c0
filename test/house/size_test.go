package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// No file of the repository is large: a program that was built here and committed is in every clone for ever.
func TestNoFileIsLarge(t *testing.T) {
	const most = 1 << 20
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil && os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("this is no clone of the repository: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err == nil && info.Size() > most {
			t.Errorf("%s has %d bytes; a file has at most %d", name, info.Size(), most)
		}
	}
}
