package telemetry

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Text from outside cannot change how a line of JSON is shown, and stays the same text.
func TestJSONLinesHaveNoHiddenCharacters(t *testing.T) {
	for text, shown := range map[string]string{
		"a\u202eb":     `"a\u202eb"`,
		"\u009b2J\x7f": `"\u009b2J\u007f"`,
		"\U000e0041":   `"\udb40\udc41"`,
		"größer 漢字 😀":  `"größer 漢字 😀"`,
	} {
		var b bytes.Buffer
		logger, err := Log(&b, "info", "json")
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("x", "text", text)
		var line struct{ Text string }
		if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Text != text {
			t.Errorf("%q, %v is not %q", line.Text, err, text)
		}
		if !bytes.Contains(b.Bytes(), []byte(`"text":`+shown)) {
			t.Errorf("%q has not %s", b.String(), shown)
		}
	}
}
