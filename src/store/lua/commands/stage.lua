-- Stores new jobs of which some are planned, limited or unique: see `commands/enqueue`.

require('fairness/level')
require('staging/stage')
require('limits/enqueue_limits')

return require('commands/enqueue')
