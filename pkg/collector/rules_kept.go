package collector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"weir/pkg/request"
	"weir/pkg/rule"
)

// keptRules is how many sets of rules are kept beside the journal.
const keptRules = 20

// rulesKept are the sets of rules that a collector has judged by, kept by their fingerprints as long as a cut may have
// to be made again by them: the text of their files, in the form of a Kubernetes ConfigMap, which has room for several
// and for the files that these name.
type rulesKept struct{ folder string }

func (k rulesKept) path(fingerprint string) string {
	return filepath.Join(k.folder, fingerprint+".json")
}

// keep keeps a set, and forgets the oldest ones.
func (k rulesKept) keep(set *rule.Set) error {
	texts, err := textsOf(set)
	if len(texts) == 0 && err == nil {
		return nil // it was not read from anywhere
	}
	if err == nil {
		err = os.MkdirAll(k.folder, 0o700)
	}
	if err == nil {
		err = os.WriteFile(k.path(set.Fingerprint()), configMap(set.Fingerprint(), texts), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the rules: %w", err)
	}

	k.forget()
	return nil
}

// A keptText is a file of a set, named as it is in the others: with its whole path, or relative to the first.
type keptText struct{ name, text string }

// textsOf are the files of a set in their order, which decides too.
func textsOf(set *rule.Set) (texts []keptText, err error) {
	first := ""
	if inline := set.Inline(); len(inline.Text) > 0 {
		first = inline.File
		texts = append(texts, keptText{filepath.Base(first), string(inline.Text)})
	}

	for _, path := range set.Files() {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		first = cmp.Or(first, path)
		if name, err := filepath.Rel(filepath.Dir(first), path); err == nil {
			path = name
		}
		texts = append(texts, keptText{path, string(text)})
	}

	return texts, nil
}

// configMap is a manifest with texts in that order.
func configMap(name string, texts []keptText) []byte {
	quoted := func(text string) []byte {
		b, _ := json.Marshal(text) // a text always can be
		return b
	}
	b := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %s}, "data": {`, quoted(name))
	for i, t := range texts {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%s: %s", quoted(t.name), quoted(t.text))
	}
	return append(b, "}}\n"...)
}

func (k rulesKept) forget() {
	files, _ := filepath.Glob(k.path("*"))
	age := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(files, func(a, b string) int { return int(min(1, max(-1, age(b)-age(a)))) })
	for _, old := range files[min(len(files), keptRules):] {
		os.Remove(old)
	}
}

// find is a set by its fingerprint; nil when it is not kept, or means something else to this version.
func (k rulesKept) find(fingerprint string) *rule.Set {
	path := k.path(fingerprint)
	manifest, err := os.ReadFile(path)
	if err != nil {
		return nil
	}

	set, _, found, err := rule.ParseConfigMap(path, manifest)
	if err != nil || !found {
		return nil
	}

	for _, candidate := range []*rule.Set{set, set.Shadowed()} {
		if candidate.Fingerprint() == fingerprint {
			return candidate
		}
	}

	return nil
}

// rulingOf is what a cut was judged by, with the proxies that are trusted now; nil when its rules are not known any
// more.
func (c *Collector) rulingOf(fingerprint string) *ruling {
	now := c.ruling.Load()
	if now.fingerprint == fingerprint {
		return now
	}
	if set := c.kept.find(fingerprint); set != nil {
		return newRuling(set, now.client)
	}
	return nil
}

// Reload judges by other rules and trusts other proxies from each stream's next cut on.
func (c *Collector) Reload(set *rule.Set, client *request.Client) {
	if err := c.kept.keep(set); err != nil {
		c.config.Logger.Warn("a cut that has to be made again by these rules may not be the same", "error", err)
	}
	c.ruling.Store(newRuling(set, client))
}
