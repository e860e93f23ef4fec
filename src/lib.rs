//! fairgate makes background jobs fair between tenants. It is an Open Job Spec server on Redis that
//! runs beside the queue a product already has.
//!
//! The modules, from the bottom up; each one uses only modules listed before it:
//!
//! - [`clock`] – system time and manual time; [`backoff`] – growing delays.
//! - [`domain`] – jobs, tenants, plans and limits as data, and the arithmetic of fairness. Pure: no
//!   I/O, no clock, no tokio.
//! - [`auth`] – API keys and roles as data, and the cache of active keys that authenticates requests;
//!   only the cache uses the store.
//! - [`config`], [`telemetry`] – settings, logs and metrics.
//! - [`store`] – operations on Redis, each one a script. The only module that knows Redis.
//! - [`weights`] – requests weights of tenants from the user's webhook.
//! - [`remote`] – a client of another OJS server, and the relay of requests to it.
//! - [`webhooks`] – sends events to subscribed HTTP endpoints.
//! - [`main_queue`] – the queues that promoted jobs go to: fairgate's own, or those of another
//!   system.
//! - [`rules`] – the settings in force: plan rules, the dispatch policy, settings of tenants.
//! - [`enqueue`] – the path of new jobs from a validated request to the store.
//! - [`planner`] – decides when staged jobs are promoted, how many, and with which weights.
//! - [`sidekiq`] – imports the jobs that clients of a Sidekiq push; [`shadow`] – watches queues under
//!   rules that promote nothing.
//! - [`background`] – periodic work; [`long_poll`] – fetches that wait for a job.
//! - [`health`] – gathers the figures of the health report.
//! - [`api`] – translates HTTP requests to operations and results to OJS answers. Contains no
//!   rules.
//! - [`app`] – the composition root; the only module that spawns long-lived tasks.
//! - [`cli`] – the commands.

pub mod api;
pub mod app;
pub mod auth;
pub mod background;
pub mod backoff;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod enqueue;
pub mod health;
pub mod long_poll;
pub mod main_queue;
pub mod planner;
pub mod remote;
pub mod rules;
pub mod shadow;
pub mod sidekiq;
pub mod store;
pub mod telemetry;
pub mod webhooks;
pub mod weights;
