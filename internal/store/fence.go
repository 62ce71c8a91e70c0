package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// A Fence is the state that a partition's latest write has left: which taking of the partition it came from, and how
// many writes that has done. Owner distinguishes takings with the same epoch, which occur when the store has lost the
// earlier one. The zero Fence is that of a partition that was never taken.
type Fence struct {
	Epoch uint64 // counts the takings, from 1
	Owner uint64 // random
	N     uint64 // counts the writes, from 0
}

// Taken returns a fence that follows this one, of another owner.
func (f Fence) Taken() Fence {
	var owner [8]byte
	rand.Read(owner[:])
	return Fence{Epoch: f.Epoch + 1, Owner: binary.LittleEndian.Uint64(owner[:])}
}

// Next returns the fence after one more write.
func (f Fence) Next() Fence {
	f.N++
	return f
}

// String returns the form in which fences are stored, that of the zero Fence being empty.
func (f Fence) String() string {
	if f == (Fence{}) {
		return ""
	}
	var owner [8]byte
	binary.BigEndian.PutUint64(owner[:], f.Owner)

	// Each turn of a partition shows its fence: fmt took a seventh of an aggregator's time with live traffic.
	b := strconv.AppendUint(make([]byte, 0, 64), f.Epoch, 10)
	b = hex.AppendEncode(append(b, '/'), owner[:])
	return string(strconv.AppendUint(append(b, '/'), f.N, 10))
}

// ParseFence reads the output of String.
func ParseFence(text string) (Fence, error) {
	var f Fence
	if text == "" {
		return f, nil
	}
	if n, _ := fmt.Sscanf(text, "%d/%x/%d", &f.Epoch, &f.Owner, &f.N); n != 3 || f.String() != text {
		return Fence{}, fmt.Errorf("%w: %.100q is not a fence", ErrForeign, text)
	}
	return f, nil
}
