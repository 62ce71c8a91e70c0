package telemetry

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
)

// pipe returns the log of a program whose output no one reads yet, and its reader.
func pipe(t *testing.T) (log func(from, to int), read *os.File, end func()) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() })
	logger, err := Log(write, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	filling := strings.Repeat("x", 1000)
	log = func(from, to int) {
		for i := from; i < to; i++ {
			logger.Info("blocked", "i", i, "filling", filling)
		}
	}
	return log, read, func() { write.Close() }
}

type shownLine struct {
	Msg   string
	I     int
	Lines int
}

// lines reads until the line number last has come.
func lines(t *testing.T, from io.Reader, last int) (all []shownLine) {
	t.Helper()
	for text := bufio.NewScanner(from); text.Scan(); {
		var line shownLine
		if err := json.Unmarshal(text.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", text.Bytes(), err)
		}
		all = append(all, line)
		if line.Msg == "blocked" && line.I == last {
			return all
		}
	}
	t.Fatalf("only %d lines came", len(all))
	return nil
}

// Without a reader, a pipe takes 64 KiB. The lines after that wait, and the program goes on.
func TestALogThatNoOneReadsHoldsNothingUp(t *testing.T) {
	log, read, end := pipe(t)
	log(0, 500)
	all := lines(t, read, 499)
	for i, line := range all {
		if line.I != i || line.Msg != "blocked" {
			t.Fatalf("line %d is %+v", i, line)
		}
	}
	if len(all) != 500 {
		t.Errorf("%d lines", len(all))
	}
	end()
}

// Lines beyond the room for those that wait are lost, and the log has their number when it is read again.
func TestALogReportsItsLostLines(t *testing.T) {
	log, read, end := pipe(t)
	log(0, 3000)

	reported := make(chan shownLine)
	taken := 0
	go func() {
		text := bufio.NewScanner(read)
		for text.Scan() {
			var line shownLine
			if json.Unmarshal(text.Bytes(), &line) != nil || line.Msg != "blocked" {
				reported <- line
				return
			}
			taken++
		}
	}()
	line := <-reported
	if !strings.Contains(line.Msg, "lost") || line.Lines == 0 || taken+line.Lines != 3000 {
		t.Errorf("%+v after %d lines", line, taken)
	}
	log(3000, 3001)
	if all := lines(t, read, 3000); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	end()
}

// The output of a program whose reader has ended takes nothing.
func TestALogWhoseReaderHasEndedIsNoFailure(t *testing.T) {
	log, read, end := pipe(t)
	read.Close()
	log(0, 10)
	end()
}
