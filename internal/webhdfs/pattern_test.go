package webhdfs

import "testing"

func TestPatterns(t *testing.T) {
	for text, files := range map[string]map[string]bool{
		"/logs":            {"/logs/a": true, "/logs/a/b": true},
		"/logs/":           {"/logs/a": true},
		"/":                {"/a": true, "/a/b": true},
		"/logs/**":         {"/logs/a": true, "/logs/a/b": true},
		"/logs/*":          {"/logs/a": true, "/logs/a/b": false},
		"/logs/**/*.log":   {"/logs/a.log": true, "/logs/a/b/c.log": true, "/logs/a/b": false},
		"/logs/*/a*/x":     {"/logs/1/a2/x": true, "/logs/1/b/x": false, "/logs/1/a/x/y": false},
		"/**/day/[0-9]/**": {"/a/day/1/x": true, "/day/2/x/y": true, "/day/x/y": false},
	} {
		p, err := parsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range files {
			if p.matches(file) != want {
				t.Errorf("%s has %s: %v", text, file, !want)
			}
			for i := range len(file) {
				if want && i > len(p.base) && file[i] == '/' && !p.within(file[:i]) {
					t.Errorf("%s has no files in %s", text, file[:i])
				}
			}
		}
	}
	for _, text := range []string{"logs", "", "/a/[", "/a/b**"} {
		if _, err := parsePattern(text); err == nil {
			t.Errorf("%q is a pattern", text)
		}
	}
}
