package envoy

import (
	"net/http"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// slowPassing is what passing means, by the library's messages.
func slowPassing(a *answer) *auth.CheckResponse {
	ok := &auth.OkHttpResponse{Headers: options(a.fields(toApplication)), ResponseHeadersToAdd: options(a.fields(toClient))}
	for _, name := range []string{markField, attemptField} {
		if a.header[name] == nil {
			ok.HeadersToRemove = append(ok.HeadersToRemove, lower(name)) // a client may have sent it
		}
	}
	return &auth.CheckResponse{Status: &rpc.Status{Code: int32(codes.OK)}, HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: ok}}
}

var someAnswers = []http.Header{
	{},
	{"X-Weir": {"passed"}},
	{"X-Weir-Attempt": {"019e3c2f7d3a5b1c9a4e0d6f8b2c7e15"}, "RateLimit": {`"quota 100/s";r=99`}, "RateLimit-Policy": {`"quota 100/s";q=100;w=1, "quota 4000/min";q=4000;w=60`},
		"X-RateLimit-Limit": {"100, 100;w=1, 4000;w=60"}, "X-RateLimit-Remaining": {"99"}},
	{"X-Weir": {"shadow quota"}, "X-Weir-Attempt": {"019e3c2f7d3a5b1c9a4e0d6f8b2c7e15"}, "X-Weir-Store": {"local"}, "X-Ratelimit-Reset": {""}, "Retry-After": {"1"}},
	{"X-Weir-Store": {string(make([]byte, 300))}, "A": {"b"}, "B": {"b"}, "C": {"b"}, "D": {"b"}, "E": {"b"}, "F": {"b"}, "G": {"b"}, "H": {"b"}, "I": {"b"}, "J": {"b"}, "K": {"b"}, "L": {"b"}},
}

// An answer that passes has the bytes that the library writes for its message.
func TestPassingAnswers(t *testing.T) {
	for _, header := range someAnswers {
		a := &answer{header: header, status: http.StatusOK}
		bytes, err := proto.Marshal(passing(a))
		var said auth.CheckResponse
		if err == nil {
			err = proto.Unmarshal(bytes, &said)
		}
		if want := slowPassing(a); err != nil || !proto.Equal(&said, want) || len(said.GetOkResponse().ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("%v, %v\nis not %v", err, &said, want)
		}
	}
}

// BenchmarkAnswer compares writing an answer with limit headers by the library and by hand.
func BenchmarkAnswer(b *testing.B) {
	a := &answer{header: someAnswers[2], status: http.StatusOK}
	for name, make := range map[string]func(*answer) *auth.CheckResponse{"library": slowPassing, "by hand": passing} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if data, err := newCodec().Marshal(make(a)); err != nil || data.Len() == 0 {
					b.Fatal(err)
				} else {
					data.Free()
				}
			}
		})
	}
}
