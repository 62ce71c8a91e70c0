// Package initial has the configuration and the rules to begin with: `weir init` writes them, and `weir run` uses them where
// there is no configuration. Their sources are the access logs that are found in the usual places.
package initial

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/examples/rules"
	"weir/internal/nearest"
	"weir/pkg/rule"
)

var (
	//go:embed weir.yaml
	configText string
	//go:embed rules.yaml
	rulesText string
)

// Command returns the command init, a new one at each call.
func Command() *cobra.Command {
	var with []string
	c := &cobra.Command{
		Use:   "init [flags] [DIRECTORY]",
		Short: "Write a weir.yaml and a rules.yaml to begin with",
		Long: `Init writes a commented weir.yaml and rules.yaml into a directory, by default the current one. The sources are the access
logs that it finds on this machine. The mode is shadow: blocks are decided and shown, and no one is refused. If one of
the files exists already, nothing is written.

With --with it also writes ready sets of rules into the folder rules.d: ` + strings.Join(rules.Names(), ", ") + `.`,
		Example: `  weir init
  weir init --with sign-in,scanners
  weir init /etc/weir`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Wrongf("init takes one directory; for example: %s", command.Example(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range with {
				if rules.Text(name) == nil {
					return exit.Wrongf("--with: there is no set of rules %s; %s", name, nearest.Suggest(name, rules.Names(), "the sets are "))
				}
			}
			folder := append(args, ".")[0]
			logs := Find(Usual())

			written, err := Write(folder, logs, with...)
			for _, path := range written {
				fmt.Fprintln(c.OutOrStdout(), "wrote", path)
			}
			if err != nil {
				return err
			}

			logs.Warn(c.ErrOrStderr())
			fmt.Fprintln(c.OutOrStdout(), "next: weir run --config", filepath.Join(folder, "weir.yaml"))
			return nil
		},
	}
	c.Flags().StringSliceVar(&with, "with", nil, "also write the sets of rules `NAMES`: "+strings.Join(rules.Names(), ", "))
	command.Complete(c, "with", rules.Names())
	return c
}

// rulesFolder is where ready sets of rules are, next to the configuration.
const rulesFolder = "rules.d"

// Write writes both files, and these sets of rules into a folder next to them, or none where one exists.
func Write(folder string, logs Logs, with ...string) (written []string, err error) {
	type file struct{ path, text string }
	files, paths := []file{{filepath.Join(folder, "rules.yaml"), rulesText}}, []string{"rules.yaml"}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(with))) {
		path := rulesFolder + "/" + name + ".yaml"
		files, paths = append(files, file{filepath.Join(folder, path), string(rules.Text(name))}), append(paths, path)
	}
	config := configFor(logs)
	if len(paths) > 1 {
		config = strings.Replace(config, usualRules, "rules: ["+strings.Join(paths, ", ")+"]\n", 1)
	}
	files = append(files, file{filepath.Join(folder, "weir.yaml"), config})

	for _, file := range files {
		if _, err := os.Lstat(file.path); err == nil {
			return nil, fmt.Errorf("%s exists already; nothing was written", file.path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}

	for _, file := range files {
		if err := os.MkdirAll(filepath.Dir(file.path), 0o755); err != nil {
			return written, err
		}
		if err := os.WriteFile(file.path, []byte(file.text), 0o644); err != nil {
			return written, err
		}
		written = append(written, file.path)
	}

	return written, nil
}

// usualRules is the line of the configuration that names the rules.
const usualRules = "rules: rules.yaml\n"

// configFor returns the initial configuration with the found logs as its sources.
func configFor(logs Logs) string {
	lines := []string{"    - {file: [/var/log/nginx/*access*.log]}"}
	if patterns := logs.patterns(); len(patterns) > 0 {
		lines = nil
		for _, pattern := range patterns {
			lines = append(lines, "    - {file: ["+strconv.Quote(pattern)+"]}")
		}
	}
	return strings.Replace(configText, "SOURCES\n", strings.Join(lines, "\n")+"\n", 1)
}

// Config returns the same configuration with the rules in it, for a run without files.
func Config(logs Logs) []byte {
	rules := "rules:\n  " + strings.ReplaceAll(strings.TrimSuffix(rulesText, "\n"), "\n", "\n  ") + "\n"
	return []byte(strings.Replace(configFor(logs), usualRules, rules, 1))
}

// Rules returns the rules of a weir run without a configuration.
func Rules() *rule.Set {
	set, _, _ := rule.Parse("rules.yaml", []byte(rulesText)) // a test parses them
	return set
}
