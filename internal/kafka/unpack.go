package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"

	"weir/internal/topic"
)

const (
	mostRecord   = 16 << 20  // bytes of a record; a longer one becomes a Record with Long set
	mostUnpacked = 256 << 20 // bytes of a batch, which is read piece by piece; the rest is skipped
	mostWindow   = 32 << 20  // the largest window of a zstd frame: up to level 20
	usualWindow  = 8 << 20   // a decoder with at most this window is used again
	recordBytes  = 80        // of a Record besides its bytes, about
	prefixBytes  = 64        // of a record: enough for its length, times and offset
	idleReads    = 100       // reads without data before a decompressor is given up
)

var (
	errUnpacked = fmt.Errorf("it unpacks to more than %d MiB", mostUnpacked>>20)
	errRoom     = errors.New("there is no room for more")
)

// An unpacking is a compressed batch that is partly read. It unpacks no more than one Fetch returns, or one record
// needs: a few kilobytes may unpack to hundreds of megabytes.
type unpacking struct {
	head  recordBatch
	name  string // of the codec
	from  io.ReadCloser
	left  int   // records
	total int64 // bytes unpacked
}

// openPacked begins to unpack a batch.
func openPacked(head recordBatch, packed []byte) (*unpacking, error) {
	codec := head.attributes.Compression().Codec()
	if codec == nil {
		return nil, fmt.Errorf("compression %d is not known", head.attributes.Compression())
	}

	u := &unpacking{head: head, name: codec.Name(), left: head.count}
	switch head.attributes.Compression() {
	case compress.Snappy:
		u.from = newUnsnappy(packed)
	case compress.Zstd:
		u.from = newUnzstd(packed)
	default: // they unpack block by block, of at most 4 MiB
		u.from = codec.NewReader(bytes.NewReader(packed))
	}

	return u, nil
}

// read reads on. It returns io.EOF only without bytes.
func (u *unpacking) read(b []byte) (int, error) {
	for range idleReads {
		n, err := u.from.Read(b)
		u.total += int64(n)
		switch {
		case u.total > mostUnpacked:
			return 0, errUnpacked
		case n > 0:
			return n, nil
		case errors.Is(err, errUnpacked), err == io.EOF:
			return 0, err
		case err != nil:
			return 0, fmt.Errorf("unpacking %s: %w", u.name, err)
		}
	}

	return 0, io.ErrNoProgress
}

// limit returns how many bytes of compressed records a Fetch unpacks, about.
func (r *Reader) limit() int { return max(r.maxBytes(), smallestBytes) }

// begin forgets the records of the last Fetch, and keeps unpacked bytes beyond them.
func (r *Reader) begin() {
	clear(r.records)
	r.records, r.held = r.records[:0], 0
	rest, memory := r.unpacked[r.consumed:], r.unpacked[:0]
	size := cap(memory)
	// The memory doubles while a batch needs it, and shrinks once none does: most batches are small.
	if r.packed != nil && size < r.limit() {
		size = min(max(2*size, smallestBytes), r.limit())
	} else if r.packed == nil && size > 2*r.limit() {
		size = r.limit()
	}

	if size = max(size, len(rest)); size != cap(memory) {
		memory = make([]byte, 0, size)
	}
	r.unpacked, r.consumed = memory[:copy(memory[:len(rest)], rest)], 0
}

// drop forgets the rest of the last answer.
func (r *Reader) drop() {
	if r.packed != nil {
		_ = r.packed.from.Close()
	}
	r.packed, r.left, r.consumed = nil, nil, len(r.unpacked)
}

// readPacked reads records of the batch that is being unpacked; errRoom means that there are more.
func (r *Reader) readPacked() error {
	u := r.packed
	for u.left > 0 {
		if r.held >= r.limit() {
			return errRoom
		}
		err := r.readOne()
		if errors.Is(err, errRoom) {
			return err
		}
		// Its checksum is right, so it will be the same at each reading. It may have been made to fill the memory, or to
		// stop the partition: brokers accept some batches that cannot be unpacked here. The rest of it becomes one Record
		// with Long.
		if err != nil {
			r.passOverRest(err)
			break
		}

		u.left--
	}

	// Past the batch, also when some of its records were removed by the log cleaner.
	r.next = max(r.next, u.head.last+1)
	_ = u.from.Close()
	r.packed, r.consumed = nil, len(r.unpacked)
	return nil
}

// passOverRest passes over the rest of the batch, and logs why.
func (r *Reader) passOverRest(err error) {
	err = fmt.Errorf("the batch at %d: %w", r.packed.head.base, err)
	if r.client != nil {
		r.client.errorLog.note("fetch", fmt.Errorf("records of %s/%d are passed over: %w", r.topic, r.partition, err))
	}
	r.addLong(max(r.next, r.packed.head.base), err.Error())
}

// readOne reads one unpacked record, and unpacks the bytes that it needs.
func (r *Reader) readOne() error {
	if err := r.need(1); err != nil {
		return err
	}
	length, n := binary.Varint(r.unpacked[r.consumed:])

	// The length itself may not be unpacked completely yet.
	for ; n == 0; length, n = binary.Varint(r.unpacked[r.consumed:]) {
		if err := r.need(len(r.unpacked) - r.consumed + 1); err != nil {
			return err
		}
	}

	if n < 0 || length < 0 {
		return errEarly
	}

	// Before the record is unpacked: its length is what an attacker wrote.
	if length > mostRecord {
		return r.passOver(int64(n), length)
	}
	if r.SharesRoom && !r.hasRoom && n+int(length) > r.limit() {
		r.needsRoom = true
		return errRoom
	}
	if err := r.need(n + int(length)); err != nil {
		return err
	}

	body := r.unpacked[r.consumed+n : r.consumed+n+int(length)]
	r.consumed += n + int(length)
	before := len(r.records)
	if err := r.readRecord(&r.packed.head, body); err != nil {
		return err
	}
	if len(r.records) > before {
		r.held += n + int(length) + recordBytes
	}

	return nil
}

// need unpacks until that many bytes are unread.
func (r *Reader) need(count int) error {
	for len(r.unpacked)-r.consumed < count {
		if cap(r.unpacked)-r.consumed < count && r.held > 0 {
			return errRoom // the memory belongs to records that are yet to be returned
		}
		if len(r.unpacked) == cap(r.unpacked) { // and none of it belongs to a wanted record
			rest, memory := r.unpacked[r.consumed:], r.unpacked[:0]
			if cap(memory) < count || cap(memory) < smallestBytes {
				memory = r.memory(count)
			}
			r.unpacked, r.consumed = memory[:copy(memory[:len(rest)], rest)], 0
		}

		// As much as fits, and not only what is needed, or each record would be one call of the decompressor.
		n, err := r.packed.read(r.unpacked[len(r.unpacked):cap(r.unpacked)])
		if err == io.EOF {
			return errEarly
		}
		if err != nil {
			return err
		}

		r.unpacked = r.unpacked[:len(r.unpacked)+n]
	}

	return nil
}

// passOver skips a record that is too long.
func (r *Reader) passOver(n, length int64) error {
	if err := r.need(prefixBytes); err != nil {
		return err
	}
	one := newWire(r.unpacked[r.consumed+int(n):])
	one.Take(1) // attributes
	one.Signed()
	offset := r.packed.head.at(one.Signed())
	left := n + length - int64(len(r.unpacked)-r.consumed)
	if left < 0 { // part of the next one is there already: the long record is longer than the memory, or the memory grew for it
		r.consumed += int(n + length)
		r.addLong(offset, tooLong(length))
		return nil
	}

	r.consumed = len(r.unpacked)
	scratch := make([]byte, smallestBytes)
	for left > 0 {
		got, err := r.packed.read(scratch[:min(left, smallestBytes)])
		if err == io.EOF {
			return errEarly
		}
		if err != nil {
			return err
		}
		left -= int64(got)
	}

	r.addLong(offset, tooLong(length))
	return nil
}

func tooLong(length int64) string {
	return fmt.Sprintf("a record of %d bytes, more than %d MiB", length, mostRecord>>20)
}

// addLong adds a Record that stands for what is passed over.
func (r *Reader) addLong(offset int64, what string) {
	if offset < r.next {
		return
	}
	r.records = append(r.records, topic.Record{Offset: offset, Value: []byte(what), Long: true})
	r.next = offset + 1
	r.held += recordBytes
}

// An unzstd unpacks zstd.
type unzstd struct {
	*zstd.Decoder
	large bool
}

var unzstds sync.Pool // of *zstd.Decoder

func newUnzstd(packed []byte) io.ReadCloser {
	// A window is memory that the decoder takes at once, for a frame of a few bytes.
	var head zstd.Header
	if head.Decode(packed) == nil && head.WindowSize > mostWindow {
		return failing{fmt.Errorf("it needs a window of %d MiB, and at most %d are allowed: let its producer compress with a level of 20 or less",
			head.WindowSize>>20, mostWindow>>20)}
	}

	decoder, _ := unzstds.Get().(*zstd.Decoder)
	if decoder == nil {
		var err error
		decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow))
		if err != nil {
			panic(err) // only our own options can cause it
		}
	}

	if err := decoder.Reset(bytes.NewReader(packed)); err != nil {
		return failing{err}
	}
	return unzstd{decoder, head.WindowSize > usualWindow}
}

// Close returns the decoder to the pool.
func (u unzstd) Close() error {
	if u.large {
		u.Decoder.Close()
		return nil
	}
	err := u.Reset(nil)
	unzstds.Put(u.Decoder)
	return err
}

// A failing reader has only an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (failing) Close() error { return nil }

// An unsnappy unpacks snappy: one block, or blocks with their lengths before them, as Java's snappy writes them.
type unsnappy struct {
	left   []byte
	framed bool
	block  []byte // unpacked
	read   int    // of the block
}

const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = 16
	snappyRatio  = 22 // three bytes become 64 at most
)

var errSnappy = errors.New("it is not snappy")

func newUnsnappy(packed []byte) *unsnappy {
	if len(packed) >= xerialHeader && string(packed[:len(xerialMagic)]) == xerialMagic {
		return &unsnappy{left: packed[xerialHeader:], framed: true}
	}
	return &unsnappy{left: packed}
}

// Read unpacks block by block.
func (u *unsnappy) Read(b []byte) (int, error) {
	for u.read == len(u.block) {
		if len(u.left) == 0 {
			return 0, io.EOF
		}
		if err := u.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, u.block[u.read:])
	u.read += n
	return n, nil
}

func (u *unsnappy) next() error {
	packed := u.left
	if u.framed {
		in := newWire(u.left)
		packed = in.Take(int64(uint32(in.int32())))
		if u.left = in.Left; in.Failed {
			return errSnappy
		}
	} else {
		u.left = nil
	}

	// The length is only claimed, and memory of that size is taken for it: so it is compared with what the bytes can
	// hold.
	size, err := snappy.DecodedLen(packed)
	switch {
	case err != nil:
		return err
	case size > snappyRatio*(len(packed)+1): // no input can become that long
		return errSnappy
	case size > mostUnpacked:
		return errUnpacked
	}

	u.read = 0
	u.block, err = snappy.Decode(u.block[:cap(u.block)], packed)
	return err
}

// Close does nothing.
func (u *unsnappy) Close() error { return nil }
