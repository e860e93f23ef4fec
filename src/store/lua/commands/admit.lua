-- Stores new jobs of which some are planned, limited or unique: see `commands/enqueue`.

require('queue/unique')
require('queue/bound')
require('limits/enqueue_limits')

return require('commands/enqueue')
