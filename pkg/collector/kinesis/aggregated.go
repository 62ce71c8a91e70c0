package kinesis

import (
	"bytes"
	"crypto/md5"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// mostUsers is how many user records an aggregated record may have.
const mostUsers = 1 << 16

var aggregatedMagic = []byte{0xf3, 0x89, 0x9a, 0xc2}

// Fields of an AggregatedRecord, and of its Record, as Amazon describes them.
const (
	fieldKey         = 1
	fieldExplicitKey = 2
	fieldRecord      = 3

	fieldKeyIndex         = 1
	fieldExplicitKeyIndex = 2
	fieldData             = 3
)

var errAggregated = errors.New("it is no aggregated record")

// split returns the user records of an aggregated record whose keys belong to a shard: its producer sends the others
// again, to theirs. A record that is not aggregated, that is damaged or that has too many is one itself.
func split(data []byte, in *keyRange) [][]byte {
	message, is := bytes.CutPrefix(data, aggregatedMagic)
	if !is || len(message) < md5.Size {
		return [][]byte{data}
	}
	message, sum := message[:len(message)-md5.Size], message[len(message)-md5.Size:]
	if want := md5.Sum(message); !bytes.Equal(want[:], sum) {
		return [][]byte{data}
	}
	users, err := usersIn(message, in)
	if err != nil {
		return [][]byte{data}
	}
	return users
}

// usersIn reads an AggregatedRecord. Its tables of keys may follow its records.
func usersIn(message []byte, in *keyRange) (users [][]byte, err error) {
	var keys, explicit, records [][]byte
	err = eachField(message, func(number protowire.Number, value []byte, _ uint64) error {
		of := map[protowire.Number]*[][]byte{fieldKey: &keys, fieldExplicitKey: &explicit, fieldRecord: &records}[number]
		if of == nil {
			return nil
		}
		if *of = append(*of, value); len(*of) > mostUsers {
			return errAggregated
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	hashes := make([][16]byte, len(keys))
	for i, key := range keys {
		hashes[i] = md5.Sum(key)
	}
	for _, record := range records {
		hash, data, err := userIn(record, hashes, explicit)
		if err != nil {
			return nil, err
		}
		if bytes.Compare(hash[:], in.first[:]) >= 0 && bytes.Compare(hash[:], in.last[:]) <= 0 {
			users = append(users, data)
		}
	}
	return users, nil
}

// userIn reads a Record: the hash of its key, and its data.
func userIn(record []byte, hashes [][16]byte, explicit [][]byte) (hash [16]byte, data []byte, err error) {
	key, by := -1, -1
	err = eachField(record, func(number protowire.Number, value []byte, n uint64) error {
		switch number {
		case fieldKeyIndex:
			key = int(min(n, mostUsers))
		case fieldExplicitKeyIndex:
			by = int(min(n, mostUsers))
		case fieldData:
			data = value
		}
		return nil
	})
	switch {
	case err != nil || key < 0 || key >= len(hashes) || by >= len(explicit):
		return hash, nil, errAggregated
	case by >= 0:
		text := string(explicit[by][:min(hashDigits+1, len(explicit[by]))])
		return hashKey(&text, hashes[key]), data, nil
	}
	return hashes[key], data, nil
}

// eachField calls a function for the fields of a message: with bytes, or with a number.
func eachField(message []byte, each func(number protowire.Number, value []byte, n uint64) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errAggregated
		}
		message = message[size:]
		var value []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return errAggregated
		}
		message = message[size:]
		if err := each(number, value, n); err != nil {
			return err
		}
	}
	return nil
}
