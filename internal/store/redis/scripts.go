package redis

import goredis "github.com/redis/go-redis/v9"

// The first of KEYS is the fence; then come the names of buckets, short and long, one behind the other.

// takeOrWrite is told the fence named, the next one, the expiry and, for each pair of buckets, what to do in
// it: s and l set a short and a long value, d deletes. It returns the fence that holds afterwards.
var takeOrWrite = goredis.NewScript(`
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then
  return {0, held}
end
for i = 2, #KEYS, 2 do
  local at = 3 * i / 2 + 1
  local what, key = ARGV[at], ARGV[at + 1]
  local into, from = KEYS[i], KEYS[i + 1]
  if what ~= 's' then
    into, from = from, into
  end
  if what == 'd' then
    if redis.call('HDEL', from, key) == 0 then
      redis.call('HDEL', into, key)
    end
  else
    -- A key that was there already is not in the other bucket.
    if redis.call('HSET', into, key, ARGV[at + 2]) == 1 then
      redis.call('HDEL', from, key)
    end
    if ARGV[3] ~= '0' then
      redis.call('PEXPIRE', into, ARGV[3])
    end
  end
end
redis.call('SET', KEYS[1], ARGV[2])
return {1, ARGV[2]}
`)

// read is told a key for each pair of buckets. It returns the fence, then the values.
var read = goredis.NewScript(`
local found = {redis.call('GET', KEYS[1]) or ''}
for i = 2, #KEYS, 2 do
  local key = ARGV[i / 2]
  found[#found + 1] = redis.call('HGET', KEYS[i], key) or redis.call('HGET', KEYS[i + 1], key)
end
return found
`)

// scan is told how many pairs are enough. It returns the fence, how many pairs of buckets it looked into, then
// what is in them.
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
