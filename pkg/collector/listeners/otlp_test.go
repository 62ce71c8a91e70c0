package listeners

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"weir/internal/keys"
	"weir/pkg/collector/pipeline"
)

func newOTLPBench(t testing.TB) *httpBench {
	b := newHTTPBench(t)
	b.config.Sources = []sourceConfig{{
		IntakeConfig: pipeline.IntakeConfig{Name: "otlp", Envelope: "otlp", Format: "combined"},
		HTTP:         &HTTPConfig{Listen: "127.0.0.1:0", OTLP: true},
	}}
	return b
}

// export is a request with more lines, each the body of a log record.
func (b *httpBench) export(lines int, others ...string) *logs.LogsData {
	var records []*logs.LogRecord
	for range lines {
		others = append(others, strings.TrimSuffix(b.Line(), "\n"))
	}
	for _, line := range others {
		records = append(records, &logs.LogRecord{Body: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: line}}})
	}
	return &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: records}}}}}
}

// A client is gRPC's own, for OTLP. Its request has the form of LogsData.
type client struct{ *grpc.ClientConn }

// Export returns the answer's bytes.
func (c client) Export(ctx context.Context, request *logs.LogsData, options ...grpc.CallOption) (string, error) {
	var answer emptypb.Empty
	err := c.Invoke(ctx, otlpGRPCPath, request, &answer, options...)
	return string(answer.ProtoReflect().GetUnknown()), err
}

// dial opens a client.
func (b *httpBench) dial(with credentials.TransportCredentials) client {
	b.T.Helper()
	connection, err := grpc.NewClient(b.address(), grpc.WithTransportCredentials(with))
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { connection.Close() })
	return client{connection}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestOTLPCountsExports: over gRPC and HTTP, in protobuf and JSON, compressed and not, an export is answered once Kafka
// has it.
func TestOTLPCountsExports(t *testing.T) {
	t.Parallel()
	b := newOTLPBench(t)
	b.start()
	client := b.dial(insecure.NewCredentials())
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
		answer, err := client.Export(within(t), b.export(500), options...)
		if err != nil || answer != "" {
			t.Errorf("%q %v", answer, err)
		}
	}
	answer, err := client.Export(within(t), b.export(3, "no request", "nor this"))
	if text := "2 of 5 log records could not be read: map[format:2]"; err != nil || answer != fmt.Sprintf("\x0a%c\x08\x02\x12%c%s", len(text)+4, len(text), text) {
		t.Errorf("%q %v", answer, err)
	}
	if _, err = client.Export(within(t), &logs.LogsData{}); err != nil {
		t.Errorf("an empty export: %v", err)
	}

	b.url = "http://" + b.address() + otlpPath
	wire, err := proto.Marshal(b.export(100))
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(b.export(100, "no request"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	third, _ := proto.Marshal(b.export(100))
	w.Write(third)
	w.Close()
	for _, c := range []struct {
		media, encoding, want string
		body                  []byte
	}{
		{typeProtobuf, "", "", wire},
		{typeJSON, "", `{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"1 of 101 log records could not be read: map[format:1]"}}`, text},
		{typeProtobuf, "gzip", "", packed.Bytes()},
	} {
		if status, media, body := b.postOTLP(c.media, c.encoding, c.body); status != 200 || media != c.media || body != c.want {
			t.Errorf("%s: %d %s %s", c.media, status, media, body)
		}
	}
	b.sink.Await(t, b.Want)
	if got, _ := b.sink.Counted(t); len(got) == 0 {
		t.Error("nothing was counted")
	}
	if kind := b.source().Status().Kind; kind != "otlp" {
		t.Errorf("the source is of the kind %s", kind)
	}
}

// postOTLP posts a body to the path of OTLP.
func (b *httpBench) postOTLP(media, encoding string, body []byte) (status int, answered, text string) {
	b.T.Helper()
	request, err := http.NewRequest(http.MethodPost, "http://"+b.address()+otlpPath, bytes.NewReader(body))
	if err != nil {
		b.T.Fatal(err)
	}
	request.Header.Set("Content-Type", media)
	request.Header.Set("Content-Encoding", encoding)
	response, err := b.client.Do(request)
	if err != nil {
		b.T.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), string(all)
}

const senderKey, readerKey = "the sender's key", "the reader's key"

// keysFile is a file with the keys of a sender and of a reader.
func keysFile(t testing.TB) *keys.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("keys:\n  - {name: edge, role: send, sha256: %x}\n  - {name: desk, role: read, sha256: %x}\n",
		sha256.Sum256([]byte(senderKey)), sha256.Sum256([]byte(readerKey)))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOTLPRefuses: damaged, too large and unauthorised exports are refused, and nothing of them counts.
func TestOTLPRefuses(t *testing.T) {
	t.Parallel()
	b := newOTLPBench(t)
	b.config.Sources[0].HTTP.Keys = keysFile(t)
	b.changed = func(l *httpLimits) { l.bodyBytes = 1 << 20 }
	b.start()
	client := b.dial(insecure.NewCredentials())
	export := b.export(0, "203.0.113.1 - - [x")
	large := b.export(0, strings.Repeat("x", 2<<20))
	for _, c := range []struct {
		key    string
		export *logs.LogsData
		want   codes.Code
		text   string
	}{
		{"", export, codes.Unauthenticated, "key"},
		{"wrong", export, codes.Unauthenticated, "key"},
		{readerKey, export, codes.PermissionDenied, "role"},
		{senderKey, large, codes.ResourceExhausted, "larger than"},
		{senderKey, export, codes.InvalidArgument, "none of the 1 requests could be read"},
	} {
		ctx := metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer "+c.key)
		_, err := client.Export(ctx, c.export)
		if status.Code(err) != c.want || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(within(t), "x-api-key", senderKey)
	err := client.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", export, new(emptypb.Empty))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("another service: %v", err)
	}

	for _, c := range []struct {
		media, body string
		want        int
	}{
		{typeProtobuf, "\x0a\x05abc", 400}, {typeProtobuf, "text", 400}, {typeJSON, "{", 400}, {typeJSON, `{"resourceLogs":[]}`, 200},
		{"text/plain", "x", 415}, {typeProtobuf, "", 200}, {typeJSON, `{}`, 400},
	} {
		request, _ := http.NewRequest(http.MethodPost, "http://"+b.address()+otlpPath, strings.NewReader(c.body))
		request.Header.Set("Content-Type", c.media)
		request.Header.Set("X-Api-Key", senderKey)
		response, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s %q: %d %s", c.media, c.body, response.StatusCode, text)
		}
	}
	if got, _ := b.sink.Counted(t); len(got) != 0 {
		t.Errorf("counted: %v", got)
	}
}

// TestOTLPOverTLS: gRPC's own client, with a certificate and without one, also where certificates are read again.
func TestOTLPOverTLS(t *testing.T) {
	t.Parallel()
	server, known, stranger := testTLS(t)
	again := server.Clone()
	again.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return server, nil }
	for name, of := range map[string]*tls.Config{"fixed": server, "read again": again} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newOTLPBench(t)
			b.config.Sources[0].HTTP.TLS = of
			b.start()
			if _, err := b.dial(credentials.NewTLS(known)).Export(within(t), b.export(10)); err != nil {
				t.Error(err)
			}
			if _, err := b.dial(credentials.NewTLS(stranger)).Export(within(t), b.export(0, "x")); err == nil {
				t.Error("a client without a certificate may send")
			}
			b.sink.Await(t, b.Want)
		})
	}
}

// TestOTLPBoundsHTTP2: a connection has few calls at once and small frames. A call over gRPC without a key ends it.
func TestOTLPBoundsHTTP2(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeKeys(t, path, map[string]string{"s3nd": "send"})
	b := newOTLPBench(t)
	var err error
	if b.config.Sources[0].HTTP.Keys, err = keys.Open(path); err != nil {
		t.Fatal(err)
	}
	b.start()
	for name, send := range map[string]func(*http2.Framer) error{
		"a call without a key": func(f *http2.Framer) error {
			var header bytes.Buffer
			to := hpack.NewEncoder(&header)
			for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", otlpGRPCPath}, {":authority", b.address()}, {"content-type", "application/grpc"}} {
				if err := to.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
					return err
				}
			}
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true})
		},
		"a large frame": func(f *http2.Framer) error { return f.WriteRawFrame(http2.FrameHeaders, 0, 1, make([]byte, 100<<10)) },
	} {
		conn, err := net.Dial("tcp", b.address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		frames := http2.NewFramer(conn, conn)
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(frames.WriteSettings(), send(frames)); err != nil {
			t.Fatal(err)
		}
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				t.Errorf("%s: %v, and no GOAWAY", name, err)
				break
			}
			if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
				if most, _ := settings.Value(http2.SettingMaxConcurrentStreams); most != streamsPerConnection {
					t.Errorf("%d calls at once", most)
				}
				if most, _ := settings.Value(http2.SettingMaxFrameSize); most > frameBytes {
					t.Errorf("frames of %d bytes", most)
				}
			}
			if frame.Header().Type == http2.FrameGoAway {
				break
			}
		}
	}
}

// TestGRPCFrames: a call has exactly one complete message.
func TestGRPCFrames(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\x00\x00\x00\x00\x02hi":        "",
		"\x00\x00\x00\x00\x00":          "",
		"\x00\x00\x00\x00\x03hi":        "complete message",
		"\x00\x00\x00\x00\x01hi":        "complete message",
		"\x00\x00":                      "complete message",
		"":                              "complete message",
		"\x01\x00\x00\x00\x02hi":        "encoding",
		"\x00\xff\xff\xff\xff":          "too large",
		"\x00\x00\x00\x00\x021\x00\x00": "complete message",
	} {
		m := newRoom(usualHTTPLimits, time.Now)
		p := newPost("a", false, func() {})
		m.enter(p)
		request, _ := http.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		err := p.readFrame(m, request, 1<<20)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", body, err)
		}
		if err == nil && string(p.body) != body[5:] {
			t.Errorf("%q: %q", body, p.body)
		}
	}
}
