-- A request wants to be let in: it is counted in all limits of its account, or in none of them.
--
-- KEYS  for each limit the counter of its window and that of the window before; last the requests that run, a sorted
--       set of leases by when they end (milliseconds, this server's clock)
-- ARGV  how many limits there are; for each: the amount, the weight of the window before, what the request costs, for
--       how many seconds the counter is kept; then: how many requests may run at once (-1: any number), the lease,
--       for how many milliseconds it holds
-- gives 1 if it was let in, else 0; how many ran before it; the counters before it, in the order of KEYS

local limits = tonumber(ARGV[1])
local at_once, lease, held = tonumber(ARGV[4 * limits + 2]), ARGV[4 * limits + 3], tonumber(ARGV[4 * limits + 4])
local leases = KEYS[2 * limits + 1]
local fits, ran, said = 1, 0, {}

if limits > 0 then
  local values = redis.call('mget', unpack(KEYS, 1, 2 * limits))
  for i = 1, limits do
    local current, previous = tonumber(values[2 * i - 1] or 0), tonumber(values[2 * i] or 0)
    local amount, weight = tonumber(ARGV[4 * i - 2]), tonumber(ARGV[4 * i - 1])
    if current + math.floor(previous * weight) >= amount then fits = 0 end
    said[2 * i - 1], said[2 * i] = current, previous
  end
end

local now = 0
if at_once >= 0 then
  local time = redis.call('time')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('zremrangebyscore', leases, '-inf', now)
  ran = redis.call('zcard', leases)
  if ran >= at_once then fits = 0 end
end

if fits == 1 then
  for i = 1, limits do
    local cost = tonumber(ARGV[4 * i])
    if cost > 0 then
      redis.call('incrby', KEYS[2 * i - 1], cost)
      redis.call('expire', KEYS[2 * i - 1], ARGV[4 * i + 1])
    end
  end
  if at_once >= 0 then
    redis.call('zadd', leases, now + held, lease)
    redis.call('pexpire', leases, held)
  end
end

return {fits, ran, said}
