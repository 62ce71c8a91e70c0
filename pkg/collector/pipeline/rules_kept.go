package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/replace"
	"weir/pkg/geoip"
	"weir/pkg/rule"
)

const (
	keptRules  = 20 // the rule sets that are kept next to the journal
	keptPlaces = 4  // the last of them that use databases of addresses: these are kept with them
)

// rulesKept stores the rule sets of the last configurations by fingerprint, so that an outstanding cut can be made
// again by the same rules. A set is stored as the text of its files, in the form of a Kubernetes ConfigMap. That form
// has room for several files, and for the files that they name. Databases of addresses that rules use are kept next to it,
// by the hash of their bytes.
type rulesKept struct{ folder string }

func (k rulesKept) path(fingerprint string) string {
	return filepath.Join(k.folder, fingerprint+".json")
}

// keep stores a set, and removes the oldest ones.
func (k rulesKept) keep(set *rule.Set) error {
	texts, err := textsOf(set)
	if len(texts) == 0 && err == nil {
		return nil // it was not read from a file
	}
	if err == nil {
		err = os.MkdirAll(k.folder, 0o700)
	}
	var databases []string
	for _, database := range set.GeoIP().All() {
		databases = append(databases, database.Sum)
		if err == nil {
			err = k.keepDatabase(database)
		}
	}
	if err == nil {
		err = os.WriteFile(k.path(set.Fingerprint()), configMap(set.Fingerprint(), databases, texts), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the rules: %w", err)
	}

	k.forget()
	return nil
}

func (k rulesKept) databasePath(sum string) string { return filepath.Join(k.folder, sum+".mmdb") }

// keepDatabase stores a database, unless it is stored.
func (k rulesKept) keepDatabase(d *geoip.Database) error {
	path := k.databasePath(d.Sum)
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(d.File)) {
		return nil
	}
	return replace.File(path, func(f *os.File) error {
		_, err := f.Write(d.File)
		return err
	})
}

// A keptText is a file of a set, with the name that other files use for it: its complete path, or relative to the
// first.
type keptText struct{ name, text string }

// textsOf returns the files of a set in their order, which is significant.
func textsOf(set *rule.Set) (texts []keptText, err error) {
	first := ""
	if embedded := set.Embedded(); len(embedded.Text) > 0 {
		first = embedded.File
		texts = append(texts, keptText{filepath.Base(first), string(embedded.Text)})
	}

	for _, path := range set.Files() {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		first = cmp.Or(first, path)
		if name, err := filepath.Rel(filepath.Dir(first), path); err == nil {
			// Rules may name another file by its complete path.
			if filepath.IsAbs(path) && !rule.HoldsRules(text) {
				texts = append(texts, keptText{path, string(text)})
			}
			path = name
		}
		texts = append(texts, keptText{path, string(text)})
	}

	return texts, nil
}

// A manifest is what a stored set has besides its texts.
type manifest struct {
	Metadata struct {
		Annotations struct {
			GeoIP []string `json:"geoip"`
		} `json:"annotations"`
	} `json:"metadata"`
}

// databasesOf returns the hashes of the databases that the stored set uses.
func databasesOf(text []byte) []string {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil
	}
	return m.Metadata.Annotations.GeoIP
}

// configMap returns a manifest with the texts in that order, and with the hashes of the databases.
func configMap(name string, databases []string, texts []keptText) []byte {
	quoted := func(text string) []byte {
		b, _ := json.Marshal(text) // a string has no errors
		return b
	}
	b := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %s`, quoted(name))
	if len(databases) > 0 {
		sums, _ := json.Marshal(databases)
		b = fmt.Appendf(b, `, "annotations": {"geoip": %s}`, sums)
	}
	b = append(b, `}, "data": {`...)
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
	k.forgetDatabases(files[:min(len(files), keptRules)])
}

// forgetDatabases removes the databases that only older sets use; files are the sets, the latest first.
func (k rulesKept) forgetDatabases(files []string) {
	var needed []string
	using := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if sums := databasesOf(text); err == nil && len(sums) > 0 && using < keptPlaces {
			using++
			needed = append(needed, sums...)
		}
	}
	stored, _ := filepath.Glob(k.databasePath("*"))
	for _, path := range stored {
		if !slices.Contains(needed, strings.TrimSuffix(filepath.Base(path), ".mmdb")) {
			os.Remove(path)
		}
	}
}

// find returns a set by its fingerprint; nil when it is not stored, or this version interprets it differently.
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

	var databases []*geoip.Database
	for _, sum := range databasesOf(manifest) {
		database, err := geoip.Open(k.databasePath(sum))
		if err != nil {
			return nil
		}
		databases = append(databases, database)
	}
	set = set.Located(geoip.Join(databases...))
	for _, candidate := range []*rule.Set{set, set.Shadowed()} {
		if candidate.Fingerprint() == fingerprint {
			return candidate
		}
	}

	return nil
}
