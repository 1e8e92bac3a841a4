-- Requests of one account run still, also where this server has forgotten them.
--
-- KEYS  the requests that run
-- ARGV  for how many milliseconds from now on their leases hold; the leases

local time = redis.call('time')
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
for i = 2, #ARGV do
  redis.call('zadd', KEYS[1], ends, ARGV[i])
end
redis.call('pexpire', KEYS[1], ARGV[1])
