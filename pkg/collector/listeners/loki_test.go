package listeners

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

func newLokiBench(t testing.TB) *httpBench {
	b := newHTTPBench(t)
	b.config.Sources = []sourceConfig{{
		IntakeConfig: pipeline.IntakeConfig{Name: "loki", Envelope: "otlp", Format: "combined", Only: func(field func(string) (string, bool)) bool {
			job, _ := field("job")
			return job == "nginx"
		}},
		HTTP: &HTTPConfig{Listen: "127.0.0.1:0", Loki: true},
	}}
	return b
}

// A lokiStream is a stream of a push.
type lokiStream struct {
	labels map[string]string
	lines  []string
}

// inJSON is a push as Fluent Bit and Grafana's clients write it in JSON.
func inJSON(streams ...lokiStream) []byte {
	var all []any
	for _, s := range streams {
		var values []any
		for i, line := range s.lines {
			values = append(values, []any{fmt.Sprint(1772360130000000000 + i), line, map[string]string{"trace": "7"}}[:2+i%2])
		}
		all = append(all, map[string]any{"values": values, "stream": s.labels})
	}
	text, _ := json.Marshal(map[string]any{"streams": all, "other": []int{1}})
	return text
}

// inProtobuf is a push as promtail writes it.
func inProtobuf(streams ...lokiStream) []byte {
	var push []byte
	for _, s := range streams {
		var labels []string
		for name, value := range s.labels {
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
		stream := appendPart(nil, streamLabels, []byte("{"+strings.Join(labels, ", ")+"}"))
		for i, line := range s.lines {
			at := protowire.AppendVarint(protowire.AppendTag(nil, timeSeconds, protowire.VarintType), 1772360130)
			at = protowire.AppendVarint(protowire.AppendTag(at, timeNanos, protowire.VarintType), uint64(i))
			entry := appendPart(appendPart(nil, entryTime, at), entryLine, []byte(line))
			entry = appendPart(entry, entryMetadata, appendPart(appendPart(nil, nameOfPair, []byte("trace")), valueOfPair, []byte("7")))
			stream = appendPart(stream, streamEntries, entry)
		}
		push = appendPart(push, pushStreams, protowire.AppendVarint(protowire.AppendTag(stream, 3, protowire.VarintType), 99))
	}
	return snappy.Encode(nil, push)
}

// push posts a body to the path of Loki.
func (b *httpBench) push(body []byte, headers ...string) (status int, text string) {
	b.T.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+b.address()+lokiPath, bytes.NewReader(body))
	if err != nil {
		b.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.T.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// TestLokiCountsALargePush: a push of almost the most bytes finds room, in both forms.
func TestLokiCountsALargePush(t *testing.T) {
	t.Parallel()
	b := newLokiBench(t)
	b.changed = func(l *httpLimits) { l.bodyBytes, l.memoryBytes = 1<<20, 4<<20 }
	b.start()
	lines := func() []string { return strings.Split(strings.TrimSpace(b.body(7000)), "\n") }
	of := map[string]string{"job": "nginx"}
	for _, c := range []struct{ body, kind string }{
		{string(inJSON(lokiStream{of, lines()})), "application/json"},
		{string(inProtobuf(lokiStream{of, lines()})), "application/x-protobuf"},
	} {
		if status, text := b.push([]byte(c.body), "Content-Type", c.kind); status != http.StatusNoContent {
			t.Fatalf("%s of %d bytes: %d %s", c.kind, len(c.body), status, text)
		}
	}
	b.sink.Await(t, b.Want)
}

// TestLokiCountsPushes: in protobuf and JSON, with the labels as fields of the record.
func TestLokiCountsPushes(t *testing.T) {
	t.Parallel()
	b := newLokiBench(t)
	b.start()
	streams := func() []lokiStream {
		lines := strings.Split(strings.TrimSpace(b.body(200)), "\n")
		return []lokiStream{
			{map[string]string{"job": "nginx", "host": `we"b`}, append(lines, "no request")},
			{map[string]string{"job": "other"}, lines[:50]},
			{nil, nil},
		}
	}
	for _, c := range []struct {
		body    []byte
		headers []string
	}{
		{inProtobuf(streams()...), []string{"Content-Type", typeProtobuf}},
		{inProtobuf(streams()...), []string{"Content-Type", typeProtobuf, "Content-Encoding", "snappy"}},
		{inJSON(streams()...), []string{"Content-Type", typeJSON + "; charset=utf-8"}},
	} {
		if status, text := b.push(c.body, c.headers...); status != 204 || text != "" {
			t.Errorf("%s: %d %s", c.headers, status, text)
		}
	}
	packed, _ := io.ReadAll(zipped(string(inJSON(streams()...))))
	if status, text := b.push(packed, "Content-Type", typeJSON, "Content-Encoding", "gzip"); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	b.sink.Await(t, b.Want)
	status := b.source().Status()
	if status.Kind != "loki" || status.Requests != 4*251 || status.Uncounted["filtered"] != 4*50 || status.Uncounted["format"] != 4 {
		t.Errorf("%+v", status)
	}
}

// TestLokiLeavesOutStandardError: a client can write lines into nginx's error log. Promtail and Alloy name the stream in a
// label or in metadata.
func TestLokiLeavesOutStandardError(t *testing.T) {
	t.Parallel()
	b := newLokiBench(t)
	b.start()
	lines := strings.Split(strings.TrimSpace(b.body(10)), "\n")
	b.Want = nil
	for _, name := range []string{"stream", "logstream", "source"} {
		of := lokiStream{map[string]string{"job": "nginx", name: "stderr"}, lines}
		for kind, body := range map[string][]byte{typeProtobuf: inProtobuf(of), typeJSON: inJSON(of)} {
			if status, text := b.push(body, "Content-Type", kind); status/100 == 5 {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
	}
	if status := b.source().Status(); status.Uncounted["format"] != 60 {
		t.Errorf("%+v", status)
	}
}

// TestALokiLineIsTheRequest: metadata with the names of a request's fields do not replace it; only can ask for them. They
// do not replace a label either.
func TestALokiLineIsTheRequest(t *testing.T) {
	t.Parallel()
	push := lokiPush{most: 1 << 20}
	if !push.readJSON([]byte(`{"streams":[{"stream":{"job":"nginx"},"values":[
		["1772360130000000000","{\"source.ip\":\"198.51.100.9\",\"url.path\":\"/\",\"user.name\":\"alice\"}",{"source.ip":"203.0.113.66","url.path":"/","job":"other"}],
		["1772360130000000000","{\"source.ip\":\"198.51.100.9\",\"url.path\":\"/\",\"user.name\":\"alice\"}"]]}]}`)) {
		t.Fatal("it is not read")
	}
	d, err := request.NewDecoder("otlp", "ecs", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var metadata []string
	d.DecodeEach(request.Text(push.out), func(r *request.Request, err error) {
		if err != nil || r.User != "alice" || r.IP.String() != "198.51.100.9" {
			t.Errorf("%+v: %v", r, err)
		}
		value, _ := d.Envelope("source.ip")
		job, _ := d.Envelope("job")
		metadata = append(metadata, value, job)
	})
	if fmt.Sprint(metadata) != "[203.0.113.66 nginx  nginx]" {
		t.Errorf("%q", metadata)
	}
}

// TestLokiRefuses: what is damaged, too large, or of another kind.
func TestLokiRefuses(t *testing.T) {
	t.Parallel()
	b := newLokiBench(t)
	b.changed = func(l *httpLimits) { l.bodyBytes = 1 << 20 }
	b.start()
	bomb := snappy.Encode(nil, make([]byte, 8<<20))
	for _, c := range []struct {
		media, body, want string
		status            int
	}{
		{"text/plain", "x", "content type", 415},
		{typeProtobuf, "x", "snappy", 400},
		{typeProtobuf, string(bomb), "larger than", 413},
		{typeProtobuf, string(snappy.Encode(nil, []byte("\x0a\x05abc"))), "damaged", 400},
		{typeProtobuf, string(snappy.Encode(nil, appendPart(nil, 1, appendPart(nil, 1, []byte(`{a="b`))))), "damaged", 400},
		{typeJSON, `{"streams":[{"stream":{"a":1}}]}`, "damaged", 400},
		{typeJSON, `{"streams":[]} x`, "damaged", 400},
		{typeJSON, `[`, "damaged", 400},
		{typeJSON, `{"streams":[{"stream":{"job":"nginx"},"values":[["1","no request"]]}]}`, "none of the 1 requests", 400},
		{typeJSON, `{"streams":[]}`, "", 204},
	} {
		if status, text := b.push([]byte(c.body), "Content-Type", c.media); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %.60q: %d %s", c.media, c.body, status, text)
		}
	}
	response, err := b.client.Get("http://" + b.address() + "/loki/api/v1/query")
	if err != nil || response.StatusCode != http.StatusNotFound {
		t.Error(response, err)
	}
	response.Body.Close()
}

// FuzzLoki: no body panics, and what is accepted is OTLP's logs.
func FuzzLoki(f *testing.F) {
	streams := []lokiStream{{map[string]string{"job": "nginx"}, []string{"a", "b"}}}
	packed, _ := snappy.Decode(nil, inProtobuf(streams...))
	f.Add(packed)
	f.Add(inJSON(streams...))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func(*lokiPush, []byte) bool{(*lokiPush).readWire, (*lokiPush).readJSON} {
			push := lokiPush{most: 4*len(body) + 1024}
			if ok := read(&push, body); ok && !request.CheckOTLP(push.out) {
				t.Errorf("%q becomes %q", body, push.out)
			}
			if len(push.out) > push.most {
				t.Errorf("%d bytes of %d", len(push.out), len(body))
			}
		}
	})
}
