package blocklist

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Append appends the value of the order's record. It returns ErrOrder for an impossible order.
func (o *Order) Append(b []byte) ([]byte, error) {
	if err := o.validate(); err != nil {
		return b, err
	}
	b = append(b, RecordVersion, o.flags(), byte(o.Kind))
	b = appendText(b, o.ID)
	b = binary.AppendVarint(b, o.From)
	if o.Until != Never {
		b = binary.AppendUvarint(b, uint64(o.Until-o.From))
	}
	if o.Ended != 0 {
		b = binary.AppendVarint(b, o.Ended-o.From)
	}

	b = appendText(b, o.By)
	b = appendText(b, o.Why)
	if o.Kind == OrderPardon {
		b = appendText(b, o.Pardons)
	}

	return b, nil
}

func (o *Order) flags() byte {
	f := byte(isManual)
	if o.Ended != 0 {
		f |= hasEnded
	}
	if o.Until == Never {
		f |= isNever
	}
	return f
}

// decodeOrder reads the record of an order, completely or not at all.
func decodeOrder(record, value []byte) (*Order, error) {
	if err := checkVersion(value, 3); err != nil {
		return nil, err
	}
	o := &Order{Kind: Kind(value[2])}
	if o.Kind > OrderConfirm {
		return nil, fmt.Errorf("%w: an order of kind %d", ErrNewer, value[2])
	}

	c := newDecoder(value[3:], false)
	o.read(&c, value[1])
	if !o.readKey(record) || c.Failed || len(c.Left) > 0 || o.validate() != nil || o.flags() != value[1] {
		return nil, fmt.Errorf("%w: an order of %d bytes that no version writes", ErrDamaged, len(value))
	}

	return o, nil
}

func (o *Order) read(c *decoder, flags byte) {
	o.ID = c.text(maxShort)
	o.From = c.Signed()
	o.Until = Never
	if flags&isNever == 0 {
		o.Until = o.From + c.AtMost(2*maxTime)
	}
	if flags&hasEnded != 0 {
		o.Ended = o.From + c.Signed()
	}

	o.By, o.Why = c.text(maxShort), c.text(maxWhy)
	if o.Kind == OrderPardon {
		o.Pardons = c.text(maxShort)
	}
}

// checkVersion reports whether this version can read a value of at least the given length. Values of a later version
// end with the xxhash64 of all bytes before it, little endian. Without it the version is not trusted, because damaged
// bytes may begin with any byte.
func checkVersion(value []byte, least int) error {
	if len(value) > 0 && value[0] > RecordVersion && sealed(value) {
		return fmt.Errorf("%w: the bytes are of version %d, this program reads up to %d", ErrNewer, value[0], RecordVersion)
	}
	if len(value) < least || len(value) > MaxBytes || value[0] != RecordVersion {
		return fmt.Errorf("%w: %d bytes", ErrDamaged, len(value))
	}
	return nil
}

// checkEntryVersion is checkVersion for an entry; guarded says that the value is one of a guarded entry, with its checksum.
func checkEntryVersion(value []byte, guarded bool) error {
	if !guarded {
		return checkVersion(value, 2)
	}
	if len(value) < 2+sealBytes || len(value) > MaxBytes {
		return errDamaged(value)
	}
	return nil
}

const sealBytes = 8

// sealed reports whether bytes end with the checksum of all bytes before it.
func sealed(value []byte) bool {
	end := len(value) - sealBytes
	return end > 0 && xxhash.Sum64(value[:end]) == binary.LittleEndian.Uint64(value[end:])
}
