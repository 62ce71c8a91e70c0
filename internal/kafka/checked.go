package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/varint"
)

// mostAnswer bounds an answer that is not a fetch's. That of metadata has some 50 bytes for each partition of the
// cluster.
const mostAnswer = 32 << 20

// Answers checks the answers of a connection before kafka-go reads them. kafka-go believes a number of elements and takes
// memory for that many, so an answer of a few bytes would end the process. Answers to fetches pass unread: fetch checks
// them itself. One goroutine writes, and one reads.
type answers struct {
	from    *bufio.Reader
	writing int    // bytes of a request that are yet to be written
	ready   []byte // checked bytes that are yet to be read
	passing int    // bytes of a fetch's answer that are yet to be read
	failed  error  // of the first answer that could not be read completely: kafka-go reads on after it

	mu    sync.Mutex
	asked map[int32]asked // by the requests' numbers
}

// An asked is what an answer depends on.
type asked struct{ key, version int16 }

// wrote notes the requests in written bytes. Those of a login may have no head, and their answers none either.
func (a *answers) wrote(b []byte) {
	for len(b) > 0 {
		if a.writing == 0 {
			in := newWire(b)
			a.writing = 4 + int(in.int32())
			of, id, name := asked{in.int16(), in.int16()}, in.int32(), in.Take(int64(in.int16()))
			if string(name) == clientID {
				a.mu.Lock()
				a.asked[id] = of
				a.mu.Unlock()
			}
		}
		n := min(len(b), a.writing)
		a.writing -= n
		b = b[n:]
	}
}

// read reads checked bytes.
func (a *answers) read(b []byte) (n int, err error) {
	if len(a.ready) == 0 && a.passing == 0 {
		if a.failed == nil {
			if _, err := a.from.Peek(1); err != nil {
				return 0, err
			}
			a.failed = a.next()
		}
		if a.failed != nil {
			return 0, a.failed
		}
	}
	if len(a.ready) > 0 {
		n = copy(b, a.ready)
		a.ready = a.ready[n:]
		return n, nil
	}
	n, err = a.from.Read(b[:min(len(b), a.passing)])
	a.passing -= n
	return n, err
}

// next reads an answer, or the head of a fetch's.
func (a *answers) next() error {
	var head [4 + headerBytes]byte
	if _, err := io.ReadFull(a.from, head[:4]); err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 0 {
		return fmt.Errorf("%w: %d bytes", errAnswer, size)
	}
	numbered := min(size, headerBytes)
	if _, err := io.ReadFull(a.from, head[4:4+numbered]); err != nil {
		return err
	}

	a.mu.Lock()
	id := int32(binary.BigEndian.Uint32(head[4:]))
	of, known := a.asked[id]
	wrong := !known && len(a.asked) > 0
	delete(a.asked, id)
	a.mu.Unlock()
	if wrong {
		return fmt.Errorf("%w: it is to request %d", errAnswer, id)
	}
	if known && protocol.ApiKey(of.key) == protocol.Fetch {
		a.ready, a.passing = head[:4+numbered], size-numbered
		return nil
	}
	if size > mostAnswer {
		return fmt.Errorf("%w: %d bytes", errAnswer, size)
	}

	// The memory grows with the bytes that come: the size is only claimed.
	var whole bytes.Buffer
	whole.Write(head[:4+numbered])
	if _, err := io.CopyN(&whole, a.from, int64(size-numbered)); err != nil {
		return err
	}
	if known && !of.fits(whole.Bytes()[4+numbered:]) {
		return errAnswer
	}
	a.ready = whole.Bytes()
	return nil
}

// fits reports whether an answer has as many elements as it says.
func (of asked) fits(answer []byte) bool {
	form := kmsg.ResponseForKey(of.key)
	if form == nil {
		return false
	}
	form.SetVersion(of.version)
	in := varint.Reader{Left: answer}
	if form.IsFlexible() && protocol.ApiKey(of.key) != protocol.ApiVersions {
		for n := in.Unsigned(); n > 0 && !in.Failed; n-- { // tags of the head
			in.Unsigned()
			in.Take(in.Number())
		}
	}
	return !in.Failed && form.ReadFrom(in.Left) == nil
}
