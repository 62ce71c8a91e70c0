package rule_test

import (
	"strings"
	"testing"

	"weir/pkg/rule"
)

// weir warns of a match that compares a path, a host or a method with a text that none can be: it counts nothing.
func TestComparisonsInVain(t *testing.T) {
	for match, want := range map[string]string{
		`path == "/sign in"`:                          "",
		`path == "/" or path == "*" or path != ""`:    "",
		`path == "/Sign%20in"`:                        `write "/Sign in"`,
		`path in ["/a", "//b"]`:                       `write "/b"`,
		`not ("/x/../y" == path)`:                     `write "/y"`,
		`path == "login"`:                             `write "/login"`,
		`path != "/a?b=c"`:                            `write "/a", and query == "b=c"`,
		`raw_path == "/Sign%20in"`:                    "",
		`host == "shop.example"`:                      "",
		`host == "Shop.Example.:8080"`:                `write "shop.example"`,
		`host == "[2001:db8::1]"`:                     "",
		`method == "get" and path == "/a"`:            `write "GET"`,
		`method == "M-SEARCH" and lower(path) == "A"`: "",
	} {
		_, warnings, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [1/min], match: '"+match+"'}]"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(warnings) > 0 {
			got = warnings[0].String()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", match, got, want)
		}
	}
	_, warnings, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [1/min], match: 'path == \"/A\"'}]\npaths: {case: lower}"))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), `write "/a"`) {
		t.Errorf("%v, %v", warnings, err)
	}
}

// A server runs /login.php/x as /login.php, so a rule for /login.php alone does not count all that reach it.
func TestScriptsWithAPathBehindThem(t *testing.T) {
	for match, want := range map[string]string{
		`path == "/wp-login.php"`:                        `write path matches "^/wp-login[.]php(/|$)"`,
		`method == "POST" and "/a/b.PHP" == path`:        `"/a/b.PHP/x"`,
		`path in ["/login", "/login.aspx"]`:              `"/login.aspx/x"`,
		`path matches "^/wp-login[.]php(/|$)"`:           "",
		`path startsWith "/wp-login.php"`:                "",
		`path == "/login" or host == "shop.pl"`:          "",
		`path != "/poll.php"`:                            "",
		`not (path == "/poll.php") and path != "/b"`:     "",
		`path not in ["/poll.php"] and method == "POST"`: "",
	} {
		_, warnings, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [1/min], match: '"+match+"'}]"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(warnings) > 0 {
			got = warnings[0].String()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", match, got, want)
		}
	}
}
