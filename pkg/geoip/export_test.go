package geoip

import (
	"testing"
	"time"
)

// SetLongest sets how long a database may take to be read.
func SetLongest(t *testing.T, most time.Duration) {
	before := longest
	longest = most
	t.Cleanup(func() { longest = before })
}
