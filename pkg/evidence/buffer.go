package evidence

import (
	"encoding/binary"
	"net/netip"

	"weir/pkg/request"
)

// A request in a buffer and in the ring, in little endian:
//
//	0   2 bytes  size of all
//	2   1 byte   flags
//	3   5 bytes  lengths of method, host, path, query, agent
//	8   2 bytes  status
//	10  8 bytes  hash of rule and key
//	18  8 bytes  time, Unix ms
//	26  8 bytes  the request before with the same head, see Ring; 0 is none
//	34  16 bytes address of the client
//	50           the texts
const (
	flagsAt   = 2
	lengthsAt = 3
	statusAt  = 8
	hashAt    = 10
	timeAt    = 18
	beforeAt  = 26
	clientAt  = 34
	textsAt   = 50
)

// The texts, in their order.
const (
	atMethod = iota
	atHost
	atPath
	atQuery
	atAgent
	texts
)

// The bounds of the texts in bytes.
var bounds = [texts]int{16, 64, 176, 80, 120}

// MaxBytes is how many bytes of a ring a request takes at most.
const MaxBytes = 512

// The flags.
const (
	ipv4 = 1 << iota
	ipv6
	pathCut // or the query
	agentCut
)

// fullAt is the size in bytes at which a buffer is given to the ring.
const fullAt = 64 << 10

// A Buffer collects requests for a Ring.
type Buffer struct{ bytes []byte }

// Full reports whether the buffer should go to the ring now.
func (b *Buffer) Full() bool { return len(b.bytes) >= fullAt }

// Add copies a request that counted; hash is the ring's for its rule and key.
func (b *Buffer) Add(hash uint64, r *request.Request) {
	var head [textsAt]byte
	all := [texts]string{r.Method, r.Host, r.Path, r.Query, r.Agent}
	size := textsAt
	var flags byte
	for i, text := range all {
		short, cut := cutText(text, bounds[i])
		switch {
		case cut && (i == atPath || i == atQuery):
			flags |= pathCut
		case cut && i == atAgent:
			flags |= agentCut
		}
		all[i] = short
		head[lengthsAt+i] = byte(len(short))
		size += len(short)
	}
	switch {
	case r.IP.Is4():
		flags |= ipv4
		ip := r.IP.As4()
		copy(head[clientAt:], ip[:])
	case r.IP.IsValid():
		flags |= ipv6
		ip := r.IP.As16()
		copy(head[clientAt:], ip[:])
	}

	head[flagsAt] = flags
	binary.LittleEndian.PutUint16(head[:], uint16(size))
	binary.LittleEndian.PutUint16(head[statusAt:], uint16(r.Status))
	binary.LittleEndian.PutUint64(head[hashAt:], hash)
	binary.LittleEndian.PutUint64(head[timeAt:], uint64(r.UnixMilli))
	b.bytes = append(b.bytes, head[:]...)
	for _, text := range all {
		b.bytes = append(b.bytes, text...)
	}
}

// A stored is the bytes of one request.
type stored []byte

func (s stored) size() int        { return int(binary.LittleEndian.Uint16(s)) }
func (s stored) hash() uint64     { return binary.LittleEndian.Uint64(s[hashAt:]) }
func (s stored) unixMilli() int64 { return int64(binary.LittleEndian.Uint64(s[timeAt:])) }
func (s stored) before() uint64   { return binary.LittleEndian.Uint64(s[beforeAt:]) }
func (s stored) status() int      { return int(binary.LittleEndian.Uint16(s[statusAt:])) }
func (s stored) has(f byte) bool  { return s[flagsAt]&f != 0 }

func (s stored) text(which int) string {
	at := textsAt
	for i := range which {
		at += int(s[lengthsAt+i])
	}
	return string(s[at : at+int(s[lengthsAt+which])])
}

func (s stored) client() string {
	switch {
	case s.has(ipv4):
		return netip.AddrFrom4([4]byte(s[clientAt:])).String()
	case s.has(ipv6):
		return netip.AddrFrom16([16]byte(s[clientAt:])).String()
	}
	return ""
}
