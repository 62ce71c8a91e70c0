package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/yamlfile"
)

// A row of docs/configuration.md; its default is empty when there is none.
type row struct{ key, kind, fallback string }

func documented(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	line := regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\|([^|]*)\\|([^|]*)\\|")
	for _, match := range line.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, row{match[1], strings.TrimSpace(match[2]), strings.TrimSpace(match[3])})
	}
	return rows
}

func TestEveryKeyIsDocumentedAndEveryDocumentedKeyIsThere(t *testing.T) {
	keys := Keys()
	var rows []string
	for _, row := range documented(t) {
		rows = append(rows, row.key)
		if !slices.Contains(keys, row.key) {
			t.Errorf("docs/configuration.md has %s, and the configuration has not", row.key)
		}
	}
	for _, key := range keys {
		if !slices.Contains(rows, key) {
			t.Errorf("docs/configuration.md does not have %s", key)
		}
	}
	if len(rows) != len(keys) {
		t.Errorf("%d keys, and %d rows: one stands there twice", len(keys), len(rows))
	}
}

// A default in the documentation, set in a file, changes nothing.
func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	literal := regexp.MustCompile("^`([^`]*)`$")
	checked := 0
	for _, row := range documented(t) {
		value := literal.FindStringSubmatch(row.fallback)
		if value == nil || row.key == "rules" || row.key == "collector.sources[].late" {
			continue
		}
		var base string
		key := row.key
		if strings.Contains(key, "[]") {
			base = "collector: {sources: [{file: a.log}]}\n"
			key = strings.Replace(key, "[]", ".0", 1)
		}
		if strings.HasPrefix(row.key, "collector.sources[].dedupe.") {
			base = "collector: {sources: [{file: a.log, dedupe: {by: request_id}}]}\n"
		}
		if strings.HasPrefix(row.key, "collector.sources[].amqp.") {
			base = "collector: {sources: [{amqp: {url: 'amqp://a:1', queue: a}}]}\n"
		}
		if strings.HasPrefix(row.key, "collector.sources[].hdfs.") {
			base = "collector: {sources: [{hdfs: {url: 'http://a:1', path: /a}}]}\n"
		}
		if kind, _, within := strings.Cut(strings.TrimPrefix(row.key, "notify[]."), "."); strings.HasPrefix(row.key, "notify[].") {
			if !within || receiverOf[kind] == "" {
				kind = "webhook"
			}
			base = "notify: [{name: one, " + kind + ": " + receiverOf[kind] + "}]\n"
		}
		if strings.HasPrefix(key, "inline.store.") {
			base = "inline: {store: {postgres: 'postgres://a/b'}}\n"
		}
		without := decoded(t, base, "", "")
		with := decoded(t, base, key, value[1])
		checked++
		if !reflect.DeepEqual(without, with) {
			t.Errorf("%s: %s is not the default:\n%+v\n%+v", row.key, value[1], without, with)
		}
	}
	if checked < 20 {
		t.Errorf("only %d defaults were compared", checked)
	}
}

// receiverOf has the least that each kind of receiver needs.
var receiverOf = map[string]string{"webhook": "{url: 'https://a/b'}", "slack": "{url_file: a}", "mattermost": "{url_file: a}", "pagerduty": "{routing_key_file: a}",
	"alertmanager": "{url: 'http://a:9093'}", "mail": "{server: 'a:587', from: a@example.com, to: b@example.com}"}

func decoded(t *testing.T, base, key, value string) *Config {
	t.Helper()
	o := Options{File: "weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"}, Siblings: []yamlfile.Inner{{Name: "rules.yaml"}}}
	if key != "" {
		o.Set = []string{key + "=" + value}
	}
	c, _, err := Read([]byte(base), o)
	if err != nil {
		t.Fatalf("%s=%s: %v", key, value, err)
	}
	return c
}

// Keys contains every field of the structs that is not a section itself.
func TestKeysLeaveNoSectionOut(t *testing.T) {
	var walk func(path string, of reflect.Type)
	keys := Keys()
	walk = func(path string, of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for _, name := range yamlfile.Names(reflect.New(of).Interface()) {
			if !slices.Contains(keys, path+name) {
				t.Errorf("Keys lacks %s", path+name)
			}
		}
		for i := range of.NumField() {
			field := of.Field(i)
			name := field.Tag.Get("yaml")
			if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
				name += "[]"
			}
			if name != "" && field.IsExported() {
				walk(path+name+".", field.Type)
			}
		}
	}
	walk("", reflect.TypeOf(Config{}))
}

func TestVariablesOfAllKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, key := range Keys() {
		if other, twice := seen[variable(key)]; twice {
			t.Errorf("%s and %s are both %s", key, other, variable(key))
		}
		seen[variable(key)] = key
	}
}
