package files

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strconv"
	"syscall"

	"github.com/cespare/xxhash/v2"

	"weir/internal/varint"
	"weir/pkg/collector/tape"
)

// An identity distinguishes the files of a log from others: by their first bytes, decompressed, and by the bytes
// before the position. Names and inodes cannot do that: access.log.1 and access.log.1.gz are one log, and the system
// reuses inodes.
type identity struct {
	live string // path of the file that the log was live as
	id   inode  // of the file it was last read from: what it is compared with first
	line uint64 // hash of the log's opening
	head uint64 // hash of its first bytes, and their number: up to headBytes, growing with the file
	size int
	tail uint64 // hash of the bytes before the position, and their number
	last int
	day  int64 // when a file of it was last seen, days since 1970
	done bool  // none of it is to be read, whatever the position
	over bool  // its file lost its end, and continues as another log
	// after is the request time up to which another log of the file was read, Unix ms; 0 is none.
	after int64
}

// opening is the beginning that identifies a log: its first line and, where that begins with #, the following lines up
// to the first that does not; at most headBytes. ok is false while it is incomplete. complete means that the file will
// not grow.
func opening(head []byte, complete bool) (text []byte, ok bool) {
	for at := 0; at < len(head); {
		end := bytes.IndexByte(head[at:], '\n')
		if end < 0 {
			break
		}
		comment := head[at] == '#'
		at += end + 1
		if !comment {
			return head[:at], true
		}
	}
	return head, len(head) >= tape.HeadBytes || complete && len(head) > 0
}

// beginsLike reports whether a file that begins with head may belong to the log: certain when the file has all the
// known bytes of the log's head, possible when it is shorter and has its first line.
func (i *identity) beginsLike(head []byte) (certain, possible bool) {
	if len(head) >= i.size {
		same := xxhash.Sum64(head[:i.size]) == i.head
		return same, same
	}
	text, ok := opening(head, false)
	return false, ok && xxhash.Sum64(text) == i.line
}

// endsLike reports whether the bytes before the position are the log's.
func (i *identity) endsLike(before []byte) bool {
	return len(before) >= i.last && xxhash.Sum64(before[len(before)-i.last:]) == i.tail
}

func (i *identity) setHead(head []byte) {
	i.head, i.size = xxhash.Sum64(head), len(head)
}

var blankHead = xxhash.Sum64(make([]byte, tape.HeadBytes))

// blank reports whether nothing was written yet where the log begins.
func (i *identity) blank() bool { return i.size == tape.HeadBytes && i.head == blankHead }

func (i *identity) setTail(before []byte) {
	before = before[max(0, len(before)-tape.TailBytes):]
	i.tail, i.last = xxhash.Sum64(before), len(before)
}

func (i *identity) bytes() []byte {
	b := append(binary.AppendUvarint(nil, uint64(len(i.live))), i.live...)
	for _, v := range []uint64{i.id.device, i.id.number, i.line, i.head, uint64(i.size), i.tail, uint64(i.last), uint64(i.day)} {
		b = binary.AppendUvarint(b, v)
	}
	for _, is := range []bool{i.done, i.over} {
		b = append(b, 0)
		if is {
			b[len(b)-1] = 1
		}
	}
	return binary.AppendVarint(b, i.after)
}

// readIdentity decodes the bytes of an identity.
func readIdentity(b []byte) (i identity, ok bool) {
	r := varint.Reader{Left: b}
	i.live = string(r.Take(r.Number()))
	i.id = inode{r.Unsigned(), r.Unsigned()}
	i.line, i.head, i.size = r.Unsigned(), r.Unsigned(), int(r.Unsigned())
	i.tail, i.last, i.day = r.Unsigned(), int(r.Unsigned()), int64(r.Unsigned())
	i.done, i.over, i.after = r.Unsigned() == 1, r.Unsigned() == 1, r.Signed()
	return i, !r.Failed
}

// sourceName is the source that a log's batches carry. It is the same whenever the log is found again, as long as the
// journal exists.
func sourceName(name, collector string, line uint64, nth int) string {
	name = name[max(0, len(name)-100):]
	b := binary.BigEndian.AppendUint64(nil, line)
	name += "/" + collector + "-" + hex.EncodeToString(b)
	if nth > 0 {
		name += "-" + strconv.Itoa(nth)
	}
	return name
}

// An inode is a file, independent of its name.
type inode struct{ device, number uint64 }

func inodeOf(info os.FileInfo) inode {
	stat := info.Sys().(*syscall.Stat_t)
	return inode{stat.Dev, stat.Ino}
}
