package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parse drops the same bytes from lines as the collector, and goes on after a line that is too long.
func TestParseReadsFilesAsTheCollectorDoes(t *testing.T) {
	request := func(ip, path string) string {
		return ip + ` - - [03/Mar/2026:08:00:00 +0000] "GET ` + path + ` HTTP/1.1" 200 2 "-" "-"` + "\n"
	}
	ten := strings.Repeat(request("203.0.113.7", "/"), 10)
	for name, log := range map[string]string{
		"a mark":                 "\ufeff" + ten,
		"a hole":                 strings.Repeat("\x00", 100) + ten + strings.Repeat("\x00", 5000),
		"a long first line":      request("203.0.113.7", "/?"+strings.Repeat("a", 300<<10)) + ten,
		"a line that is none":    ten + strings.Repeat("x", 17<<20) + "\n" + ten,
		"an end that is no line": ten + strings.Repeat("x", 17<<20),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "access.log")
			if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			run([]string{"weir", "parse", "--json", file}, nil, &out, &errs)
			read := strings.Count(out.String(), `"ip":"203.0.113.7"`)
			long := strings.Count(out.String(), `"unread":"long"`)
			if want := strings.Count(log, "03/Mar"); read != want || long != strings.Count(name, "is n") {
				t.Errorf("%d requests and %d long lines, want %d: %.300s", read, long, want, errs.String())
			}
		})
	}
}
