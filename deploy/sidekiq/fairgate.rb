# frozen_string_literal: true

# Client middleware for Sidekiq 6.4, 7 and 8 that sends the jobs of some classes through fairgate.
# Copy this file into your application, for example to lib/fairgate.rb, and add the middleware last,
# so that it sees the changes of all other middleware:
#
#   FAIR = {
#     staging_queue: "stage",   # main_queue.staging_queue of fairgate; workers must not read it
#     classes: {"HeavyJob" => ->(account_id, *) { account_id }}   # returns the tenant of a job
#   }
#   Sidekiq.configure_client { |c| c.client_middleware { |chain| chain.add Fairgate::Client, FAIR } }
#   Sidekiq.configure_server { |c| c.client_middleware { |chain| chain.add Fairgate::Client, FAIR } }
#
# The second line covers jobs that are enqueued by jobs, and scheduled jobs and retries that become
# due. For ActiveJob, use the name of the job class; the arguments are those that ActiveJob
# serialized.
#
# perform_async still returns the jid, perform_bulk is still one round trip, and the payload keeps
# all of its fields. Scheduled jobs (perform_in, perform_at) wait in Sidekiq's schedule and are
# staged when they become due.
module Fairgate
  class Client
    NOTE = "fairgate"

    # staging_queue: queue into which jobs are pushed.
    # classes: class name => callable that returns the tenant of a job, given its arguments, or nil
    #   to use fairgate's tenant_key.
    # restage: true to stage retries again, false to push them directly to their queue.
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

    # Records the job's queue and tenant, and redirects it to the staging queue. A job that is
    # pushed again from the staging queue keeps its record.
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
