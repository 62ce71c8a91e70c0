package request

import (
	"strings"
	"unicode/utf8"
)

// senderFault is what to change at the sender of a record that no format can read; "" when nothing is known.
func senderFault(record string) string {
	switch {
	case record == "":
		return ""
	case strings.HasPrefix(record, "\x1f\x8b"), strings.HasPrefix(record, "\x28\xb5\x2f\xfd"):
		return "the records are compressed one by one: let the producer compress batches instead (compression.type, rdkafka.compression.codec)"
	case record[0] == 0 && len(record) > 5:
		return "the records are those of a schema registry (Avro, Protobuf or JSON Schema): write JSON without a schema, " +
			"as with value.converter=org.apache.kafka.connect.json.JsonConverter and value.converter.schemas.enable=false"
	case utf8.ValidString(record):
		return ""
	case record[0] >= 0x80 && record[0] <= 0x9f, record[0] >= 0xdc && record[0] <= 0xdf:
		return "the records are MessagePack: write JSON, as with format json in Fluent Bit or codec: json in Vector"
	case strings.ContainsAny(record[:min(len(record), 64)], "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x10\x12"):
		return "the records are not text: write lines or JSON, as with encoding: otlp_json or otlp_proto in an OpenTelemetry collector, or codec: json in Vector"
	}
	return ""
}
