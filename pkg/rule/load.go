package rule

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir/internal/nearest"
	"weir/internal/regular"
	"weir/internal/yamlfile"
	"weir/pkg/geoip"
)

// Load reads the rules files of the patterns: paths, or globs such as rules.d/*.yaml, whose files are sorted by name.
// The error is yamlfile.Faults, all of them.
func Load(patterns ...string) (*Set, []yamlfile.Fault, error) {
	return newLoader().load(patterns)
}

func (l *loader) load(patterns []string) (*Set, []yamlfile.Fault, error) {
	for _, path := range l.paths(patterns) {
		data, err := regular.ReadFile(path)
		if err != nil {
			l.fault(path, "", "%s", reason(err))
			continue
		}
		l.files = append(l.files, path)
		l.decode(path, data)
	}
	return l.finish()
}

// Parse reads one rules file's content; file is its name, to which the files that it names are relative.
func Parse(file string, data []byte) (*Set, []yamlfile.Fault, error) {
	l := newLoader()
	l.decode(file, data)
	return l.finish()
}

// ParseConfigMap reads the rules files in Kubernetes ConfigMaps as one set; places are those of the manifest. Files
// that the rules name are looked for in the ConfigMaps before the disk, and the one of secret_file may be missing. found is false when no ConfigMap has rules.
func ParseConfigMap(file string, data []byte) (set *Set, warnings []yamlfile.Fault, found bool, err error) {
	inner, _ := yamlfile.ConfigMap(file, data)
	l := newLoader()
	l.bundled, l.lenient = inner, true // the key of hashes is in a Secret
	for _, part := range inner {
		if HoldsRules(part.Data) {
			found = true
			l.decode(part.File, part.Data, part.Within())
		}
	}

	if !found {
		return nil, nil, false, nil
	}
	set, warnings, err = l.finish()
	return set, warnings, true, err
}

// HoldsRules reports whether data looks like a rules file, with mistakes or not: it has rules or allow at its top, and
// no key of weir.yaml or another file there.
func HoldsRules(data []byte) bool {
	var top anyMap
	_ = yamlfile.Decode("", data, &top) // report files with mistakes too
	if top == nil {                     // not YAML
		top = anyMap{}
		for _, line := range topLine.FindAllSubmatch(data, -1) {
			top[string(line[1])] = true
		}
	}

	// Other files have rules too: weir.yaml under that key, and tests of rules.
	for _, other := range []string{"data", "mode", "client", "geoip", "time", "log", "kafka", "store", "collector", "aggregator", "enforcer", "kind", "tests"} {
		if top[other] {
			return false
		}
	}

	return top["rules"] || top["allow"]
}

var topLine = regexp.MustCompile(`(?m)^([a-z]+):`)

// anyMap is the keys of a map.
type anyMap map[string]bool

// FromYAML reads the keys and nothing under them.
func (m *anyMap) FromYAML(v yamlfile.Value) {
	*m = anyMap{}
	pairs, _ := v.Map()
	for _, pair := range pairs {
		(*m)[pair.Name] = true
	}
}

// FromLimits makes a set of one rule with the defaults, from the values of flags: limits such as 10/min, and a key such
// as ip or ip,path. The rule is called per-ip, per-ip-path and so on.
func FromLimits(limits []string, key string) (*Set, error) {
	var errs []error
	spec := newRuleSpec()
	spec.Algorithm.Subwindows = DefaultSubwindows
	for _, text := range limits {
		limit, err := ParseLimit(text)
		errs = append(errs, err)
		spec.Limits = append(spec.Limits, limit)
	}

	if len(limits) == 0 {
		errs = append(errs, errors.New("no limit is given; write it as 10/min"))
	}
	var err error
	spec.Key, err = ParseKey(key)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}

	spec.Name = "per-" + strings.Trim(notInName.Replace(spec.Key.String()), "-")
	l := newLoader()
	l.rules = []*Rule{spec.rule()}
	set, _, err := l.finish()
	return set, err
}

var notInName = strings.NewReplacer(",", "-", "/", "-", "+", "-", "$", "", "@", "", ":", "-")

// A loader builds a set from files.
type loader struct {
	name         string           // of the first file
	bundled      []yamlfile.Inner // files that are looked for before those of the disk
	rules        []*Rule
	allows       []allowIn
	crawling     []allowSpec  // allow entries of crawlers
	crawlers     crawlersSpec // of one's own
	spelling     *pathsSpec   // of the first file that has it
	usersChecked bool
	secret       *secretFileSpec  // of the first file that has it
	secretOf     string           // that file
	lenient      bool             // a secret file that cannot be read is no fault
	fields       Fields           // of the requests that the rules are for
	placesUnread bool             // they were not read, so the set has no fingerprint if it uses them
	places       *geoip.Databases // that the rules are for; nil when they are not known
	files        []string
	faults       yamlfile.Faults
	warnings     yamlfile.Faults
}

// An allowIn is an allow entry and its file.
type allowIn struct {
	allowSpec
	file string
}

func newLoader() *loader { return &loader{} }

func (l *loader) fault(file, remedy, format string, args ...any) {
	l.faults = append(l.faults, yamlfile.Fault{File: file, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// paths are the files of the patterns, each once.
func (l *loader) paths(patterns []string) []string {
	var paths []string
	if len(patterns) == 0 {
		l.fault("", "name a rules file", "no rules are given")
	}

	for _, pattern := range patterns {
		for _, path := range l.matching(pattern) {
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				l.fault(path, "write "+filepath.Join(path, "*.yaml"), "this is a folder")
			} else if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}

	return paths
}

// matching are the files of a pattern; a path means the file of that name, whatever characters it contains.
func (l *loader) matching(pattern string) []string {
	if _, err := os.Stat(pattern); err == nil || !strings.ContainsAny(pattern, "*?[") {
		return []string{pattern}
	}
	found, err := filepath.Glob(pattern)
	switch {
	case err != nil:
		l.fault(pattern, "", "the pattern is not valid: %v", err)
	case len(found) == 0:
		l.fault(pattern, "", "no file matches this pattern")
	}
	return found
}

// reason is a file system error without the path, which stands before it.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

func (l *loader) decode(file string, data []byte, opts ...yamlfile.Option) {
	var spec fileSpec
	var warnings yamlfile.Faults
	l.faults = append(l.faults, yamlfile.Decode(file, data, &spec, append(opts, yamlfile.Warnings(&warnings))...)...)
	l.warnings = append(l.warnings, warnings...)
	l.add(file, spec)
}

func (l *loader) add(file string, spec fileSpec) {
	l.name = cmp.Or(l.name, file)
	l.addPaths(spec.Paths)
	l.addSecret(spec.SecretFile, file)
	l.usersChecked = l.usersChecked || bool(spec.Users)
	spec.guarded()
	for i := range spec.Rules {
		l.rules = append(l.rules, spec.Rules[i].rule())
	}
	l.addCrawlers(spec.Crawlers)
	for _, allow := range spec.Allow {
		if len(allow.Crawler.words) > 0 {
			l.crawling = append(l.crawling, allow)
			continue
		}
		l.allows = append(l.allows, allowIn{allow, file})
	}
}

// addPaths keeps a file's settings for paths, which apply to all rules of the set.
func (l *loader) addPaths(p pathsSpec) {
	switch {
	case !p.given:
	case l.spelling == nil:
		l.spelling = &p
	case l.spelling.form() != p.form():
		fault, first := p.place.Place(), l.spelling.place.Place()
		fault.What = fmt.Sprintf("paths differs from the one at %s:%d", first.File, first.Line)
		fault.Remedy = "write paths once: it applies to all rules that are read together"
		l.faults = append(l.faults, fault)
	}
}

// finish makes the checks across files, and makes the set if there are no errors.
func (l *loader) finish() (*Set, []yamlfile.Fault, error) {
	set := &Set{Rules: l.rules}
	if l.spelling != nil {
		set.Paths = l.spelling.form()
	}

	l.checkNames()
	l.checkAbove()
	l.checkTraffic()
	l.checkFields()
	l.hide(set)
	set.Crawlers = l.findCrawlers()
	for i := range l.allows {
		set.Allows = append(set.Allows, l.allow(&l.allows[i]))
	}

	if set.locate(l.places); l.places != nil {
		l.faults = append(l.faults, set.unlocated()...)
	}
	if len(l.rules) == 0 && len(l.faults) == 0 {
		l.fault(l.name, "write rules: with at least one rule under it", "there are no rules")
	}
	if len(l.faults) > 0 {
		return nil, l.warnings, l.faults.Sorted()
	}

	// Warnings only for a set without errors: they depend on complete rules.
	l.claims(set)
	l.memberless(set)
	l.spellings(set)
	l.exposed(set)
	for _, allow := range set.Allows {
		allow.prepare(set.Rules)
	}

	for i, r := range set.Rules {
		if r.Inline {
			set.inline = append(set.inline, i)
		}
	}

	set.allowed, set.files = newAllowed(set.Allows), l.files
	if (set.secret == nil || set.secret.key != nil) && !(l.placesUnread && len(set.placesUsed()) > 0) {
		set.fingerprint = fingerprint(set)
	}
	return set, l.warnings, nil
}

// checkNames finds duplicate names of rules.
func (l *loader) checkNames() {
	first := map[string]*Rule{}
	for _, r := range l.rules {
		earlier, twice := first[r.Name]
		if !twice || r.Name == "" {
			first[r.Name] = r
			continue
		}
		fault := r.place
		fault.What = fmt.Sprintf("the name %s has the rule at %s:%d already", r.Name, earlier.place.File, earlier.place.Line)
		fault.Remedy = "give each rule a name of its own"
		l.faults = append(l.faults, fault)
	}
}

// allow reads an entry's files and looks up its rules.
func (l *loader) allow(a *allowIn) *Allow {
	prefixes, faults := a.IP.Read(func(name string) (string, []byte, error) { return l.read(a.file, name) })
	l.faults = append(l.faults, faults...)
	if widest, ok := a.IP.WidestOfFiles(prefixes); ok {
		warning := a.place
		warning.What, warning.Remedy = tooWide(widest)
		warning.What = "in a file, " + warning.What
		l.warnings = append(l.warnings, warning)
	}
	var names []string
	for _, r := range l.rules {
		if r.Name != "" && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}

	// An entry for a rule that is not there would allow nothing, without a word.
	for i, name := range a.Rules.words {
		if !slices.Contains(names, name) && name != "" {
			fault := a.Rules.places[i].Place()
			fault.What, fault.Remedy = "there is no rule "+name, nearest.Suggest(name, names, "the rules are ")
			l.faults = append(l.faults, fault)
		}
	}

	return a.allow(prefixes)
}

// read is the path and the content of a file that a rules file names.
func (l *loader) read(from, name string) (string, []byte, error) {
	for _, inner := range l.bundled {
		if inner.Name == name {
			return strings.TrimSuffix(inner.File, "["+name+"]") + "[" + name + "]", inner.Data, nil
		}
	}

	// Relative to the rules file, and not to where the process was started.
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(from), name)
	}
	data, err := regular.ReadFile(name)
	if err != nil {
		return name, nil, fmt.Errorf("the file %s cannot be read: %s", name, reason(err))
	}
	if !slices.Contains(l.files, name) {
		l.files = append(l.files, name)
	}

	return name, data, nil
}
