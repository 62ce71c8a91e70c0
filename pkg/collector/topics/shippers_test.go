package topics

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
	"weir/test/sink"
)

// A shipped is the form in which a shipper writes into a topic: package request's examples of each.
type shipped struct {
	Envelope, Format string
	Fields           map[string]string
	name             string
	records          []string
}

func shippers(t testing.TB) []shipped {
	t.Helper()
	files, err := filepath.Glob("../../request/testdata/decode/*.log")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	var all []shipped
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(data), "\n")
		s := shipped{name: strings.TrimSuffix(filepath.Base(file), ".log")}
		if err := json.Unmarshal([]byte(head), &s); err != nil {
			t.Fatal(file, err)
		}
		s.records = strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
		all = append(all, s)
	}
	return all
}

func (s *shipped) options() request.Options {
	return request.Options{Fields: s.Fields}
}

// hits adds the hits of the records, read without any collector.
func (s *shipped) hits(t testing.TB, b *bench, into map[string]int64) (hits int64) {
	t.Helper()
	decoder, err := request.NewDecoder(s.Envelope, s.Format, s.options())
	if err != nil {
		t.Fatal(err)
	}
	judge := b.rules.NewJudge()
	for _, record := range s.records {
		decoder.DecodeEach(record, func(r *request.Request, err error) {
			if err != nil || r.UnixMilli > time.Now().UnixMilli() {
				return
			}
			for _, h := range judge.Hits(r) {
				into[b.rules.Rules[h.Rule].Name+" "+string(h.Key)] += h.Cost
				hits += h.Cost
			}
		})
	}
	return hits
}

// The records of each shipper go through a topic of their own, in one collector, and give the expected hits.
func TestShippersRecordsComeThroughTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 1)
		var sources []sourceConfig
		for _, s := range shippers(t) {
			one := newBench(t, config, 1)
			one.make()
			one.write(messagesOf(s.records)...)
			if s.hits(t, b, b.want) == 0 {
				t.Logf("%s holds no hit", s.name)
			}
			of := *one.source.Kafka
			of.Client = one.client
			sources = append(sources, sourceConfig{IntakeConfig: pipeline.IntakeConfig{Name: s.name, Envelope: s.Envelope, Format: s.Format, Options: s.options()}, Kafka: &of})
		}
		if sum := sink.Brief(b.want); len(b.want) < 5 {
			t.Fatal(sum)
		}
		b.read(func(c *reading) { c.Sources = sources })
	})
}

func messagesOf(records []string) []topic.Message {
	var messages []topic.Message
	for _, record := range records {
		messages = append(messages, topic.Message{Value: []byte(record)})
	}
	return messages
}

// The envelope and the format are found out, and the next owner does not have to find them again. Records that only
// leaves out are counted as filtered.
func TestATopicsFormatIsFoundOutAndItsRecordsFiltered(t *testing.T) {
	b := newBench(t, embedded(t), 1)
	b.make()
	b.source.Envelope, b.source.Format = "auto", "auto"
	b.source.Only = func(field func(string) (string, bool)) bool {
		app, _ := field("kubernetes.labels.app")
		return app == "shop"
	}
	record := func(app string) string {
		line := b.line()
		if app != "shop" {
			b.want["per-ip "+strings.Fields(line)[0]]--
		}
		text, _ := json.Marshal(map[string]any{"@timestamp": 1772363999.123456, "log": line, "stream": "stdout", "kubernetes": map[string]any{"labels": map[string]string{"app": app}}})
		return string(text)
	}
	var records []string
	for range 40 {
		records = append(records, record("shop"), record("other"))
	}
	b.write(messagesOf(records)...)
	c := b.read()
	c.stop()
	if status := c.Status().Sources[0]; !strings.Contains(status.Format, "combined in fluentbit") {
		t.Errorf("the format is %s", status.Format)
	}
	note, _, err := readNote(b.commits()[0])
	if err != nil || note.Envelope != "fluentbit" || note.Format != "combined" {
		t.Errorf("committed: %+v %v", note, err)
	}
	b.write(messagesOf([]string{record("shop")})...) // too few records to find out the form
	c = b.read()
	c.stop()
	if c.said.Has("found out the format") {
		t.Error("it was found out again")
	}
}
