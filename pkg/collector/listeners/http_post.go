package listeners

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/logfile"
	"weir/pkg/collector/pipeline"
)

const (
	postArrives = iota // its body is being read
	postWaits          // for its turn
	postTaken          // the stream has begun to count it
	postGone           // it has to leave, or its sender does not wait any more; it will not be counted
)

// A post is the body of one request. The goroutine of its connection owns it until the stream's goroutine takes it,
// and again once it is gone.
type post struct {
	body      []byte
	json      bool
	otlp      bool   // the body is one record, of OTLP's logs
	loki      bool   // it arrives as a push of Loki's
	framed    bool   // the body has a message of gRPC
	form      bool   // its type is the one that curl sends by itself
	remedy    string // if none of its requests can be read
	sender    string
	interrupt func() // the reading of its body
	state     atomic.Int32
	progress  atomic.Int64  // the time of its last progress, in nanoseconds since 1970
	done      chan counting // has room for one

	held   int64 // of the source's room; the room's lock guards it
	leaves bool  // it was arriving and has to leave; the room's lock guards it
}

func newPost(sender string, json bool, interrupt func()) *post {
	return &post{sender: sender, json: json, interrupt: interrupt, done: make(chan counting, 1)}
}

// interrupts returns a function that ends the reading of a body.
func interrupts(w http.ResponseWriter) func() {
	return func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // the writer of a test has no deadline
	}
}

// A counting is the result of a post: its outcome, and nil once Kafka has it.
type counting struct {
	pipeline.Outcome
	err error
}

const (
	firstBytes = 32 << 10 // of a body
	gzipBytes  = 64 << 10 // used by a decompressor
)

var (
	errFull     = errors.New("there is no room for more")
	errLarge    = errors.New("the body is too large")
	errEncoding = errors.New("the body's encoding is not supported: send it uncompressed, or compressed with gzip")
)

// read reads the body of a request.
func (p *post) read(m *room, r *http.Request, most int64) error {
	switch {
	case p.framed:
		return p.readFrame(m, r, most)
	case p.loki:
		return p.readLoki(m, r, most)
	}
	from := io.Reader(r.Body)
	switch strings.ToLower(r.Header.Get("Content-Encoding")) {
	case "", "identity":
	case "gzip", "x-gzip":
		if !m.reserve(p, gzipBytes) {
			return errFull
		}
		decompressed, err := gzip.NewReader(from)
		if err != nil {
			return fmt.Errorf("the body is not gzip: %w", err)
		}
		from = decompressed
	default:
		return errEncoding
	}

	return p.fill(m, from, most)
}

// fill grows the buffer with the bytes that arrive, not with the announced length, so that a client cannot reserve
// memory by announcing much.
func (p *post) fill(m *room, from io.Reader, most int64) error {
	for mark := 0; ; {
		if len(p.body) == cap(p.body) {
			size := min(max(firstBytes, 2*int64(cap(p.body))), most+1)
			if !m.reserve(p, size-int64(cap(p.body))) {
				return errFull
			}
			p.body = append(make([]byte, 0, size), p.body...)
		}

		n, err := from.Read(p.body[len(p.body):cap(p.body)])
		p.body = p.body[:len(p.body)+n]
		if len(p.body)-mark >= progressBytes {
			mark = len(p.body)
			p.progressed(m.now())
		}
		switch {
		case p.state.Load() == postGone:
			return errFull
		case int64(len(p.body)) > most:
			return errLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the body: %w", err)
		}
	}
}

func (p *post) progressed(now time.Time) { p.progress.Store(now.UnixNano()) }

// add gives a record to the stream. Its position is its number.
func (p *post) add(ctx context.Context, s *pipeline.Stream, record []byte) error {
	if !p.json && !p.otlp && len(record) > logfile.MaxLine {
		return s.Lost(ctx, record[:logfile.MaxLine], pipeline.ReasonLong, s.Position()+1)
	}
	return s.Add(ctx, record, s.Position()+1)
}

// newlines is the remedy for lines that curl has joined.
const newlines = "curl's --data removes the newlines of a file: use --data-binary"

var errJoined = errors.New("the body has several lines without a newline between them: " + newlines)

// joined reports whether the body consists of joined lines of a web server's log. Formats that take anything behind a
// line would read them as one request. The sign is a second time of a request that is not in quotes, behind the request
// of the first: a client's text is in quotes there.
func (p *post) joined() bool {
	if !p.form || p.json || p.otlp || bytes.IndexByte(p.body, '\n') >= 0 {
		return false
	}
	quotes, begin := 0, 0 // the quotes before, and where the text behind the last one begins
	for i := 0; i < len(p.body); i++ {
		switch quoted := quotes%2 == 1; {
		case p.body[i] == '\\' && quoted:
			i++
		case p.body[i] == '"':
			quotes++
			begin = i + 1
		case p.body[i] == '[' && !quoted && quotes > 0:
			if !logTime.Match(p.body[i:]) {
				continue
			}
			if before := bytes.Fields(p.body[begin:i]); len(before) > 2 && string(before[len(before)-2]) == "-" {
				return true
			}
			begin = i // no byte is looked at for each of the brackets behind it
		}
	}
	return false
}

var logTime = regexp.MustCompile(`^\[\d\d/[A-Z][a-z][a-z]/\d{4}:`)

// remedies returns what to do if no request of the body can be read.
func (p *post) remedies() string {
	switch {
	case p.otlp:
		return "set this source's format to that of the records' bodies or attributes"
	case bytes.HasPrefix(p.body, []byte{0x1f, 0x8b}):
		return "the body is compressed with gzip: declare that with Content-Encoding: gzip"
	case p.form && !p.json && bytes.IndexByte(p.body, '\n') < 0:
		return newlines + "; or " + ownFormat
	}
	return ownFormat
}

const ownFormat = "set this source's format and envelope to those of your data (weir parse shows how they are read)"

// check returns why the body cannot be read. A mistake in the middle must not leave the first half counted.
func (p *post) check() error {
	if p.otlp {
		return p.checkOTLP()
	}
	return p.each(func([]byte) error { return nil })
}

var errEnough = errors.New("enough")

// first returns the first records of the body, up to a number.
func (p *post) first(most int) (sample []string) {
	_ = p.each(func(record []byte) error { // handle has checked it
		if sample = append(sample, string(record)); len(sample) == most {
			return errEnough
		}
		return nil
	})
	return sample
}

// each calls a function with every record of the body: every line, or every value if the body is JSON; an array's
// elements are records, and so is the text in a JSON string. It stops at the function's error, or at errNotJSON.
func (p *post) each(record func([]byte) error) error {
	if p.otlp {
		return record(p.body)
	}
	if p.json {
		return eachJSON(p.body, record)
	}
	for rest := p.body; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) == 0 {
			continue
		}
		if err := record(line); err != nil {
			return err
		}
	}

	return nil
}

var errNotJSON = errors.New("the body is not JSON, although its content type is: send lines as text/plain or application/x-ndjson")

func eachJSON(body []byte, record func([]byte) error) error {
	for rest := skipJSONSpace(body); len(rest) > 0; rest = skipJSONSpace(rest) {
		var err error
		if rest[0] == '[' {
			rest, err = eachElement(rest[1:], record)
		} else {
			rest, err = oneValue(rest, record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachElement calls a function with each element of an array after its opening bracket; rest is the text after the
// array.
func eachElement(body []byte, record func([]byte) error) (rest []byte, err error) {
	rest = skipJSONSpace(body)
	if len(rest) > 0 && rest[0] == ']' {
		return rest[1:], nil
	}

	for {
		if rest, err = oneValue(skipJSONSpace(rest), record); err != nil {
			return nil, err
		}
		rest = skipJSONSpace(rest)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) > 0 && rest[0] == ']':
			return rest[1:], nil
		default:
			return nil, errNotJSON
		}
	}
}

func oneValue(body []byte, record func([]byte) error) (rest []byte, err error) {
	n := endOfJSON(body)
	if n == 0 {
		return nil, errNotJSON
	}

	value := body[:n]
	if value[0] == '"' {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return nil, errNotJSON
		}
		value = []byte(text)
	}

	return body[n:], record(value)
}

func skipJSONSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// endOfJSON is the length of the object or string that b begins with; 0 when it is incomplete, or b begins with
// neither. It looks at brackets and quotes only; the decoder checks the rest.
func endOfJSON(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return 0
			}
		case '"':
			length := endOfString(b[i:])
			if length == 0 {
				return 0
			}
			i += length - 1
		default:
			if depth == 0 {
				return 0
			}
		}

		if depth == 0 {
			return i + 1
		}
	}

	return 0
}

func endOfString(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
