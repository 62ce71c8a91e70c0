package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/pkg/rule"
)

func TestInitWritesAConfigurationThatRuns(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "weir")
	var out, errs bytes.Buffer
	if code := run([]string{"weir", "init", folder}, nil, &out, &errs); code != exit.Done {
		t.Fatal(code, errs.String())
	}
	c, warnings, err := config.Load(config.Options{File: filepath.Join(folder, "weir.yaml")})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if c.Mode != config.Shadow || len(c.RuleSet.Rules) != 2 || c.RuleSet.Rules[0].Mode != rule.Shadow || len(c.Collector.Sources) == 0 {
		t.Errorf("%+v", c)
	}
	written, err := os.ReadFile(filepath.Join(folder, "weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"weir", "init", folder}, nil, &out, &errs); code != exit.Failed || !strings.Contains(errs.String(), "exists already") {
		t.Error(code, errs.String())
	}
	if again, _ := os.ReadFile(filepath.Join(folder, "weir.yaml")); !bytes.Equal(again, written) {
		t.Error("what was there is another now")
	}
}
