package files

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestUnreadableFilesAreReported(t *testing.T) {
	faults := map[string]error{}
	for i := range 7 {
		path := fmt.Sprintf("/var/log/nginx/%d.log", i)
		faults[path] = &os.PathError{Op: "open", Path: path, Err: os.ErrPermission}
	}
	text := barredFault(faults, "cannot be read").Error()
	for _, want := range []string{"7 files cannot be read: open /var/log/nginx/0.log: permission", "4.log: permission denied; and 2 more; let ", "adm", "setfacl", " /var/log/nginx"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	one := barredFault(map[string]error{"x": fmt.Errorf("reading x: %w", os.ErrDeadlineExceeded)}, "cannot be read").Error()
	if one != "reading x: i/o timeout" {
		t.Error(one)
	}
}
