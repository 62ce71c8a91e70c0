package request

import (
	"strings"
	"testing"
)

// A record that no format can read names the setting at its sender.
func TestUnreadableRecordsNameTheRemedy(t *testing.T) {
	for record, want := range map[string]string{
		"\x00\x00\x00\x00\x07\x02a":     "value.converter.schemas.enable=false", // the id of a schema, then Avro
		"\x00\x00\x00\x00\x07{\"a\":1}": "value.converter.schemas.enable=false", // JSON Schema
		"\x1f\x8b\x08\x00":              "compression.type",
		"\x82\xa1a\x01":                 "write JSON",
		"\x0a\x03\xff\x01":              "write lines or JSON",
		"203.0.113.7 - -":               "",
		"":                              "",
	} {
		if got := senderFault(record); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: %q, want %q", record, got, want)
		}
	}
}
