package backtest

import (
	"fmt"
	"strconv"
)

// percentOf is a part of a total for people: 0%, 0.004%, 12.3%.
func percentOf(part, base int64) string {
	if part == 0 || base == 0 {
		return "0%"
	}
	p := 100 * float64(part) / float64(base)
	switch {
	case p >= 99.95 && part < base:
		return "99.9%"
	case p >= 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + "%"
	case p >= 0.001:
		return strconv.FormatFloat(p, 'g', 2, 64) + "%"
	}

	return "<0.001%"
}

// grouped is a number with commas between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// counted is a number with its noun: 1 key, 2 keys.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// sizeText is a number of bytes for people.
func sizeText(bytes int64) string {
	size, unit := float64(bytes), 0
	for size >= 1000 && unit < 4 {
		size /= 1024
		unit++
	}
	name := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if unit == 0 || size >= 100 {
		return fmt.Sprintf("%.0f %s", size, name)
	}
	return fmt.Sprintf("%.1f %s", size, name)
}
