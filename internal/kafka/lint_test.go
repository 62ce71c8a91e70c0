package kafka_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The parts of kafka-go that panic or never end on a cleaned log, or queue without a bound.
var banned = regexp.MustCompile(`\bkafka(go)?\.(NewReader|NewWriter|Reader|ReaderConfig|Writer|WriterConfig|NewBatch|Batch|Dial|DialContext|DialLeader|DialPartition)\b|\.ReadBatch\w*\(|\.ReadMessage\(|\.WriteMessages\(`)

var (
	vendor   = regexp.MustCompile(`"github\.com/segmentio/kafka-go"`)
	comments = regexp.MustCompile(`(?m)//.*$`)
)

// TestKeptOut searches the entire tree.
func TestKeptOut(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || path == "../../internal/kafka/lint_test.go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if found := banned.Find(comments.ReplaceAll(source, nil)); found != nil && vendor.Match(source) {
			t.Errorf("%s uses %s of kafka-go", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBannedFindsThem(t *testing.T) {
	for _, line := range []string{"kafkago.NewReader(c)", "r := kafka.Reader{}", "kafkago.WriterConfig{", "conn.ReadBatchWith(c)", "kafkago.DialLeader(ctx)"} {
		if !banned.MatchString(line) {
			t.Errorf("%s is let through", line)
		}
	}
	for _, line := range []string{"kafkago.NewRecordReader(r)", "kafkago.RecordReader", "&kafkago.Dialer{", "io.Writer"} {
		if banned.MatchString(line) {
			t.Errorf("%s is not", line)
		}
	}
}
