package initial

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/examples/rules"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// The settings in comments of the initial configuration are the defaults.
func TestTheInitialConfigurationShowsDefaults(t *testing.T) {
	read := func(text string) *config.Config {
		c, warnings, err := config.Read([]byte(text), config.Options{Environ: []string{"STATE_DIRECTORY=/var/lib/weir"}})
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings, text)
		}
		c.Rules, c.RuleSet = rule.Source{}, nil
		return c
	}
	text := string(Config(Logs{}))
	var shown []string
	for line := range strings.Lines(text) {
		if len(line) > 2 && line[0] == '#' && line[1] != ' ' {
			line = line[1:]
		} else if strings.HasPrefix(line, "#  ") { // within a section that is not a comment
			line = " " + line[2:]
		}
		shown = append(shown, line)
	}
	whole := strings.Join(shown, "")
	if whole == text {
		t.Fatal("nothing is shown")
	}
	if got, want := read(whole), read(text); !reflect.DeepEqual(got, want) {
		t.Errorf("with what is shown\n%+v\nwithout\n%+v", got, want)
	}
}

// The rule for sign-ins knows the paths of usual frameworks.
func TestTheInitialRuleForSignIns(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(rulesText))
	if err != nil {
		t.Fatal(err)
	}
	judge := set.NewJudge()
	for path, want := range map[string]int{"/login": 2, "/users/sign_in": 2, "/users/sign_in.json": 2, "/account/logon": 2, "/wp-login.php": 2, "/login;a=b": 2, "/cart": 1} {
		r := &request.Request{UnixMilli: 1, IP: netip.MustParseAddr("203.0.113.7"), Method: "POST", Path: path, Status: 200}
		if hits := judge.Hits(r); len(hits) != want {
			t.Errorf("%s: %d hits, not %d", path, len(hits), want)
		}
	}
}

// With ready sets of rules, the configuration names them, and there is nothing to warn of. If one file exists, none is written.
func TestReadySetsOfRules(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "weir")
	written, err := Write(folder, Logs{}, "wordpress", "sign-in", "wordpress")
	want := []string{"rules.yaml", "rules.d/sign-in.yaml", "rules.d/wordpress.yaml", "weir.yaml"}
	for i := range want {
		want[i] = filepath.Join(folder, want[i])
	}
	if err != nil || !slices.Equal(written, want) {
		t.Fatalf("wrote %v, %v", written, err)
	}
	c, warnings, err := config.Load(config.Options{File: filepath.Join(folder, "weir.yaml")})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if r, _ := c.RuleSet.Rule("wordpress-sign-in"); r == nil || len(c.RuleSet.Rules) != 8 {
		t.Errorf("%d rules", len(c.RuleSet.Rules))
	}

	if err := errors.Join(os.Remove(written[0]), os.Remove(written[3])); err != nil {
		t.Fatal(err)
	}
	if written, err := Write(folder, Logs{}, "sign-in"); err == nil || written != nil {
		t.Errorf("wrote %v over a file", written)
	}
	if written, err := Write(folder, Logs{}, rules.Names()...); err == nil || written != nil {
		t.Errorf("wrote %v next to a file", written)
	}
}

// All sets can be used together with the initial rules.
func TestAllSetsOfRules(t *testing.T) {
	folder := t.TempDir()
	if _, err := Write(folder, Logs{}, rules.Names()...); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := config.Load(config.Options{File: filepath.Join(folder, "weir.yaml")}); err != nil || len(warnings) > 0 {
		t.Error(err, warnings)
	}
}

// A name that is not known is refused before anything is written.
func TestUnknownSetsOfRules(t *testing.T) {
	folder := t.TempDir()
	c := Command()
	c.SetArgs([]string{"--with", "signin", folder})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "did you mean sign-in?") {
		t.Error(err)
	}
	if found, _ := os.ReadDir(folder); len(found) > 0 {
		t.Error("a file was written")
	}
}

// The rules in comments can be used as they are, and the one by network counts all networks of one subscriber together.
func TestTheInitialRulesInComments(t *testing.T) {
	shown := "users: checked\n" + regexp.MustCompile(`(?m)^  # (- name:|  [a-z]+: )`).ReplaceAllString(rulesText, "  $1")
	set, warnings, err := rule.Parse("rules.yaml", []byte(shown))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings, shown)
	}
	var names []string
	for _, r := range set.Rules {
		names = append(names, r.Name)
	}
	if want := []string{"per-client", "sign-in", "per-network", "per-user"}; !slices.Equal(names, want) {
		t.Errorf("%v, not %v", names, want)
	}

	keys := make(map[string]bool)
	judge := set.NewJudge()
	for _, ip := range []string{"2001:db8:1::1", "2001:db8:1:ff::1", "2001:db8:1:ffff::1"} {
		for _, hit := range judge.Hits(&request.Request{IP: netip.MustParseAddr(ip), Status: 200}) {
			if names[hit.Rule] == "per-network" {
				keys[string(hit.Key)] = true
			}
		}
	}
	if !maps.Equal(keys, map[string]bool{"2001:db8:1::/48": true}) {
		t.Error(keys)
	}
}

func TestLogsAreFound(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"access.log", "shop-access.log", "error.log"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pattern := filepath.Join(folder, "*access.log")
	found := Find([]string{pattern, filepath.Join(folder, "none*.log")})
	if len(found.locked) > 0 || len(found.patterns()) != 1 || found.patterns()[0] != pattern {
		t.Errorf("%+v", found)
	}
	if text := configFor(found); !strings.Contains(text, pattern) || strings.Contains(text, "SOURCES") {
		t.Error(text)
	}
}

// A request that nginx passes on to Apache is in the logs of both, and would count twice without a word.
func TestLogsOfSeveralServersAreNamed(t *testing.T) {
	for _, test := range []struct {
		logs Logs
		want string
	}{
		{Logs{readable: []string{"/nginx/*access*.log"}}, ""},
		{Logs{readable: []string{"/nginx/*access*.log", "/apache2/*access*.log"}}, "logs of several servers are read: /nginx/*access*.log, /apache2/*access*.log. "},
	} {
		var said bytes.Buffer
		test.logs.Warn(&said)
		if !strings.HasPrefix(said.String(), test.want) || (said.Len() > 0) != (test.want != "") {
			t.Errorf("%v: %q", test.logs, said.String())
		}
	}
}

func TestLogsThatMayNotBeReadAreNamedWithTheRemedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		found Logs
		want  error
	}{{Logs{}, errNoLogs}, {Logs{locked: []string{path}}, errLockedLogs}, {Logs{locked: []string{path}, readable: []string{"/*.log"}}, nil}} {
		if err := test.found.Missing(); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test.found, err)
		}
	}
	var said bytes.Buffer
	Logs{locked: []string{path}}.Warn(&said)
	if !strings.Contains(said.String(), path+" may not be read by ") || !strings.Contains(said.String(), "sudo ") {
		t.Error(said.String())
	}
}
