package redis

import (
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
)

// commit has as arguments At and Slack in microseconds, then three of each key: the version that it must have, or
// nothing; the new value, or nothing; and when that expires in milliseconds. It returns whether the changes are done, the
// time and, if not, the values of all keys.
var commit = goredis.NewScript(commitCells(""))

// commitSorted has another key, the sorted set, and more arguments: how old members become in milliseconds; then three of
// each change of the set: the member that is removed, or nothing; the one that is added, or nothing; and its score. If the
// one that is removed is not there, none is added. The set expires with the first key.
var commitSorted = goredis.NewScript(commitCells(fmt.Sprintf(`
local set = KEYS[#KEYS]
for i = 3 * cells + 4, #ARGV, 3 do
  local known = ARGV[i] == '' or redis.call('ZREM', set, ARGV[i]) == 1
  if known and ARGV[i + 1] ~= '' then
    redis.call('ZADD', set, ARGV[i + 2], ARGV[i + 1])
  end
end
if ARGV[4] ~= '' then
  redis.call('ZREMRANGEBYSCORE', set, '-inf', math.floor(now / 1000) - tonumber(ARGV[3 * cells + 3]))
  redis.call('ZREMRANGEBYRANK', set, 0, -%d)
  redis.call('PEXPIREAT', set, ARGV[5])
end
`, mostMembers+1)))

// mostMembers bounds a sorted set: the newest stay.
const mostMembers = 4096

// commitCells is the script of a commit, with what else is done when its changes are. All keys but the last are cells if
// there is more to do.
func commitCells(more string) string {
	cells := "#KEYS"
	if more != "" {
		cells = "#KEYS - 1"
	}
	return `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local at = tonumber(ARGV[1])
local cells = ` + cells + `
local done = at <= now and now <= at + tonumber(ARGV[2])
for i = 1, cells do
  if not done then
    break
  end
  done = redis.call('GETRANGE', KEYS[i], 0, 7) == ARGV[3 * i]
end
if not done then
  local found = {0, now}
  for i = 1, cells do
    found[i + 2] = redis.call('GET', KEYS[i]) or ''
  end
  return found
end
for i = 1, cells do
  local value = ARGV[3 * i + 1]
  if value ~= '' then
    local left = ARGV[3 * i + 2] - math.floor(now / 1000)
    if left > 0 then
      redis.call('SET', KEYS[i], value, 'PX', left)
    else
      redis.call('DEL', KEYS[i])
    end
  end
end` + more + `
return {1, now}
`
}

// Lists reports whether the Backend has sorted sets.
func (b *Backend) Lists() bool { return b.sorted }

// setKey is the key of the sorted set for a commit's key, in the same slot of a Cluster. A rule's name has no colon.
func (b *Backend) setKey(c *stored.Commit) string {
	rule, of, _ := strings.Cut(c.Changes[0].Name[min(1, len(c.Changes[0].Name)):], "\x00")
	return b.key(c.Group, "counted:"+rule+":"+of)
}

// appendMembers appends the changes of the sorted set: a member for each attempt, with the sum of what it has counted.
func appendMembers(args []any, c *stored.Commit) []any {
	for i := 0; i < len(c.Attempts); {
		first, cost := &c.Attempts[i], int64(0)
		for ; i < len(c.Attempts) && c.Attempts[i].ID == first.ID; i++ {
			cost += c.Attempts[i].Cost
		}
		args = append(args, "", member(first.ID, stored.Counted{Cost: cost}), first.At)
	}
	for i := range c.Settlements {
		s := &c.Settlements[i]
		switch {
		case s.Was.Cost == 0 && s.Is.Cost == 0: // it is not there
		case s.Was.Cost == 0:
			args = append(args, "", member(s.ID, s.Is), s.At)
		case s.Gone || s.Is.Cost == 0:
			args = append(args, member(s.ID, s.Was), "", 0)
		case s.Is != s.Was:
			args = append(args, member(s.ID, s.Was), member(s.ID, s.Is), s.At)
		}
	}
	return args
}

// member is what a sorted set has of an attempt: its ID, its cost, and whether it has ended.
func member(id inline.ID, c stored.Counted) string {
	text := id.String() + " " + strconv.FormatInt(c.Cost, 10)
	if c.Ended {
		text += " ended"
	}
	return text
}
