package request

import (
	"strings"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

func number(n int64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
}

func bytesOf(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte(s)}}
}

func list(values ...*common.AnyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: values}}}
}

func attributes(values ...*common.KeyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: values}}}
}

func attribute(key string, value *common.AnyValue) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: value}
}

// shippedLogs are logs as an OpenTelemetry collector sends them.
func shippedLogs() *logs.LogsData {
	lines := []*logs.LogRecord{
		{TimeUnixNano: 1772360130000000000, ObservedTimeUnixNano: 1772366400000000000, Body: text(aliceLine), Attributes: []*common.KeyValue{attribute("log.file.name", text(`a"b\c`+"\n"))}},
		{ObservedTimeUnixNano: 1772366400000000000, Body: bytesOf(aliceLine), SeverityNumber: 9, SeverityText: "INFO", TraceId: []byte("0123456789abcdef"), Flags: 1},
		{Body: text("garbage")},
		{Body: text("")},
		{},
	}
	fields := []*logs.LogRecord{
		{TimeUnixNano: 1772360130123456789, Attributes: []*common.KeyValue{
			attribute("client.address", text("203.0.113.7")), attribute("http.request.method", text("GET")), attribute("url.path", text("/api/items")),
			attribute("http.response.status_code", number(200)), attribute("took", &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 0.25}}),
			attribute("http.request.header.x-forwarded-for", list(text("198.51.100.1"), text("10.0.0.1"))), attribute("nothing", nil), attribute("", text("x")),
			attribute("raw", bytesOf("\xff\x00")),
			attribute("ok", &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}),
		}},
		{ObservedTimeUnixNano: 1772366400000000000, Body: attributes(attribute("source", attributes(attribute("ip", text("198.51.100.9")))), attribute("url", attributes(attribute("path", text("/login")))))},
	}
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{
		{
			Resource:  &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", text("nginx")), attribute("k8s.pod.name", text("web-1"))}},
			SchemaUrl: "https://opentelemetry.io/schemas/1.9.0",
			ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "otelcol", Version: "1", Attributes: []*common.KeyValue{attribute("scope.note", text("s"))}}, LogRecords: lines}, {}},
		},
		{ScopeLogs: []*logs.ScopeLogs{{LogRecords: fields}}},
	}}
}

// readsOTLP describes the requests of a record of logs.
func readsOTLP(t testing.TB, format, record string) string {
	t.Helper()
	d := newDecoder(t, "otlp", format, Options{})
	var all strings.Builder
	d.DecodeEach(record, func(r *Request, err error) {
		all.WriteString(describe(r, err))
		for _, name := range []string{"service.name", "k8s.pod.name", "scope.note", "log.file.name", "raw", "client.address"} {
			value, ok := d.Envelope(name)
			if ok {
				all.WriteString(name + "=" + value + "\n")
			}
		}
	})
	return all.String()
}

// TestOTLPInProtobuf: both encodings give the same requests.
func TestOTLPInProtobuf(t *testing.T) {
	data := shippedLogs()
	wire, err := proto.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"combined", "ecs", "json"} {
		got, want := readsOTLP(t, format, string(wire)), readsOTLP(t, format, string(text))
		if got != want {
			t.Errorf("%s: protobuf gives\n%s\nJSON gives\n%s", format, got, want)
		}
	}
	if got := readsOTLP(t, "combined", string(wire)); strings.Count(got, "alice") != 2 || !strings.Contains(got, "service.name=nginx") || !strings.Contains(got, "scope.note=s") {
		t.Error(got)
	}
	if got := readsOTLP(t, "ecs", string(wire)); !strings.Contains(got, "203.0.113.7") || !strings.Contains(got, "198.51.100.9") {
		t.Error(got)
	}

	data.ResourceLogs[0].ScopeLogs[0].LogRecords = data.ResourceLogs[0].ScopeLogs[0].LogRecords[:2]
	for i, format := range []string{"combined", "ecs"} {
		sample, err := proto.Marshal(&logs.LogsData{ResourceLogs: data.ResourceLogs[i : i+1]})
		choice, unknown := Detect([]string{string(sample), string(sample)}, Options{})
		if err != nil || unknown != nil || choice.Envelope != "otlp" || choice.Format != format {
			t.Errorf("chose %s, %v", choice, unknown)
		}
	}
	d := newDecoder(t, "otlp", "combined", Options{})
	count := func(*Request, error) {}
	if n := testing.AllocsPerRun(100, func() { d.DecodeEach(string(wire), count) }); n > 1 { // the conversion to a string
		t.Errorf("%v allocations", n)
	}
	for cut := range len(wire) - 1 {
		if CheckOTLP(wire[:cut+1]) && proto.Unmarshal(wire[:cut+1], new(logs.LogsData)) != nil {
			t.Errorf("%d bytes are damaged, and accepted", cut+1)
		}
	}
}

// TestAnOTLPBodyReplacesNoAttributes: a client may have written the body of a log record whose attributes are the request.
func TestAnOTLPBodyReplacesNoAttributes(t *testing.T) {
	forged := text(`{"source.ip":"203.0.113.66","http.request.method":"POST","url.path":"/login","@timestamp":"2026-03-01T10:15:30Z"}`)
	address := attribute("source.ip", text("198.51.100.9"))
	wire, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{
		{TimeUnixNano: 1772360130000000000, Body: forged, Attributes: []*common.KeyValue{address, attribute("url.path", text("/"))}},
		{TimeUnixNano: 1772360130000000000, Body: forged, Attributes: []*common.KeyValue{attribute("log.file.name", text("access.json"))}},
	}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := eachOf(t, "otlp", "ecs", Options{}, string(wire)); len(got) != 2 || got[0] != "198.51.100.9" || got[1] != "203.0.113.66" {
		t.Error(got)
	}
}

// The same is true for a body with fields. And a program whose log records have an attribute of the resource's name does
// not stand for the program that the resource names.
func TestAnOTLPRecordReplacesNothingAroundIt(t *testing.T) {
	body := attributes(attribute("source.ip", text("203.0.113.66")), attribute("url.path", text("/")))
	record := &logs.LogRecord{TimeUnixNano: 1772360130000000000, Body: body, Attributes: []*common.KeyValue{attribute("source.ip", text("198.51.100.9")), attribute("job", text("nginx"))}}
	wire, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{attribute("job", text("other"))}},
		ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{record}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDecoder("otlp", "ecs", Options{})
	if err != nil {
		t.Fatal(err)
	}
	d.DecodeEach(string(wire), func(r *Request, err error) {
		if job, _ := d.Envelope("job"); err != nil || r.IP.String() != "198.51.100.9" || job != "other" {
			t.Error(r.IP, job, err)
		}
	})
}

// A body with fields adds nothing to attributes that are a request, whatever the names in it: a client may have written it.
func TestAnOTLPBodyAddsNothingToARequest(t *testing.T) {
	request := []*common.KeyValue{attribute("client.address", text("198.51.100.9")), attribute("http.request.method", text("POST")), attribute("url.path", text("/login"))}
	file := []*common.KeyValue{attribute("log.file.name", text("access.json"))}
	bodies := []*common.AnyValue{
		attributes(attribute("source.ip", text("203.0.113.66")), attribute("url.original", text("/x")), attribute("user.name", text("victim"))),
		attributes(attribute("source", attributes(attribute("ip", text("203.0.113.66"))))),
		attributes(attribute("ts", text("2026-03-01T10:15:30Z")), attribute("request", attributes(attribute("client_ip", text("203.0.113.66")), attribute("uri", text("/x"))))),
	}
	for _, format := range []string{"ecs", "json"} {
		for i, body := range bodies {
			for _, has := range [][]*common.KeyValue{request, file} {
				wire, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{
					{TimeUnixNano: 1772360130000000000, Body: body, Attributes: has}}}}}}})
				if err != nil {
					t.Fatal(err)
				}
				newDecoder(t, "otlp", format, Options{}).DecodeEach(string(wire), func(r *Request, err error) {
					switch alone := len(has) == 1; {
					case !alone && (err != nil || r.IP.String() != "198.51.100.9" || r.Path != "/login" || r.User != ""):
						t.Errorf("%s, body %d: %v, %+v", format, i, err, r)
					case alone && format == "json" && i == 2 && (err != nil || r.IP.String() != "203.0.113.66"):
						t.Errorf("the body alone: %v, %+v", err, r)
					}
				})
			}
		}
	}
}

// TestDeepOTLP: what is nested too deeply is left out, and the rest is read.
func TestDeepOTLP(t *testing.T) {
	deep := text("x")
	for range 200 {
		deep = attributes(attribute("a", list(deep)))
	}
	wire, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{
		{Attributes: []*common.KeyValue{attribute("deep", deep)}, Body: text(aliceLine)}, {Body: text(aliceLine)},
	}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := eachOf(t, "otlp", "combined", Options{}, string(wire)); len(got) != 2 || got[0] != "203.0.113.7" {
		t.Error(got)
	}
}

// TestOTLPWithManyAttributes: the time for a body grows with its length, not with the product of its attributes and its
// log records. Otherwise this one would take hours.
func TestOTLPWithManyAttributes(t *testing.T) {
	const many = 100_000
	some := make([]*common.KeyValue, many, many+1)
	for i := range some {
		some[i] = attribute("a", text("b"))
	}
	some = append(some, attribute("last", text("c")))
	records := make([]*logs.LogRecord, many)
	for i := range records {
		records[i] = &logs.LogRecord{Body: text(aliceLine)}
	}
	wire, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{
		{Resource: &resource.Resource{Attributes: some}, ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Attributes: some}, LogRecords: records}}},
		{ScopeLogs: []*logs.ScopeLogs{{LogRecords: records[:1]}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, "otlp", "combined", Options{})
	with, without := 0, 0
	d.DecodeEach(string(wire), func(_ *Request, err error) {
		if last, has := d.Envelope("last"); err == nil && has && last == "c" {
			with++
		} else if _, has := d.Envelope("absent"); err == nil && !has {
			without++
		}
	})
	if with != many || without != 1 {
		t.Errorf("%d log records have the attribute and %d do not", with, without)
	}
}

// FuzzOTLPWire: no input panics, and what protobuf's own library reads gives the same requests as the JSON that it
// writes.
func FuzzOTLPWire(f *testing.F) {
	wire, _ := proto.Marshal(shippedLogs())
	f.Add(wire)
	f.Add([]byte("\x0a\x00"))
	f.Add([]byte("\n{\x0a\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, record []byte) {
		var data logs.LogsData
		fault := proto.Unmarshal(record, &data)
		for _, format := range []string{"combined", "ecs"} {
			got := readsOTLP(t, format, string(record))
			if fault != nil || !isOTLP(string(record)) || hasMerged(&data, record) {
				continue
			}
			text, err := protojson.Marshal(&data)
			if err != nil {
				continue
			}
			if want := readsOTLP(t, format, string(text)); got != want && !strings.Contains(string(text), `"doubleValue"`) && depthOf(&data) < 5 {
				t.Fatalf("%s: protobuf gives\n%s\nJSON gives\n%s", format, got, want)
			}
		}
	})
}

// hasMerged reports whether the library would write the message in another way: it merges messages that are there
// twice, and we take the last.
func hasMerged(data *logs.LogsData, record []byte) bool {
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(data)
	return err != nil || len(again) != len(record)
}

// depthOf is how deep the values of the logs are nested.
func depthOf(data *logs.LogsData) int {
	text := protojson.Format(data)
	deepest, depth := 0, 0
	for _, c := range text {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest / 10
}
