-- Part: the record of a staged job, read without a table of all its fields.

-- Attempt, created, what stays of the changing part, and marks. Most have not run yet, nor waited for anything else, and are
-- told by a pattern without captures of what is empty.
local FRESH = '^pending\0310\31%d*\31(%d*)\31\31\31\31\31\31\31\31\31\31\31\31\31s\30()'
local STAGED = '^pending\31([^\31]*)\31[^\31]*\31([^\31]*)\31[^\31]*\31([^\30]*)\31([^\31\30]*)\30()'
-- What does not change: queue, type, lane, the plan, and where what is left of the further fields begins.
local PLACE = '^([^\31]*)\31([^\31]*)\31([^\31]*)\31rule\31[^\31]*\31tenant\31[^\31]*\31()'
local sub = string.sub

-- Attempt, created, what stays, marks without that of staging, where the rest begins; nil if the job is not staged.
local function staged_read(text)
  local created, rest = match(text, FRESH)
  if created then return '0', created, '\31\31\31\31\31\31\31\31\31\31', '', rest end
  local attempt, kept, marks
  attempt, created, kept, marks, rest = match(text, STAGED)
  if not attempt or not find(marks, 's', 1, true) then return nil end
  marks = string.gsub(marks, 's', '')
  return attempt, created, kept, marks, rest
end
