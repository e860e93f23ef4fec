//! Jobs, tenants, limits, plans and pools as data, and the arithmetic of fairness. Pure code: no
//! I/O, no clock, no tokio; time and randomness are arguments.
//!
//! Folders use only folders that are listed before them:
//!
//! - [`limit`] – quotas, rate limits, bounds of queues.
//! - [`job`] – requests, records and states of jobs.
//! - [`workflow`] and [`cron`] – jobs that depend on each other, and jobs on a schedule.
//! - [`tenant`] – access scopes, weights and settings of tenants.
//! - [`fairness`] – the order in which tenants take turns, and measures of it.
//! - [`plan`] – rules that assign jobs to staging, and the size of a round.
//! - [`pool`] – pools of workers, and the policy of dispatch.
//! - [`noisy`] – detection of tenants that harm others.
//! - [`shadow`] – simulation of a queue under a rule.
//! - [`health`] – problems that figures show, in sentences.
//! - [`autoscale`] – the number of workers that a backlog needs.
//! - [`explain`] – the reasons why a job waits.
//! - [`simulation`] – a rule, tenants and workers in virtual time.
//!
//! The modules directly in this folder are used by all of them and use only each other.

pub mod autoscale;
pub mod canonical;
pub mod cron;
pub mod duration;
pub mod escape;
pub mod explain;
pub mod fairness;
pub mod health;
pub mod invalid;
pub mod job;
pub mod json;
pub mod limit;
pub mod names;
pub mod noisy;
pub mod plan;
pub mod pool;
pub mod portable;
pub mod shadow;
pub mod shape;
pub mod simulation;
pub mod subscription;
pub mod tenant;
pub mod tenant_id;
pub mod time;
pub mod words;
pub mod workflow;
