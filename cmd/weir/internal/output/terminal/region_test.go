package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// A terminal that takes nothing, as after Ctrl-S, holds up neither the log nor the end. Lines that do not fit are counted.
func TestARegionDoesNotWaitForItsTerminal(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := NewRegion(write)
	const lines = 20_000
	for i := range lines {
		fmt.Fprintf(r, "line %d of a log that is written while the terminal takes nothing\n", i)
	}
	r.Close()

	text := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(read)
		text <- all
	}()
	<-r.ended // it goes on once the terminal does
	write.Close()
	shown := <-text
	written, lost := bytes.Count(shown, []byte("line ")), 0
	for _, line := range strings.Split(string(shown), "\r\n") {
		var n int
		if _, err := fmt.Sscanf(strings.ReplaceAll(strings.TrimPrefix(line, hold), ",", ""), "%d lines of the log are not shown", &n); err == nil {
			lost += n
		}
	}
	if lost == 0 || written+lost != lines {
		t.Errorf("%d lines are written and %d lost, of %d", written, lost, lines)
	}
}
