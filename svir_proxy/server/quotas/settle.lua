-- A request is over.
--
-- KEYS  the counters that its tokens go to; last the requests of its account that run
-- ARGV  how many tokens; its lease; for each counter, for how many seconds it is kept

local counters = #KEYS - 1
for i = 1, counters do
  redis.call('incrby', KEYS[i], ARGV[1])
  redis.call('expire', KEYS[i], ARGV[i + 2])
end
redis.call('zrem', KEYS[counters + 1], ARGV[2])
