package config

import (
	"regexp"
	"strconv"

	"weir/internal/yamlfile"
)

// A Size is a number of bytes, written as 16MiB.
type Size int

const maxSize = 64 << 30

var (
	sizeForm  = regexp.MustCompile(`^([0-9]{1,9}) *(B|KiB|MiB|GiB)$`)
	sizeUnits = map[string]int{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

// FromYAML reads a number with a unit, or 0.
func (s *Size) FromYAML(v yamlfile.Value) {
	text, _ := v.Scalar()
	if text == "0" {
		*s = 0
		return
	}
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		v.Faultf("write a number and B, KiB, MiB or GiB, such as 16MiB, or 0", "%q is no size", text)
		return
	}
	n, _ := strconv.Atoi(m[1]) // nine digits
	if n > maxSize/sizeUnits[m[2]] {
		v.Faultf("write 64GiB or less", "%s is too much", text)
		return
	}
	*s = Size(n * sizeUnits[m[2]])
}

// String returns the size in its largest whole unit.
func (s Size) String() string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if n := sizeUnits[unit]; s > 0 && int(s)%n == 0 {
			return strconv.Itoa(int(s)/n) + unit
		}
	}
	if s == 0 {
		return "0"
	}
	return strconv.Itoa(int(s)) + "B"
}
