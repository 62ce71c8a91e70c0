// Package salted bounds what a server may ask of a login by SCRAM.
package salted

import (
	"bytes"
	"fmt"
	"strconv"
)

// MostIterations bounds how often the password is hashed, which the server says. That takes about a second. Brokers of Kafka
// say at most 16,384.
const MostIterations = 1_000_000

// Check refuses a server's message that wants more. Nothing else would end such a login.
func Check(server string, message []byte) error {
	for field := range bytes.SplitSeq(message, []byte(",")) {
		number, ok := bytes.CutPrefix(field, []byte("i="))
		if n, err := strconv.Atoi(string(number)); ok && (err != nil || n > MostIterations) {
			return fmt.Errorf("the %s wants %.20q iterations of SCRAM, and at most %d are allowed", server, number, MostIterations)
		}
	}
	return nil
}
