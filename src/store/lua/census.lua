-- Jobs of tenants that have not ended. Changes nothing.
--
-- ARGV[9…] tenants; `*` are all but the default one
-- Returns  {what `tenants` holds or '', jobs staged, …}

run = function()
  local answer = {}
  for at = 9, #ARGV do
    answer[#answer + 1] = call('HGET', P .. 'tenants', ARGV[at]) or ''
    answer[#answer + 1] = staged_of(ARGV[at])
  end
  return answer
end
