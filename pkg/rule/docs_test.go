package rule_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/pkg/rule"
)

// Every example in docs/rules.md is read without an error or a warning.
func TestDocumentedExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 8 {
		t.Fatalf("only %d examples were found", len(blocks))
	}
	for _, block := range blocks {
		if set, _, found, err := rule.ParseConfigMap("manifest", []byte(block[1])); found {
			if err != nil || len(set.Rules) == 0 {
				t.Errorf("%v in\n%s", err, block[1])
			}
			continue
		}
		text := block[1]
		if !strings.Contains(text, "rules:\n") {
			text += "rules: [{name: any, key: ip, limits: [1/s]}]\n"
		}
		_, warnings, err := rule.Parse("testdata/docs.yaml", []byte(text))
		if strings.Contains(text, "key: asn") && len(warnings) == 1 && strings.Contains(warnings[0].What, "without a database") {
			warnings = nil // weir.yaml names it
		}
		if err != nil || warnings != nil {
			t.Errorf("%v %v in\n%s", err, warnings, block[1])
		}
	}
}

// The expressions that docs/rules.md shows in its table are read, and so is every word of a rule.
func TestDocumentedWords(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range []string{`method in ["GET", "HEAD"]`, `status in 400..499`, `path startsWith "/api/"`, `path matches "^/v[0-9]+/"`,
		`inNetwork(ip, "10.0.0.0/8", "2001:db8::/32")`} {
		if !strings.Contains(string(page), "`"+match+"`") {
			t.Errorf("%s is not documented", match)
		}
		mustParse(t, "rules: [{name: a, key: ip, limits: [1/s], match: '"+match+"'}]")
	}
	for _, word := range regexp.MustCompile(`"(\w+)": \{`).FindAllStringSubmatch(string(rule.Schema), -1) {
		if word[1] != "properties" && word[1] != "items" && word[1] != "dependentRequired" && word[1] != "dependentSchemas" && word[1] != "propertyNames" && word[1] != "additionalProperties" && word[1] != "if" && word[1] != "then" && word[1] != "else" && !strings.Contains(string(page), "`"+word[1]) && !strings.Contains(string(rule.Schema), "$defs/"+word[1]+`"`) &&
			!strings.Contains(string(page), word[1]+":") {
			t.Errorf("%s is not documented", word[1])
		}
	}
}
