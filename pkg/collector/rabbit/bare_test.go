package rabbit

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// An in is a connection from which bytes come.
type in struct {
	net.Conn
	io.Reader
}

func (i in) Read(p []byte) (int, error) { return i.Reader.Read(p) }

// frameOf makes a frame of a type.
func frameOf(kind byte, payload string) string {
	start := binary.BigEndian.AppendUint32([]byte{kind, 0, 1}, uint32(len(payload)))
	return string(start) + payload + "\xce"
}

// sized is a text behind its length.
func sized(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

const message = "\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05" // of 5 bytes

// withHeaders is the header of a message that has a content type, an encoding, headers and a priority.
func withHeaders(headers string) string {
	return frameOf(2, message+"\xe8\x00"+"\x04text"+"\x00"+sized(headers)+"\x01")
}

func TestABareConnectionHasNoProperties(t *testing.T) {
	offset := "\x0fx-stream-offsetl\x00\x00\x00\x00\x00\x00\x01\x02"
	none, has := frameOf(2, message+"\x00\x00"), frameOf(2, message+"\x20\x00"+sized(offset))
	kinds := "\x00V\x01at\x01\x01bb\x01\x01cB\x01\x01ds\x01\x02\x01eu\x01\x02\x01fI\x01\x02\x03\x04\x01gi\x01\x02\x03\x04\x01hf\x01\x02\x03\x04\x01iD\x01\x02\x03\x04\x05" +
		"\x01jl\x01\x02\x03\x04\x05\x06\x07\x08\x01kd\x01\x02\x03\x04\x05\x06\x07\x08\x01lT\x01\x02\x03\x04\x05\x06\x07\x08\x01mS" + sized(offset) + "\x01nx" + sized("x") +
		"\x01oA" + sized("VVV") + "\x01pF" + sized(offset) + "\xff" + strings.Repeat("q", 255) + "V"
	for name, c := range map[string]struct{ comes, want string }{
		"other frames":           {frameOf(1, "method") + frameOf(3, "hello") + frameOf(8, ""), frameOf(1, "method") + frameOf(3, "hello") + frameOf(8, "")},
		"no properties":          {frameOf(2, message+"\x00\x00"), none},
		"none but a type":        {frameOf(2, message+"\x80\x00\x04text"), none},
		"headers":                {withHeaders("\x01aS" + sized("b")), none},
		"no headers in them":     {withHeaders(""), none},
		"an offset":              {withHeaders(offset), has},
		"an offset behind all":   {withHeaders(kinds + offset), has},
		"an offset before all":   {withHeaders(offset + kinds), has},
		"two offsets":            {withHeaders(offset + strings.ReplaceAll(offset, "\x02", "\x09")), has},
		"a text as offset":       {withHeaders("\x0fx-stream-offsetS" + sized("1")), none},
		"a name that goes on":    {withHeaders("\x10x-stream-offsetsl\x00\x00\x00\x00\x00\x00\x01\x02"), none},
		"an unknown kind":        {withHeaders("\x01a?" + offset), none},
		"an offset that is cut":  {withHeaders("\x0fx-stream-offsetl\x00"), none},
		"a text that is cut":     {withHeaders("\x01aS\xff\xff\xff\xffb" + offset), none},
		"headers that are cut":   {frameOf(2, message+"\x20\x00\xff\xff\xff\xff"+offset), has},
		"a header that is cut":   {frameOf(2, message[:11]), frameOf(2, message[:11])},
		"flags that are cut":     {frameOf(2, message+"\x20"), none},
		"headers of a megabyte":  {withHeaders("\x01aS" + sized(strings.Repeat("b", 1<<20)) + offset), has},
		"nothing but its frames": {frameOf(2, message), none},
	} {
		comes, want := c.comes+frameOf(3, "hello"), c.want+frameOf(3, "hello")
		for _, from := range []io.Reader{strings.NewReader(comes), iotest.OneByteReader(strings.NewReader(comes))} {
			if got, err := io.ReadAll(newBare(in{Reader: from})); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		}
	}
}

// A message that has no end, by its size, ends the connection before it takes memory. One of 512 MiB is read.
func TestAMessageWithoutAnEnd(t *testing.T) {
	for size, want := range map[uint64]error{512 << 20: nil, 512<<20 + 1: errLong, 1 << 62: errLong} {
		header := binary.BigEndian.AppendUint64([]byte("\x00\x3c\x00\x00"), size)
		if _, err := io.ReadAll(newBare(in{Reader: strings.NewReader(frameOf(2, string(header)+"\x00\x00"))})); err != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A connection that ends anywhere is read to its end, and so are frames of any content.
func FuzzBare(f *testing.F) {
	f.Add([]byte(withHeaders("\x01aS" + sized("b"))))
	f.Add([]byte("\x02\x00\x01\xff\xff\xff\xff" + message))
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole bytes.Buffer
		if n, err := whole.ReadFrom(newBare(in{Reader: bytes.NewReader(data)})); n > 2*int64(len(data)) || err != nil && err != io.ErrUnexpectedEOF && err != errLong {
			t.Errorf("%d bytes of %d, %v", n, len(data), err)
		}
	})
}
