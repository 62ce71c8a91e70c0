package backtest

import "bytes"

// In a line that is a record, recordEscape and one of the two after it stand for a byte that a line does not have.
const (
	recordEscape  = '\v' // no server writes it into a log as it is, so few lines get longer
	recordNewline = 'n'
	recordItself  = 'v'
)

// AppendRecord appends a record as a line of an Input with Records. A record may have any bytes: those of a shipper may be
// protobuf.
func AppendRecord(lines, record []byte) []byte {
	for {
		at := bytes.IndexAny(record, "\n\v")
		if at < 0 {
			return append(append(lines, record...), '\n')
		}
		escaped := byte(recordItself)
		if record[at] == '\n' {
			escaped = recordNewline
		}
		lines = append(append(lines, record[:at]...), recordEscape, escaped)
		record = record[at+1:]
	}
}

// recordOf is the record that a line stands for. It may be the line itself.
func recordOf(line []byte) []byte {
	at := bytes.IndexByte(line, recordEscape)
	if at < 0 {
		return line
	}
	record := make([]byte, 0, len(line))
	for ; at >= 0 && at+1 < len(line); at = bytes.IndexByte(line, recordEscape) {
		unescaped := byte('\n')
		if line[at+1] == recordItself {
			unescaped = recordEscape
		}
		record = append(append(record, line[:at]...), unescaped)
		line = line[at+2:]
	}
	return append(record, line...)
}
