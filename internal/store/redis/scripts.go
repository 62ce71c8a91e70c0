package redis

import goredis "github.com/redis/go-redis/v9"

// The first of KEYS is the fence; then come the names of buckets, short and long alternately.

// takeOrWrite has as arguments the named fence, the next one, the expiry and, for each pair of buckets, an operation: s
// and l set a short and a long value, d deletes. It returns the fence afterwards.
//
// A key that has had a long value stays in the long bucket until it is deleted. So when a key is in both, the long
// value is the later one. Redis leaves such pairs when its append-only file was cut in the middle of a script's
// commands, which it treats as part of the next script's at the start after the next.
var takeOrWrite = goredis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then
  return {0, held}
end
for i = 2, #KEYS, 2 do
  local at = 3 * i / 2 + 1
  local what, key = ARGV[at], ARGV[at + 1]
  local short, long = KEYS[i], KEYS[i + 1]
  if what == 'd' then
    redis.call('HDEL', short, key)
    redis.call('HDEL', long, key)
  else
    local into = short
    if what == 'l' or redis.call('HEXISTS', long, key) == 1 then
      into = long
    end
    redis.call('HSET', into, key, ARGV[at + 2])
    if into == long then
      redis.call('HDEL', short, key)
    end
    if ARGV[3] ~= '0' then
      redis.call('PEXPIRE', into, ARGV[3])
    end
  end
end
redis.call('SET', KEYS[1], ARGV[2])
return {1, ARGV[2]}
`)

// read has as arguments a key for each pair of buckets. It returns the fence, then the values.
var read = goredis.NewScript(`
local found = {redis.call('GET', KEYS[1]) or ''}
for i = 2, #KEYS, 2 do
  local key = ARGV[i / 2]
  found[#found + 1] = redis.call('HGET', KEYS[i + 1], key) or redis.call('HGET', KEYS[i], key)
end
return found
`)

// scan has as argument how many pairs are enough. It returns the fence, how many pairs of buckets it read, then their
// contents.
var scan = goredis.NewScript(`
local found = {redis.call('GET', KEYS[1]) or '', 0}
local enough = 2 * tonumber(ARGV[1])
for i = 2, #KEYS do
  for _, text in ipairs(redis.call('HGETALL', KEYS[i])) do
    found[#found + 1] = text
  end
  if i % 2 == 1 then
    found[2] = found[2] + 1
    if #found - 2 >= enough then
      break
    end
  end
end
return found
`)
