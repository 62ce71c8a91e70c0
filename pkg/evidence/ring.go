package evidence

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
)

// A Ring keeps the last requests of all rules and keys in a fixed number of bytes.
//
// Positions count all bytes ever written, so a position is valid as long as fewer bytes than the ring has were written
// since. Each head is the newest request of the keys whose hash it belongs to, and each request has the position of the
// one before. So the requests of a key are found from the newest to the oldest that still fits.
type Ring struct {
	seed maphash.Seed // keys come from clients: without a seed two of them could be made to share a hash

	mu      sync.Mutex
	bytes   []byte
	written uint64   // position after the last request
	heads   []uint64 // a power of two; position + 1, 0 is none
	spare   []*Buffer
}

const (
	// MinRing is the smallest size of a ring in bytes.
	MinRing = 64 << 10
	// bytesPerHead is about the size of a usual request.
	bytesPerHead = 256
	// maxSteps bounds how many requests Find looks at, and so how long it has the lock: less than a millisecond.
	maxSteps     = 16 << 10
	spareBuffers = 64
)

// NewRing makes a ring of so many bytes, at least MinRing. The heads take 3% more.
func NewRing(size int) *Ring {
	size = max(size, MinRing)
	heads := 1 << bits.Len(uint(size/bytesPerHead-1))
	return &Ring{seed: maphash.MakeSeed(), bytes: make([]byte, size), heads: make([]uint64, heads)}
}

// Rule returns the number of a rule for Hash. It is never 0.
func (r *Ring) Rule(name string) uint64 { return maphash.String(r.seed, name) | 1 }

// Hash returns the hash of a rule and a key.
func (r *Ring) Hash(rule uint64, key []byte) uint64 { return maphash.Bytes(r.seed, key) * rule }

// Buffer returns an empty buffer. Put takes it back.
func (r *Ring) Buffer() *Buffer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spare); n > 0 {
		b := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return b
	}
	return &Buffer{}
}

// Put adds the requests of a buffer in their order, and takes the buffer back.
func (r *Ring) Put(b *Buffer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := b.bytes; len(rest) >= textsAt; {
		one := stored(rest)
		r.put(one[:one.size()])
		rest = rest[one.size():]
	}
	if b.bytes = b.bytes[:0]; len(r.spare) < spareBuffers {
		r.spare = append(r.spare, b)
	}
}

func (r *Ring) put(one stored) {
	at := int(r.written % uint64(len(r.bytes)))
	if room := len(r.bytes) - at; room < len(one) { // a request does not go over the end
		r.written += uint64(room)
		at = 0
	}

	head := &r.heads[one.hash()%uint64(len(r.heads))]
	binary.LittleEndian.PutUint64(one[beforeAt:], *head)
	*head = r.written + 1
	copy(r.bytes[at:], one)
	r.written += uint64(len(one))
}

// Find returns the newest requests of a hash up to a time (Unix milliseconds), at most so many, newest first. It looks
// at a bounded number of requests, so it may miss those of a key that has sent very many since.
func (r *Ring) Find(hash uint64, upTo int64, most int) []Request {
	kept := r.find(hash, upTo, most)
	requests := make([]Request, len(kept))
	for i := range kept {
		requests[i] = kept[i].shown()
	}
	newestFirst(requests)
	return requests
}

func (r *Ring) find(hash uint64, upTo int64, most int) (kept []stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.heads[hash%uint64(len(r.heads))]
	for range maxSteps {
		if next == 0 || len(kept) == most || next-1+uint64(len(r.bytes)) < r.written {
			break
		}
		at := (next - 1) % uint64(len(r.bytes))
		one := stored(r.bytes[at:])
		if one.hash() == hash && one.unixMilli() <= upTo {
			kept = append(kept, append(stored(nil), one[:one.size()]...))
		}
		next = one.before()
	}
	return kept
}
