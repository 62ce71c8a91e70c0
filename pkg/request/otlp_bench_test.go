package request

import (
	"testing"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// BenchmarkOTLPRecord reads a record of 1,000 lines in both encodings; library is protobuf's own Unmarshal of it alone.
func BenchmarkOTLPRecord(b *testing.B) {
	var records []*logs.LogRecord
	for range 1000 {
		records = append(records, &logs.LogRecord{TimeUnixNano: 1772360130000000000, Body: text(aliceLine)})
	}
	data := &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}}}}}
	wire, _ := proto.Marshal(data)
	json, _ := protojson.Marshal(data)
	for name, record := range map[string]string{"protobuf": string(wire), "json": string(json)} {
		b.Run(name, func(b *testing.B) {
			d := newDecoder(b, "otlp", "combined", Options{})
			b.ReportAllocs()
			for b.Loop() {
				d.DecodeEach(record, func(*Request, error) {})
			}
		})
	}
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal(wire, new(logs.LogsData)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
