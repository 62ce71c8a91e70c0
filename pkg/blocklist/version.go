package blocklist

import (
	"fmt"
	"strconv"
	"strings"
)

// A Version states the contents of a list: every record of the topic up to an offset. It is the same wherever the list
// is. The zero Version is that of an empty list.
type Version struct {
	List   ListID
	Offset int64 // of the newest record in it
}

// String is the list id, a dot and the offset; nothing for the zero Version.
func (v Version) String() string {
	if v == (Version{}) {
		return ""
	}
	return v.List.String() + "." + strconv.FormatInt(v.Offset, 10)
}

// ParseVersion reads the output of String.
func ParseVersion(text string) (Version, error) {
	if text == "" {
		return Version{}, nil
	}
	cut := strings.LastIndexByte(text, '.')
	if cut < 0 {
		return Version{}, fmt.Errorf("%w: the version %.100q", ErrDamaged, text)
	}

	list, err := ParseListID(text[:cut])
	offset, err2 := strconv.ParseInt(text[cut+1:], 10, 64)
	v := Version{list, offset}
	if err != nil || err2 != nil || offset < 0 || v.String() != text {
		return Version{}, fmt.Errorf("%w: the version %.100q", ErrDamaged, text)
	}

	return v, nil
}
