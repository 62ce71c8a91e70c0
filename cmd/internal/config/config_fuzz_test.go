package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"weir/cmd/internal/config"
)

// For every file Read does not panic, accepts a second time the settings that it accepted, and returns faults that have a
// file and a text.
func FuzzConfig(f *testing.F) {
	for _, file := range []string{"../../../examples/weir.yaml", "../../../examples/rules.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), "kafka.brokers=[a:9092]")
	}
	f.Add("mode: shadow\nstore: {redis: 'redis://a:1,b:2/0?master=x'}", "collector.sources.0.late=5m")
	f.Add("collector: {sources: [{syslog: 'udp://[::1]:514', from: [{file: f}]}]}", "store=disk")
	f.Add("rules: [a.yaml, 'rules.d/*.yaml']", "rules={rules: []}")
	f.Add("rules: {allow: [{ip: 10.0.0.0/8}]}", "=")
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text, setting string) {
		o := config.Options{File: filepath.Join(folder, "weir.yaml"), Set: []string{setting}}
		_, warnings, err := config.Read([]byte(text), o)
		_, again, errAgain := config.Read([]byte(text), o)
		if (err == nil) != (errAgain == nil) || len(warnings) != len(again) {
			t.Fatalf("%v, then %v", err, errAgain)
		}
		for _, fault := range faultsOf(err) {
			if fault.File == "" || fault.What == "" {
				t.Errorf("%q says nothing", fault)
			}
		}
	})
}
