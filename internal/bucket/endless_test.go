package bucket_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/bucket"
)

// Answers that do not end are not kept in memory, and end with an error. Objects may have any length.
func TestAnswersWithoutAnEnd(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	endless := func(w http.ResponseWriter, status int, start, more string) {
		w.WriteHeader(status)
		_, err := io.WriteString(w, start)
		for more = strings.Repeat(more, 1000); err == nil; {
			_, err = io.WriteString(w, more)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			endless(w, 200, `{"Messages":[`, `{"MessageId":"a","ReceiptHandle":"b","Body":"`+strings.Repeat("x", 1000)+`"},`)
		case r.URL.Path == "/again":
			_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken></ListBucketResult>")
		case r.URL.Path == "/many":
			endless(w, 200, "<ListBucketResult>", "<Contents/>")
		case r.URL.Path == "/logs/refused":
			endless(w, 400, "<Error><Code>", "code")
		case r.URL.Path == "/logs/long":
			_, _ = io.CopyN(w, zeros{}, 100<<20)
		default:
			endless(w, 200, "<ListBucketResult>", "<Contents><Key>web/a</Key></Contents>")
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	where := bucket.Options{Region: "eu-central-1", Endpoint: server.URL}
	b := bucket.New("logs", where)
	for what, ask := range map[string]func(context.Context) error{
		"listing": func(ctx context.Context) error { return b.List(ctx, "web/", func(bucket.Object) error { return nil }) },
		"empty objects": func(ctx context.Context) error {
			return bucket.New("many", where).List(ctx, "web/", func(bucket.Object) error { return nil })
		},
		"the same page": func(ctx context.Context) error {
			return bucket.New("again", where).List(ctx, "web/", func(bucket.Object) error { return nil })
		},
		"queue": func(ctx context.Context) error {
			_, err := bucket.NewQueue(server.URL+"/1/weir", where).Receive(ctx)
			return err
		},
		"refusal": func(ctx context.Context) error {
			_, err := b.Open(ctx, &bucket.Object{Key: "refused"})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := ask(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", what, err)
		}
		runtime.ReadMemStats(&after)
		if took := (after.Sys - before.Sys) >> 20; after.Sys > before.Sys && took > 500 {
			t.Errorf("%s: %d MiB more", what, took)
		}
		cancel()
	}
	body, err := b.Open(t.Context(), &bucket.Object{Key: "long"})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); n != 100<<20 || err != nil {
		t.Errorf("an object of 100 MiB has %d bytes: %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
