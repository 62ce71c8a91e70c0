package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/kafka/kafkatest"
	"weir/pkg/geoip/geoiptest"
	"weir/test/wait"
)

func TestMain(m *testing.M) {
	wait.Together(4)
	testscript.Main(withKafka{m}, map[string]func(){"weir": main})
}

// withKafka runs the tests, and then stops the real Kafka that they share.
type withKafka struct{ tests *testing.M }

func (w withKafka) Run() int { return kafkatest.Run(w.tests) }

// The scripts contain what a user types and sees. Each runs in a folder of its own that has the examples too, and two
// databases of addresses; exits
// CODE weir … requires an exit code other than 0. UPDATE=1 go test ./cmd/weir rewrites the expected outputs.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	asn := geoiptest.Bytes(t, 1_700_000_000, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 64500, Name: "An Example"}, "2001:db8::/32": {ASN: 64501}})
	country := geoiptest.Bytes(t, 1_700_000_000, map[string]geoiptest.Entry{"203.0.113.0/25": {Country: "DE"}, "2001:db8::/32": {Country: "FR"}})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			env.Setenv("HOME", env.Cd)
			env.Values[liveScript{}] = &liveScript{}
			return errors.Join(os.WriteFile(env.Cd+"/asn.mmdb", asn, 0o600), os.WriteFile(env.Cd+"/country.mmdb", country, 0o600),
				os.CopyFS(env.Cd+"/examples", os.DirFS(examples)))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "awaits": awaits,
			"topics": runTopics, "kafka": runKafka, "collector": runCollector, "enforcer": runEnforcer, "aggregator": runAggregators},
	})
}

// exits runs a command and requires an exit code: exits 2 weir backtest.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exited := (interface{ ExitCode() int })(nil); errors.As(err, &exited) {
		got = exited.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// awaits repeats a command until its output matches: awaits PATTERN weir block …, whose output depends on whether Kafka has
// the entry within half a second.
func awaits(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("never %s", args[0])
		}
	}
}

// Every flag of every command is used by some script.
func TestEveryFlagIsUsed(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	command := regexp.MustCompile(`(?m)^.*\bweir ([a-z]+)(.*)$`)
	flag := regexp.MustCompile(`--([a-z-]+)`)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range command.FindAllStringSubmatch(string(text), -1) {
			for _, name := range flag.FindAllStringSubmatch(run[2], -1) {
				used[run[1]+" --"+name[1]] = true
			}
		}
	}
	for _, c := range newRoot(new(bool)).Commands() {
		for _, at := range append(ownCommands(c), c) {
			at.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if name := c.Name() + " --" + f.Name; !used[name] {
					t.Errorf("no script uses %s", name)
				}
			})
		}
	}
}

// ownCommands returns the commands of a command, without those of the library.
func ownCommands(c *cobra.Command) []*cobra.Command {
	if c.Name() == "completion" {
		return nil
	}
	return c.Commands()
}

// Every command shows an example that begins with the command itself.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, c := range newRoot(new(bool)).Commands() {
		for _, at := range append(ownCommands(c), c) {
			if path := strings.TrimPrefix(at.CommandPath(), "weir "); !strings.Contains(at.Example, "weir "+path) {
				t.Errorf("weir %s has no example of itself", path)
			}
		}
	}
}
