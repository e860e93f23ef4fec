-- Begins the release of jobs that are staged for a main queue, goes on with it, or ends it. One runs at a time, and none while a
-- process takes jobs in: it would take the same jobs in again.
--
-- release:M  hash  token of the release, last (call id of its last `unstage`, and the ids that it did not find), with a TTL
--
-- ARGV[9…] main queue, token, ms for which it holds (0 ends it), ms after which a silent importer is gone
-- Returns  {'ok'}, {'held'} if another one is under way, or {'drained', process and source, ms since it registered}

run = function()
  local key, importers = P .. 'release:' .. ARGV[9], P .. 'importers:' .. ARGV[9]
  local holder = call('HGET', key, 'token')
  if holder and holder ~= ARGV[10] then return {'held'} end
  if ARGV[11] == '0' then
    call('UNLINK', key)
    return {'ok'}
  end
  if not holder then
    local seen = call('ZREVRANGE', importers, 0, 0, 'WITHSCORES')
    local age = seen[1] and now - tonumber(seen[2])
    -- One from the future registered before the clock was set back.
    if age and age >= 0 and age < tonumber(ARGV[12]) then return {'drained', seen[1], int(age)} end
    call('HSET', key, 'token', ARGV[10])
  end
  call('PEXPIRE', key, ARGV[11])
  return {'ok'}
end
