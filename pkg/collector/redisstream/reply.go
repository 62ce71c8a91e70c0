package redisstream

import (
	"errors"
	"net"

	"weir/internal/store/redis"
)

// A limited is a connection whose replies are bounded.
type limited struct {
	net.Conn
	read int // since the last command
}

var errTooLong = errors.New("the reply is too long")

// tooLong reports whether a reply was cut off because of its length.
func tooLong(err error) bool { return errors.Is(err, errTooLong) || errors.Is(err, redis.ErrReply) }

func limitReplies(c net.Conn) net.Conn { return &limited{Conn: c} }

func (l *limited) Write(b []byte) (int, error) {
	l.read = 0
	return l.Conn.Write(b)
}

func (l *limited) Read(b []byte) (int, error) {
	if l.read > replyMost {
		return 0, errTooLong
	}
	n, err := l.Conn.Read(b)
	l.read += n
	return n, err
}
