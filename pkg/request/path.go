package request

import (
	"bytes"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// A PathForm defines how different spellings of a path become one. The zero value is for servers to which case, a slash
// at the end, ;parameters and backslashes matter.
//
// Normal decodes each valid %XX once, %2F too, leaves others as they are, cuts off everything from a # on, makes
// several slashes one, and resolves . and .. as RFC 3986 does, at the root too. It cuts off newlines at the end: the $ of
// many applications' patterns matches in front of one. It works on bytes: text that is not UTF-8 stays as it is.
type PathForm struct {
	Lower        bool // letters from A to Z become lower case, and so do the two others that have one of these as theirs
	DropSlash    bool // /a/ is /a
	DropParams   bool // /a;b=c/d is /a/d
	BackslashToo bool // \ is /, and so is %5C
}

// Normal returns the normal spelling of the path, and the buffer, which is reused and contains the text when it is not
// a part of path. A path that the logging server has decoded is not decoded again.
func (f PathForm) Normal(path string, decoded bool, buffer []byte) (string, []byte) {
	if f.isNormal(path, decoded) {
		return path, buffer
	}
	buffer = f.decode(buffer[:0], path, decoded)
	buffer = resolve(bytes.TrimRight(buffer, "\n"))
	if f.DropSlash && len(buffer) > 1 && buffer[len(buffer)-1] == '/' {
		buffer = buffer[:len(buffer)-1]
	}
	return unsafe.String(unsafe.SliceData(buffer), len(buffer)), buffer
}

// isNormal reports whether the path is already normal.
func (f PathForm) isNormal(path string, decoded bool) bool {
	segment := 0 // where it begins
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '/':
			if i > 0 && isDots(path[segment:i]) || i > 0 && path[i-1] == '/' {
				return false
			}
			segment = i + 1
		// A percent sign that begins no escape is normal, too. It is rare, so decode finds out.
		case '%', '#':
			if !decoded {
				return false
			}
		case ';':
			if f.DropParams {
				return false
			}
		case '\\':
			if f.BackslashToo {
				return false
			}
		default:
			if f.Lower && ('A' <= c && c <= 'Z' || c >= utf8.RuneSelf && foldsTo(path[i:]) > 0) {
				return false
			}
		}
	}

	return !isDots(path[segment:]) && !strings.HasSuffix(path, "\n") && !(f.DropSlash && len(path) > 1 && path[len(path)-1] == '/')
}

// isDots reports whether a segment is . or .. .
func isDots[T string | []byte](segment T) bool {
	return len(segment) == 1 && segment[0] == '.' || len(segment) == 2 && segment[0] == '.' && segment[1] == '.'
}

// decode appends the path with its escapes decoded, and without the parts that the form drops.
func (f PathForm) decode(b []byte, path string, decoded bool) []byte {
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '#' && !decoded:
			return b
		case c == ';' && f.DropParams:
			for i+1 < len(path) && path[i+1] != '/' && (path[i+1] != '#' || decoded) {
				i++
			}
			continue
		// Decoded once, as servers do: an escape that is encoded twice stays encoded once. It comes before case and
		// backslash, which may have been encoded.
		case c == '%' && !decoded && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]):
			c = byte(hexadecimal(path[i+1 : i+3]))
			i += 2
		}

		if f.Lower && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if f.BackslashToo && c == '\\' {
			c = '/'
		}

		b = append(b, c)
		if f.Lower && c >= utf8.RuneSelf {
			b = fold(b)
		}
	}

	return b
}

// Two letters beyond ASCII have an ASCII letter as their lower case, in Go and so in Caddy: /s%C4%B0gnin is /signin there.
const (
	capitalIWithDot = "\u0130"
	kelvinSign      = "\u212a"
)

// foldsTo is the ASCII letter that is the lower case of the letter that text begins with; 0 when that is another one.
func foldsTo(text string) byte {
	switch {
	case strings.HasPrefix(text, capitalIWithDot):
		return 'i'
	case strings.HasPrefix(text, kelvinSign):
		return 'k'
	}
	return 0
}

// fold replaces such a letter at the end of b, which may have been encoded.
func fold(b []byte) []byte {
	for _, letter := range [...]string{capitalIWithDot, kelvinSign} {
		if begin := len(b) - len(letter); begin >= 0 && string(b[begin:]) == letter {
			return append(b[:begin], foldsTo(letter))
		}
	}
	return b
}

// resolve makes several slashes one and removes segments of dots, in place.
func resolve(b []byte) []byte {
	root := 0
	if len(b) > 0 && b[0] == '/' {
		root = 1
	}

	to := root // the end of the finished part: empty, or a segment and its slash, or the last segment
	for at := root; at < len(b); {
		end := at
		for end < len(b) && b[end] != '/' {
			end++
		}

		switch segment := b[at:end]; {
		case len(segment) == 0 || len(segment) == 1 && isDots(segment):
		// Above the root there is only the root, as in RFC 3986.
		case isDots(segment):
			to = above(b[:to], root)
		default:
			to += copy(b[to:], segment)
			if end < len(b) {
				b[to] = '/'
				to++
			}
		}

		at = end + 1
	}

	if to == 0 && len(b) > 0 {
		b[0], to = '/', 1 // only dots
	}
	return b[:to]
}

// above is the length of b without its last segment. The last byte of b is that segment's slash.
func above(b []byte, root int) int {
	end := len(b) - 1
	for end > root && b[end-1] != '/' {
		end--
	}
	return max(end, root)
}
