package kinesis_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/amazon"
	"weir/pkg/collector/kinesis"
)

// An answer without what was asked for, or with too much, is an error.
func TestAnswersThatSayNothing(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	for _, answer := range []string{"{}", "null", `{"StreamDescriptionSummary":null}`, `{"StreamDescriptionSummary":{}}`, `{"x":[` + strings.Repeat("{},", 5_000_000) + "{}]}"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		stream := kinesis.New(kinesis.Options{Stream: "logs", Where: amazon.Options{Region: "eu-central-1", Endpoint: server.URL}})
		if _, err := stream.List(t.Context()); err == nil {
			t.Errorf("%.40s: no error", answer)
		}
		server.Close()
	}
}
