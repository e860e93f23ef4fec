# frozen_string_literal: true

# Sends the jobs of some classes through fairgate: a client middleware for Sidekiq 6.4, 7 and 8. Copy this file into your
# application, for example to lib/fairgate.rb, and add it last, so that it sees jobs as every other middleware left them:
#
#   FAIR = {
#     staging_queue: "stage",                          # main_queue.staging_queue of fairgate; no worker may read it
#     classes: {"HeavyJob" => ->(account_id, *) { account_id }}   # whose jobs these are, from their arguments
#   }
#   Sidekiq.configure_client { |c| c.client_middleware { |chain| chain.add Fairgate::Client, FAIR } }
#   Sidekiq.configure_server { |c| c.client_middleware { |chain| chain.add Fairgate::Client, FAIR } }
#
# The second one is for jobs that jobs enqueue, and for scheduled jobs and retries that come due. A class of ActiveJob goes by
# its own name; its arguments are then those that ActiveJob serialized.
#
# perform_async returns the jid as ever, perform_bulk stays one round trip, and the payload keeps every field. Jobs for later
# (perform_in, perform_at) wait in Sidekiq's own schedule and come here when they are due.
module Fairgate
  class Client
    NOTE = "fairgate"

    # staging_queue: where jobs go; classes: name of a class => who owns a job, called with its arguments, or nil to leave that to
    # fairgate's tenant_key; restage: whether retries wait for their turn again (true) or go straight to their queue.
    def initialize(options)
      @staging_queue = options.fetch(:staging_queue).to_s
      @classes = options.fetch(:classes).transform_keys(&:to_s)
      @restage = options.fetch(:restage, true)
    end

    def call(_job_class, job, _queue, _redis_pool)
      stage(job) if fair?(job)
      yield
    end

    private

    def fair?(job)
      return false if job.key?("at") || !@classes.key?(name_of(job))
      @restage || !job.key?("retry_count")
    end

    def name_of(job)
      (job["wrapped"] || job["class"]).to_s
    end

    # Notes where the job wanted to go, and whose it is. One that lay in the staging queue already keeps its note.
    def stage(job)
      return if job["queue"].to_s == @staging_queue && job.key?(NOTE)
      owner = @classes[name_of(job)]
      tenant = owner&.call(*job["args"])
      job[NOTE] = {"queue" => job["queue"].to_s}
      job[NOTE]["tenant"] = tenant.to_s unless tenant.nil?
      job["queue"] = @staging_queue
    end
  end
end
