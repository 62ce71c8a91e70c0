package plain

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"weir/internal/keytext"
	"weir/pkg/blocklist"
)

// A form is a way to write a list.
type form struct {
	append    func(b []byte, lines []line, nowMilli int64) []byte
	addresses bool // it has only addresses
	times     bool // it has durations, so that it is different at each moment
}

var forms = map[string]form{
	"txt":     {append: appendText},
	"nginx":   {append: appendNginx},
	"haproxy": {append: appendHAProxy},
	"nft":     {append: appendNft, addresses: true, times: true},
}

// make writes the list. Its tag stays the same as long as the list does.
func (f form) make(lines []line, nowMilli int64) *file {
	made := &file{body: f.append(nil, lines, nowMilli)}
	// Durations change with every second, so the tag is of the list as it would be written at one fixed time.
	if f.times {
		made.tag = `W/"` + strconv.FormatUint(xxhash.Sum64(f.append(nil, lines, 0)), 16) + `"`
		return made
	}
	made.tag = `"` + strconv.FormatUint(xxhash.Sum64(made.body), 16) + `"`
	return made
}

func appendText(b []byte, lines []line, _ int64) []byte {
	for _, l := range lines {
		if l.prefix.IsValid() {
			b = append(b, l.text()...)
		} else {
			b = keytext.Append(b, l.value, false)
		}
		b = append(b, '\n')
	}
	return b
}

func appendHex(b []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'x', digits[c>>4], digits[c&15])
}

func appendNginx(b []byte, lines []line, _ int64) []byte {
	for _, l := range lines {
		switch {
		case l.prefix.IsValid():
			b = append(b, l.text()...)
		case hasNoLetter(l.value):
			b = append(b, l.value...)
		default:
			b = append(appendPattern(append(b, `"~\A`...), l.value), `\z"`...)
		}
		b = append(append(append(b, ' '), l.rule...), ";\n"...)
	}
	return b
}

// hasNoLetter reports that nginx matches exactly this value, without a pattern: numbers, dates.
func hasNoLetter(value string) bool {
	for i := range len(value) {
		if c := value[i]; (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' && c != ':' {
			return false
		}
	}
	return true
}

// appendPattern writes a regular expression that matches the value.
func appendPattern(b []byte, value string) []byte {
	for i := range len(value) {
		if isPlain(value[i]) {
			b = append(b, value[i])
		} else {
			b = appendHex(b, value[i])
		}
	}
	return b
}

func isPlain(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

func appendHAProxy(b []byte, lines []line, _ int64) []byte {
	for _, l := range lines {
		if l.prefix.IsValid() {
			b = append(b, l.text()...)
		} else {
			b = appendPercent(b, l.value)
		}
		b = append(append(append(b, ' '), l.rule...), '\n')
	}
	return b
}

// appendPercent writes a value as HAProxy's url_enc does.
func appendPercent(b []byte, value string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(value) {
		c := value[i]
		if isPlain(c) || c == '-' || c == '.' || c == '_' || c == '~' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// nftHead empties the sets, in the one transaction that the script is.
const nftHead = `add table inet weir_list
add set inet weir_list blocked4 { type ipv4_addr; flags interval, timeout; }
add set inet weir_list blocked6 { type ipv6_addr; flags interval, timeout; }
flush set inet weir_list blocked4
flush set inet weir_list blocked6
`

func appendNft(b []byte, lines []line, nowMilli int64) []byte {
	b = append(b, nftHead...)
	for _, l := range lines {
		set := "blocked6"
		if l.prefix.Addr().Is4() {
			set = "blocked4"
		}

		b = append(append(append(b, "add element inet weir_list "...), set...), " { "...)
		b = append(b, l.text()...)
		if l.until != blocklist.Never {
			b = append(b, " timeout "...)
			b = appendSeconds(b, max((l.until-nowMilli+999)/1000, 1))
		}

		b = append(b, " }\n"...)
	}

	return b
}

// appendSeconds writes a duration for nft, which refuses the complete list if a number in it has more than eight digits.
func appendSeconds(b []byte, seconds int64) []byte {
	if seconds > 99_999_999 {
		b = append(strconv.AppendInt(b, seconds/86_400, 10), 'd')
		seconds %= 86_400
	}
	return append(strconv.AppendInt(b, seconds, 10), 's')
}
