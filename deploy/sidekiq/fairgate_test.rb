# frozen_string_literal: true

# ruby deploy/sidekiq/fairgate_test.rb
require "minitest/autorun"
require_relative "fairgate"

class FairgateTest < Minitest::Test
  def through(job, **options)
    fair = {staging_queue: "stage", classes: {"HeavyJob" => ->(account, *) { account }, "OwnJob" => nil}}
    seen = nil
    result = Fairgate::Client.new(fair.merge(options)).call(job["class"], job, job["queue"], nil) { seen = job.dup }
    assert_equal seen, result
    seen
  end

  def job(**fields)
    {"class" => "HeavyJob", "args" => [7, "x"], "queue" => "heavy", "jid" => "j"}.merge(fields.transform_keys(&:to_s))
  end

  def test_a_fair_job_goes_to_the_staging_queue_with_a_note
    expected = job(queue: "stage", fairgate: {"queue" => "heavy", "tenant" => "7"})
    assert_equal expected, through(job)
  end

  def test_other_classes_and_jobs_for_later_are_left_alone
    assert_equal job(class: "LightJob"), through(job(class: "LightJob"))
    assert_equal job(at: 1.5), through(job(at: 1.5))
  end

  def test_the_tenant_may_be_left_to_fairgate
    assert_equal({"queue" => "heavy"}, through(job(class: "OwnJob"))["fairgate"])
    assert_equal({"queue" => "heavy"}, through(job(args: [nil]))["fairgate"])
  end

  def test_a_class_of_active_job_goes_by_its_own_name
    assert_equal "stage", through(job(class: "Wrapper", wrapped: "HeavyJob"))["queue"]
  end

  def test_a_retry_is_staged_again_unless_told_otherwise
    retried = job(retry_count: 0, fairgate: {"queue" => "old", "tenant" => "7"})
    assert_equal "heavy", through(retried.dup)["fairgate"]["queue"]
    assert_equal retried, through(retried.dup, restage: false)
  end

  def test_a_job_that_is_pushed_again_from_the_staging_queue_keeps_its_note
    staged = job(queue: "stage", fairgate: {"queue" => "heavy", "tenant" => "7"})
    assert_equal staged, through(staged.dup)
  end

  def test_the_class_may_be_a_class
    assert_equal "stage", through(job(class: Struct.new(:to_s).new("HeavyJob")))["queue"]
  end
end
