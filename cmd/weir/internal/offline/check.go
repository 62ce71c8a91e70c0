package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/command"
	"weir/internal/keys"
	"weir/internal/regular"
	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

// A checkCommand contains the flags of `weir check`.
type checkCommand struct {
	set    []string
	live   bool
	output command.Output
}

func newCheck() *cobra.Command {
	k := &checkCommand{}
	c := &cobra.Command{
		Use:   "check [flags] [FILE...|-]",
		Short: "Check rules and configurations: all mistakes, with their places",
		Long: `Check reads files as the parts would and reports all mistakes at once, each with its place and a remedy. A file contains
rules, a weir.yaml, or a Kubernetes ConfigMap with either; check finds out which. Several files of rules are checked as
one set, as the parts read them. Without a file it checks ./weir.yaml, or else /etc/weir/weir.yaml. Settings of the environment (WEIR_…) apply as they would at a start.

With --live it also tries the systems that a correct weir.yaml names: Kafka and its topics, Redis or the folder of the
disk store, and the sources, from this machine and as the user who runs it. It creates and changes nothing.

The exit code is 2 when there is a mistake, and 3 when a check of the live system fails. Warnings do not change it.`,
		Example: `  weir check
  weir check rules.yaml
  weir check --set mode=shadow /etc/weir/weir.yaml
  weir check --live /etc/weir/weir.yaml
  kubectl get configmap weir -o yaml | weir check -`,
		Args: func(c *cobra.Command, files []string) error {
			switch {
			case len(files) > 0:
				return command.Files(c, files)
			case config.Find() == "":
				return exit.Wrongf("there is no weir.yaml here and none in /etc/weir; name a file, such as weir check rules.yaml, or - for standard input")
			}
			return nil
		},
		RunE: func(c *cobra.Command, files []string) error { return k.run(c, files) },
	}
	c.Flags().StringArrayVar(&k.set, "set", nil, "replace a setting of a weir.yaml: `KEY=VALUE` such as aggregator.hot_keys=10000; may be repeated")
	c.Flags().BoolVar(&k.live, "live", false, "also try Kafka, the store and the sources that a weir.yaml names")
	k.output.Add(c, "text", "json")
	return c
}

func (k *checkCommand) run(c *cobra.Command, files []string) error {
	var problems []error
	var rules []string
	configurations := false
	if len(files) == 0 {
		files = []string{config.Find()}
	}
	for _, name := range files {
		data, path, err := k.read(name, c.InOrStdin())
		if err != nil {
			problems = append(problems, err)
			continue
		}
		// Files of rules are one set, so they are checked together after the loop.
		if name != "-" && holdsRules(data) {
			rules = append(rules, path)
			continue
		}

		result := k.file(c.Context(), path, data)
		problems = append(problems, result.write(c, k.output.Form))
		configurations = configurations || result.Kind == "configuration"
	}

	if k.live && !configurations {
		problems = append(problems, exit.Wrongf("--live tries the systems that a weir.yaml names, and no weir.yaml is among the files"))
	}
	if len(rules) > 0 {
		result := newChecked(strings.Join(rules, ", "))
		result.Kind = "rules"
		set, warnings, err := rule.Load(rules...)
		result.rules(set)
		result.add(warnings, err)
		problems = append(problems, result.write(c, k.output.Form))
	}

	return errors.Join(problems...)
}

// file checks one file, except for files of rules on the disk, which run checks as one set.
func (k *checkCommand) file(ctx context.Context, path string, data []byte) *checked {
	result := newChecked(path)
	inner, isConfigMap := yamlfile.ConfigMap(path, data)
	switch {
	case isConfigMap:
		k.configMap(result, data, inner)
	case keysOf(data).tests:
		result.add(nil, yamlfile.Faults{{File: path, What: "these are tests of rules", Remedy: "run them: weir test " + path}})
	case holdsRules(data):
		result.Kind = "rules"
		set, warnings, err := rule.Parse(path, data)
		result.rules(set)
		result.add(warnings, err)
	default:
		settings := k.configuration(result, data, config.Options{File: path})
		if !k.live && path != "stdin" { // a file from elsewhere names the files there
			result.add(missingFiles(path, settings.NamedFiles()), nil)
		}
		if path != "stdin" {
			result.add(unknownKeys(path, settings.Enforcer), nil)
		}
		if k.live && len(result.faults) == 0 {
			result.Live = askLive(ctx, settings)
		}
	}

	return result
}

// missingFiles warns about files that are not on this machine. They may be on the one that the configuration is for; there the
// parts do not start without them.
func missingFiles(path string, named []config.NamedFile) (warnings []yamlfile.Fault) {
	for _, file := range named {
		_, err := os.Stat(file.Path)
		if !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		remedy := "create it, or correct " + file.Key
		if file.Keys {
			remedy = "create it with weir keys add --name NAME --role ROLE --file " + file.Path + ", or correct " + file.Key
		}
		warnings = append(warnings, yamlfile.Fault{File: path, What: file.Key + ": " + file.Path + " does not exist on this machine; without it no part that reads it starts", Remedy: remedy})
	}
	return warnings
}

// unknownKeys warns about bouncers whose key is not in the file of keys. A name may also be that of a certificate.
func unknownKeys(path string, e config.Enforcer) (warnings []yamlfile.Fault) {
	if len(e.Crowdsec.Addresses) == 0 || e.Keys == "" || e.TLS.Clients != "" {
		return nil
	}
	file, err := keys.Open(e.Keys)
	if err != nil {
		return nil // missingFiles, and --live, report it
	}
	for _, name := range e.Crowdsec.Addresses {
		if !slices.ContainsFunc(file.All(), func(k keys.Key) bool { return k.Name == name }) {
			warnings = append(warnings, yamlfile.Fault{File: path,
				What:   fmt.Sprintf("enforcer.crowdsec.addresses: %s has no key with the name %s: a bouncer with another key gets prefixes", e.Keys, name),
				Remedy: "write the name of the bouncer's key (weir keys list)"})
		}
	}
	return warnings
}

func (k *checkCommand) read(name string, stdin io.Reader) (data []byte, path string, err error) {
	if name == "-" {
		data, err = io.ReadAll(stdin)
		return data, "stdin", err
	}
	data, err = regular.ReadFile(name)
	return data, name, err
}

func (k *checkCommand) configuration(result *checked, data []byte, o config.Options) *config.Config {
	result.Kind = "configuration"
	o.Set, o.Environ = k.set, os.Environ()
	c, warnings, err := config.Read(data, o)
	result.add(warnings, err)
	result.Mode = string(c.Mode)
	result.rules(c.RuleSet)
	result.guards(c.RuleSet, c.Kafka.Hits.Partitions)
	return c
}

// configMap checks the rules and the configurations in a ConfigMap.
func (k *checkCommand) configMap(result *checked, data []byte, inner []yamlfile.Inner) {
	set, warnings, hasRules, err := rule.ParseConfigMap(result.File, data)
	result.add(warnings, err)
	for _, part := range inner {
		if keysOf(part.Data).configuration {
			k.configuration(result, part.Data, config.Options{File: part.File, Within: part.Within(), Siblings: inner, ToAsk: true})
			hasRules = true
		}
	}

	result.Kind = "ConfigMap"
	if set != nil {
		result.rules(set)
	}
	if !hasRules {
		result.add(nil, yamlfile.Faults{{File: result.File, What: "the ConfigMap contains no rules and no weir.yaml", Remedy: "put them under its data, each under a key of its own"}})
	}
}

func holdsRules(data []byte) bool { return rule.HoldsRules(data) && !keysOf(data).configuration }

// topKeys report what kind of file its top keys belong to. A configuration has a key that only a weir.yaml has, or the
// path of its rules.
type topKeys struct{ configuration, tests bool }

func keysOf(data []byte) (top topKeys) {
	_ = yamlfile.Decode("", data, &top) // errors are reported when the file is checked
	return top
}

// FromYAML looks at the keys, and only at the type of the value under rules.
func (k *topKeys) FromYAML(v yamlfile.Value) {
	known := yamlfile.Names(config.Config{})
	pairs, _ := v.Map()
	for _, pair := range pairs {
		_, isText := pair.Value.Scalar()
		if slices.Contains(known, pair.Name) && (pair.Name != "rules" || isText) {
			k.configuration = true
		}
		k.tests = k.tests || pair.Name == "tests"
	}
}
