package envoy

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestTextsThatAreNotUTF8(t *testing.T) {
	for text, want := range map[string]string{"": "", "é": "é", "a\xffb": "a!b", "\xc3(é\x80": "!(é!", "\xed\xa0\x80": "!!!"} {
		message, err := proto.Marshal(&ratelimit.RateLimitRequest{Descriptors: []*descriptorOf{describe("agent", strings.Repeat("x", len(text)), "path", "/")}})
		if err != nil {
			t.Fatal(err)
		}
		message = bytes.Replace(message, []byte(strings.Repeat("x", len(text))), []byte(text), 1)
		var asked ratelimit.RateLimitRequest
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, &asked); err != nil || asked.GetDescriptors()[0].GetEntries()[0].GetValue() != want {
			t.Errorf("%q: %v, %v", text, &asked, err)
		}
	}
}

// A message is read as it is, or, where only texts are wrong, with these repaired. No bytes make the codec panic.
func FuzzCodec(f *testing.F) {
	one, _ := proto.Marshal(&ratelimit.RateLimitRequest{Domain: "x", Descriptors: []*descriptorOf{describe("remote_address", "203.0.113.7", "path", "/x")}, HitsAddend: 3})
	two, _ := proto.Marshal(checkOf("203.0.113.7", "/path", "user-agent", "curl"))
	f.Add(one)
	f.Add(two)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, into := range []proto.Message{&ratelimit.RateLimitRequest{}, &auth.CheckRequest{}} {
			valid := proto.Unmarshal(data, into) == nil
			read := proto.Clone(into)
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, into); valid && (err != nil || !proto.Equal(into, read)) {
				t.Fatalf("%v: %v is read as %v", err, read, into)
			}
			if asked, ok := into.(*ratelimit.RateLimitRequest); ok {
				parts, err := partsOf(asked)
				for i := range parts {
					for _, field := range parts[i].Fields {
						if err == nil && (field.Name == "" || field.Value == "" || !utf8.ValidString(field.Value)) {
							t.Fatalf("%+v", field)
						}
					}
				}
			}
		}
	})
}
