package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Key is a key that was pressed: the character, or one of the names below.
type Key string

// Keys without a printable character.
const (
	Up        Key = "up"
	Down      Key = "down"
	PageUp    Key = "page up"
	PageDown  Key = "page down"
	Home      Key = "home"
	End       Key = "end"
	Enter     Key = "enter"
	Escape    Key = "escape"
	Backspace Key = "backspace"
	Interrupt Key = "interrupt" // Ctrl-C
	Left      Key = "left"
	Right     Key = "right"
)

// sequences are what terminals send for keys after ESC.
var sequences = map[string]Key{
	"[A": Up, "OA": Up, "[B": Down, "OB": Down, "[C": Right, "OC": Right, "[D": Left, "OD": Left,
	"[H": Home, "OH": Home, "[1~": Home, "[F": End, "OF": End, "[4~": End, "[5~": PageUp, "[6~": PageDown,
}

var controls = map[byte]Key{3: Interrupt, 8: Backspace, 127: Backspace, '\r': Enter, '\n': Enter}

// read sends keys until the input ends, which is the same as Ctrl-C.
func (t *Terminal) read() {
	buffer := make([]byte, 256)
	kept := 0 // bytes of a character that is not complete
	for {
		n, err := t.in.Read(buffer[kept:])
		keys, rest := keysIn(buffer[:kept+n])
		for _, key := range keys {
			t.keys <- key
		}
		if err != nil {
			t.keys <- Interrupt
			return
		}
		kept = copy(buffer, rest)
	}
}

// keysIn returns the keys in what a terminal sent, and the start of a character at its end.
func keysIn(sent []byte) (keys []Key, rest []byte) {
	for len(sent) > 0 {
		if sent[0] == 0x1b {
			key, length := escaped(sent)
			keys, sent = append(keys, key), sent[length:]
			continue
		}
		if key, known := controls[sent[0]]; known {
			keys, sent = append(keys, key), sent[1:]
			continue
		}
		if !utf8.FullRune(sent) {
			return keys, sent
		}
		r, size := utf8.DecodeRune(sent)
		if unicode.IsPrint(r) {
			keys = append(keys, Key(r))
		}
		sent = sent[size:]
	}
	return keys, nil
}

// escaped returns the key that begins with ESC; Escape where nothing follows, and no key for an unknown sequence.
func escaped(sent []byte) (key Key, length int) {
	if len(sent) == 1 || sent[1] != '[' && sent[1] != 'O' {
		return Escape, 1
	}
	for length = 2; length < len(sent); length++ {
		if c := sent[length]; c >= '@' && c <= '~' {
			return sequences[string(sent[1:length+1])], length + 1
		}
	}
	return "", length
}

// isText reports whether a key is a character.
func (k Key) isText() bool { return utf8.RuneCountInString(string(k)) == 1 }

// shorten removes the last character of a text.
func shorten(text string) string {
	_, size := utf8.DecodeLastRuneInString(text)
	return strings.Clone(text[:len(text)-size])
}
