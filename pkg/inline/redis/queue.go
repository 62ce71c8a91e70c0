package redis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"weir/pkg/inline/stored"
)

var _ stored.Queues = (*Backend)(nil)

// push has as arguments the most entries that the stream may have (0 adds none), the time until which one is added, and the
// fields. It returns the time, whether that was too late, the length and the entry's ID.
var push = goredis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most = tonumber(ARGV[1])
if now > tonumber(ARGV[2]) then
  return {now, 1, 0, ''}
end
local length = redis.call('XLEN', KEYS[1])
if length >= most then
  return {now, 0, length, ''}
end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
return {now, 0, length + 1, id}
`)

// Push adds an entry to a stream, in one step with the question whether there is room.
func (b *Backend) Push(ctx context.Context, p *stored.Push) (done stored.Pushed, err error) {
	args := make([]any, 2, 2+len(p.Fields))
	args[0], args[1] = p.AtMost, p.Until
	for _, field := range p.Fields {
		args = append(args, field)
	}
	reply, err := push.Run(ctx, b.client, []string{p.Stream}, args...).Slice()
	if err != nil {
		return done, fmt.Errorf("adding to the stream %s in Redis: %w", p.Stream, err)
	}
	if len(reply) != 4 {
		return done, errReply
	}
	now, isTime := reply[0].(int64)
	length, isLength := reply[2].(int64)
	id, isID := reply[3].(string)
	if !isTime || !isLength || !isID {
		return done, errReply
	}
	return stored.Pushed{Entry: id, Length: length, Now: now, Late: reply[1] == int64(1)}, nil
}

// Remove removes an entry of a stream.
func (b *Backend) Remove(ctx context.Context, stream, entry string) error {
	if err := b.client.XDel(ctx, stream, entry).Err(); err != nil {
		return fmt.Errorf("removing from the stream %s in Redis: %w", stream, err)
	}
	return nil
}
