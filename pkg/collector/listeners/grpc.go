package listeners

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A call of gRPC with one message and one answer is a post over HTTP/2 with five bytes before the message, and with its
// status behind the answer. It is handled like any other post, so that the bounds on connections, memory and time are
// the same; gRPC's own library reads a message into memory before anyone can refuse it.

// isGRPC reports whether a request is a call of gRPC. A browser sends none: it does not speak HTTP/2 without TLS, and
// cannot read or send what follows a body.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// Bounds of HTTP/2. A sender needs one call for each batch under way, and waits when there are more.
const (
	streamsPerConnection = 16
	frameBytes           = 16 << 10 // the least that HTTP/2 allows; a frame takes its memory before it has arrived
)

var errFrame = errors.New("the call has not exactly one complete message")

// readFrame reads the message of a call.
func (p *post) readFrame(m *room, r *http.Request, most int64) error {
	var head [5]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > most {
		return errLarge
	}

	body := &io.LimitedReader{R: r.Body, N: size}
	from := io.Reader(body)
	if head[0] != 0 {
		if r.Header.Get("Grpc-Encoding") != "gzip" {
			return errEncoding
		}
		if !m.reserve(p, gzipBytes) {
			return errFull
		}
		decompressed, err := gzip.NewReader(from)
		if err != nil {
			return fmt.Errorf("the message is not gzip: %w", err)
		}
		from = decompressed
	}
	if err := p.fill(m, from, most); err != nil {
		return err
	}
	if n, _ := io.ReadFull(r.Body, head[:1]); n > 0 || body.N > 0 {
		return errFrame
	}
	return nil
}

// The codes of gRPC that are used.
const (
	grpcOK                = 0
	grpcInvalid           = 3
	grpcDeadline          = 4
	grpcPermission        = 7
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcUnauthenticated   = 16
)

// grpcCode is the code for a status of HTTP. OTLP's senders try again after unavailable and after a deadline.
func grpcCode(status int) int {
	switch status {
	case http.StatusUnauthorized:
		return grpcUnauthenticated
	case http.StatusForbidden:
		return grpcPermission
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return grpcUnimplemented
	case http.StatusRequestTimeout:
		return grpcDeadline
	case http.StatusRequestEntityTooLarge:
		return grpcResourceExhausted
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return grpcUnavailable
	case http.StatusInternalServerError:
		return grpcInternal
	}
	return grpcInvalid
}

// answerGRPC writes the answer of a call, or why there is none.
func answerGRPC(w http.ResponseWriter, rejected rejection, wrong *httpProblem) {
	code := grpcOK
	w.Header().Set("Content-Type", "application/grpc")
	if wrong != nil {
		code = grpcCode(wrong.Status)
		if code == grpcUnauthenticated || code == grpcPermission { // as limited.Answer closes it by the status of HTTP
			w.Header().Set("Connection", "close")
		}
		w.Header().Set("Grpc-Accept-Encoding", "gzip")
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", url.PathEscape(wrong.Detail))
	}
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
	w.WriteHeader(http.StatusOK)
	if wrong == nil {
		message := successOf(typeProtobuf, rejected)
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // some hundred bytes
		_, _ = w.Write(append(frame, message...))                               // the sender may have gone
	}
}
