package rabbit

import (
	"strconv"
	"testing"
)

// CheckMark reads the mark of a message; its offset is none below zero.
func CheckMark(t *testing.T, text string) {
	offset, err := readMark(text)
	if err != nil {
		return
	}
	if again, err := readMark(strconv.FormatInt(offset, 10) + ":x"); err != nil || again != offset || offset < 0 {
		t.Errorf("%q is read as %d, and that as %d: %v", text, offset, again, err)
	}
}
