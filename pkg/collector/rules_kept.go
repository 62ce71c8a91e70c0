package collector

import (
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
// and for the files that these name. Rules that stand in weir.yaml itself are not kept.
type rulesKept struct{ folder string }

func (k rulesKept) path(fingerprint string) string {
	return filepath.Join(k.folder, fingerprint+".json")
}

// keep keeps a set, and forgets the oldest ones.
func (k rulesKept) keep(set *rule.Set) error {
	if len(set.Files()) == 0 {
		return nil
	}
	texts := map[string]string{}
	for _, path := range set.Files() {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("keeping the rules: %w", err)
		}
		texts[path] = string(text) // as it is named with its whole path, or relative to the first file
		if name, err := filepath.Rel(filepath.Dir(set.Files()[0]), path); err == nil {
			texts[name] = string(text)
			delete(texts, path)
		}
	}
	manifest, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": set.Fingerprint()}, "data": texts})
	if err == nil {
		err = os.MkdirAll(k.folder, 0o700)
	}
	if err == nil {
		err = os.WriteFile(k.path(set.Fingerprint()), manifest, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the rules: %w", err)
	}
	k.forget()
	return nil
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
