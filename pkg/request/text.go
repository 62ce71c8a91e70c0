package request

import "unsafe"

// Text is b as a string without a copy, for Parse. The string and everything parsed from it change with b, so they must
// not be used after b is written again. All views of this kind in the package are made here.
func Text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// wireOf is the bytes of a record, which are only read.
func wireOf(record string) []byte { return unsafe.Slice(unsafe.StringData(record), len(record)) }
