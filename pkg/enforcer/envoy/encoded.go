package envoy

import (
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields: of CheckResponse, OkHttpResponse, HeaderValueOption and HeaderValue.
const (
	okOfResponse = 3

	headersOfOK = 2
	removeOfOK  = 5
	addOfOK     = 6

	headerOfOption = 1
	actionOfOption = 3

	keyOfHeader   = 1
	valueOfHeader = 2
)

// statusOK is the status of each answer that passes. Calls only read it.
var statusOK = &rpc.Status{Code: int32(codes.OK)}

// usualFields is more than an answer that passes has.
const usualFields = 12

// A field is one of an answer's header, by its name in small letters.
type field struct {
	key, value    string
	toApplication bool
}

// passing is the answer for a request that passes. Its OkHttpResponse is written here: one piece of memory instead of
// three for each header. The library writes fields that it does not know as they are.
func passing(a *answer) *auth.CheckResponse {
	var room [usualFields]field
	fields, ok := room[:0], 0
	for name, values := range a.header {
		one := field{lower(name), values[0], toApplication(name)}
		fields = append(fields, one)
		ok += sizeOf(optionSize(&one))
	}
	slices.SortFunc(fields, func(x, y field) int { return strings.Compare(x.key, y.key) })
	var removed [2]string // a client may have sent them
	remove := removed[:0]
	for _, name := range []string{markField, attemptField} {
		if a.header[name] == nil {
			remove = append(remove, lower(name))
			ok += sizeOf(len(name))
		}
	}

	b := appendSize(make([]byte, 0, 1+protowire.SizeBytes(ok)), okOfResponse, ok)
	b = appendOptions(b, headersOfOK, fields, true)
	for _, name := range remove {
		b = appendText(b, removeOfOK, name)
	}
	b = appendOptions(b, addOfOK, fields, false)
	said := &auth.CheckResponse{Status: statusOK}
	said.ProtoReflect().SetUnknown(b)
	return said
}

// appendOptions appends the fields for the application or for the client. Each replaces those of its name.
func appendOptions(b []byte, number protowire.Number, fields []field, toApplication bool) []byte {
	for i := range fields {
		one := &fields[i]
		if one.toApplication != toApplication {
			continue
		}
		b = appendSize(b, number, optionSize(one))
		b = appendSize(b, headerOfOption, headerSize(one))
		b = appendText(appendText(b, keyOfHeader, one.key), valueOfHeader, one.value)
		b = protowire.AppendTag(b, actionOfOption, protowire.VarintType)
		b = append(b, byte(core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	}
	return b
}

func headerSize(f *field) int { return sizeOf(len(f.key)) + sizeOf(len(f.value)) }

func optionSize(f *field) int { return sizeOf(headerSize(f)) + 2 }

// sizeOf is the size of a field of so many bytes. All numbers here take a byte.
func sizeOf(n int) int { return 1 + protowire.SizeBytes(n) }

func appendSize(b []byte, number protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(n))
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	return append(appendSize(b, number, len(text)), text...)
}
