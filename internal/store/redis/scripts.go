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

// scan has as arguments how many pairs are enough, where in the first pair of buckets to begin (0 the short one, 1 the
// long one, and a cursor of Redis in it), and how many pairs a bucket may have to be read at once. It returns the fence,
// how many pairs of buckets it read to their end, where it stopped in the next one (a cursor and 0 or 1; no cursor where
// it did not), then the contents.
//
// Clients choose keys, so they can bring very many into one bucket. Redis would stand still while all are read.
var scan = goredis.NewScript(`
local found = {redis.call('GET', KEYS[1]) or '', 0, '', 0}
local enough = 2 * tonumber(ARGV[1])
local i, cursor = 2 + tonumber(ARGV[2]), ARGV[3]
while i <= #KEYS do
  if cursor == '0' and redis.call('HLEN', KEYS[i]) <= tonumber(ARGV[4]) then
    for _, text in ipairs(redis.call('HGETALL', KEYS[i])) do
      found[#found + 1] = text
    end
  else
    local looked = 0
    repeat
      local page = redis.call('HSCAN', KEYS[i], cursor, 'COUNT', ARGV[1])
      cursor = page[1]
      looked = looked + #page[2] + 1
      for at = 1, #page[2], 2 do
        if i % 2 == 1 or redis.call('HEXISTS', KEYS[i + 1], page[2][at]) == 0 then
          found[#found + 1] = page[2][at]
          found[#found + 1] = page[2][at + 1]
        end
      end
    until cursor == '0' or looked >= enough
    if cursor ~= '0' then
      found[3], found[4] = cursor, i % 2
      break
    end
  end
  if i % 2 == 1 then
    found[2] = found[2] + 1
    if #found - 4 >= enough then
      break
    end
  end
  i = i + 1
end
return found
`)
