# The unmodified Sidekiq application that tests run: its jobs write a line `class jid args` to the file RAN, and
# fail then if FAILS is set.
require "sidekiq"

redis = {path: ENV.fetch("SOCKET"), db: Integer(ENV.fetch("DB", "0"))}
Sidekiq.configure_server { |config| config.redis = redis }
Sidekiq.configure_client { |config| config.redis = redis }

module Recorded
  def perform(*args)
    sleep Float(ENV.fetch("TAKES", "0"))
    line = "#{self.class.name} #{jid} #{JSON.generate(args)}\n"
    File.open(ENV.fetch("RAN"), "a") { |file| file.write(line) }
    raise "as asked" if ENV["FAILS"]
  end
end

class HeavyJob
  include Sidekiq::Worker
  include Recorded
  sidekiq_options queue: "heavy", retry: ENV["RETRIES"] != "false"
end

module Billing
  class InvoiceJob
    include Sidekiq::Worker
    include Recorded
    sidekiq_options queue: "heavy", retry: 3, tags: ["bill"]
  end
end

# An unplanned job, and one for the queue without workers.
class LightJob
  include Sidekiq::Worker
  include Recorded
  sidekiq_options queue: "light"
end

class StagedJob
  include Sidekiq::Worker
  include Recorded
  sidekiq_options queue: "stage"
end
