-- Deletes a dead letter for good.
--
-- ARGV[9]  id
-- Returns  {'ok'} or {'missing'}

local id = ARGV[9]
local job = call('ZSCORE', P .. 'dead', id) and job_load(id)
if not job then return {'missing'} end
call('ZREM', P .. 'dead', id)
call('ZREM', P .. 'finished:discarded', id)
job_erase(id)
emit('dead_letter.deleted', job)
commit()
return {'ok'}
