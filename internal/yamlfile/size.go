package yamlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Size is a number of bytes, written 512MiB (1024 × 1024), 10KB (1000) or as a plain number. It is never negative.
type Size int64

var sizes = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads 512MiB, 10KB, 4096 or 4096B. It takes whole numbers only; case does not matter.
func ParseSize(text string) (Size, error) {
	text = strings.TrimSpace(text)
	digits := len(text) - len(strings.TrimLeft(text, "0123456789_"))
	number, err := strconv.ParseInt(strings.ReplaceAll(text[:digits], "_", ""), 10, 64)
	if err != nil {
		return 0, sizeError(text, err)
	}

	unit := strings.TrimSpace(text[digits:])
	if unit == "" {
		unit = "B"
	}

	for _, s := range sizes {
		if !strings.EqualFold(s.name, unit) {
			continue
		}
		if number > (1<<63-1)/s.bytes {
			return 0, sizeError(text, strconv.ErrRange)
		}
		return Size(number * s.bytes), nil
	}

	return 0, fmt.Errorf("%q is no size: the unit %q is not known; the units are B, KiB, MiB, GiB, TiB (of 1024) and KB, MB, GB, TB (of 1000)", text, unit)
}

func sizeError(text string, err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q is too large; at most %d bytes are possible", text, int64(1<<63-1))
	}
	return fmt.Errorf("%q is no size; write it as 512MiB, 10KB or 4096", text)
}

// String writes the size as an integer, in the largest possible unit.
func (s Size) String() string {
	for _, unit := range sizes {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/unit.bytes, unit.name)
		}
	}
	return "0B"
}

// FromYAML reads a size.
func (s *Size) FromYAML(v Value) {
	text, ok := v.Scalar()
	if !ok {
		v.Faultf("write it as 512MiB, 10KB or 4096", "%s where a size is wanted", v.Found())
		return
	}
	size, err := ParseSize(text)
	if err != nil {
		v.Fault(err)
	}
	*s = size
}
