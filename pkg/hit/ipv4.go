package hit

import "encoding/binary"

// The text of an address is read and written here and not by net/netip: half of the time that a batch takes
// goes into this, and netip reads strings only.

// An octet is a number's text with a dot behind it, and its length without.
type octet struct {
	text   [4]byte
	digits uint8
}

var octets = makeOctets()

func makeOctets() (all [256]octet) {
	for n := range all {
		o := &all[n]
		if n >= 100 {
			o.add(n / 100)
		}
		if n >= 10 {
			o.add(n / 10 % 10)
		}
		o.add(n % 10)
		o.text[o.digits] = '.'
	}
	return all
}

func (o *octet) add(digit int) {
	o.text[o.digits] = '0' + byte(digit)
	o.digits++
}

// appendIPv4 writes four bytes per octet, whatever its length: the next one begins where this one ends.
func appendIPv4(b []byte, ip uint32) []byte {
	b = append(b, "255.255.255.255."...)
	at := len(b) - len("255.255.255.255.")
	for shift := 24; shift >= 0; shift -= 8 {
		o := &octets[uint8(ip>>shift)]
		binary.NativeEndian.PutUint32(b[at:], binary.NativeEndian.Uint32(o.text[:]))
		at += int(o.digits) + 1
	}
	return b[:at-1]
}

// parseIPv4 takes no text but the one that an address has.
func parseIPv4(text []byte) (ip uint32, ok bool) {
	if len(text) < len("0.0.0.0") || len(text) > len("255.255.255.255") {
		return 0, false
	}
	octet, digits, dots := uint32(0), 0, 0
	for _, c := range text {
		if c == '.' {
			if digits == 0 || dots == 3 {
				return 0, false
			}
			ip, octet, digits, dots = ip<<8|octet, 0, 0, dots+1
			continue
		}

		// Bytes below '0' wrap around to large numbers. A leading zero is refused: the text would not come back from
		// four bytes.
		n := uint32(c) - '0'
		if n > 9 || octet == 0 && digits > 0 {
			return 0, false
		}

		octet, digits = octet*10+n, digits+1
		if octet > 255 {
			return 0, false
		}
	}

	return ip<<8 | octet, dots == 3 && digits > 0
}
