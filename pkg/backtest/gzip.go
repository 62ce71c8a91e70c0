package backtest

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

var errBehind = errors.New("other bytes stand behind the end of what is compressed")

// A gunzip decompresses the members of a gzip file one by one, so that what is no member behind the last is told from
// one that is cut off.
type gunzip struct {
	from   *bufio.Reader
	member *gzip.Reader
}

func newGunzip(from *bufio.Reader) (*gunzip, error) {
	member, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	member.Multistream(false)
	return &gunzip{from, member}, nil
}

func (g *gunzip) Read(b []byte) (int, error) {
	n, err := g.member.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	switch next, _ := g.from.Peek(2); {
	case len(next) == 0:
		return n, io.EOF
	case string(next) != "\x1f\x8b":
		return n, errBehind
	}
	err = g.member.Reset(g.from)
	g.member.Multistream(false)
	return n, err
}
