package envoy

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that is wrapped
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A codec reads messages also if they have texts that are not UTF-8, as Envoy sends them when a client does. An error
// would have Envoy let the request pass.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, into any) error {
	err := c.CodecV2.Unmarshal(data, into)
	message, ok := into.(proto.Message)
	if err == nil || !ok {
		return err
	}
	copied := data.Materialize()
	repair(copied, message.ProtoReflect().Descriptor())
	return proto.Unmarshal(copied, message)
}

// replacement stands for each byte that is not UTF-8. Envoy writes the same where it replaces them itself.
const replacement = '!'

// repair replaces bytes of a message's texts that are not UTF-8. It leaves the rest of what is no message as it is.
func repair(b []byte, of protoreflect.MessageDescriptor) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return
		}
		if field := of.Fields().ByNumber(number); field != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			switch field.Kind() {
			case protoreflect.StringKind:
				repairText(value)
			case protoreflect.MessageKind:
				repair(value, field.Message())
			}
		}
		b = b[size:]
	}
}

func repairText(b []byte) {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			b[0] = replacement
		}
		b = b[n:]
	}
}
