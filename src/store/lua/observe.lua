-- Part: what a round, or whoever looks, needs to know about one main queue of a rule.

-- {queue, staged jobs, waiting tenants, depth, oldest ms or '', taken so far, active, 1 if workers found it empty, sum of weights, aim}
local function observe(rule, queue)
  local fair, health = staging_open(rule, queue), queue_health(queue)
  local counted = call('HMGET', P .. 'counts:' .. queue, 'taken', 'active')
  local dry = call('HGET', P .. 'low', 'd ' .. queue)
  return {queue, fair.jobs, fair.n, health.depth, health.oldest and int(health.oldest) or '', counted[1] or '0',
    counted[2] or '0', dry and 1 or 0, int(fair.w), int(fair.aim)}
end
