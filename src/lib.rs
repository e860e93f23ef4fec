//! fairgate makes background jobs fair between tenants. It is an Open Job Spec server on Redis that stands beside the
//! queue a product already has.
//!
//! The map, from the bottom up; a module uses only those above its own line:
//!
//! - [`clock`], [`config`], [`telemetry`] – time, settings, logs and metrics. Used by all; `config` itself makes use of `job`
//!   and `fair`, whose terms settings are written in.
//! - [`job`] – jobs as data. Pure: no I/O, no clock, no tokio.
//! - [`fairness`] – fairness as arithmetic: plan rules, weights, the virtual clock. As pure as `job`.
//! - [`auth`] – API keys and roles as data, and the cache of the valid keys, which uses `store`.
//! - [`store`] – verbs of the domain on Redis, each one script. The only place that knows Redis.
//! - [`weights`] – asks the user's webhook what tenants weigh. The only place that sends HTTP requests.
//! - [`main_queue`] – where promoted jobs go, and how it is doing there: fairgate's own queues, or those of a system that stands
//!   beside it.
//! - [`remote`] – another OJS server, asked as a client asks, and what is handed on to it.
//! - [`planner`] – when staged jobs are promoted, how many, under which weights.
//! - [`background`] – what happens because time passes; [`long_poll`] – fetches that wait.
//! - [`api`] – HTTP requests into verbs, results into OJS answers. No rules.
//! - [`app`] puts it together; the only spawner of long-lived tasks.
//! - [`cli`] holds the commands.

pub mod api;
pub mod app;
pub mod auth;
pub mod background;
pub mod cli;
pub mod clock;
pub mod config;
pub mod fairness;
pub mod job;
pub mod long_poll;
pub mod main_queue;
pub mod planner;
pub mod remote;
pub mod store;
pub mod telemetry;
pub mod webhooks;
pub mod weights;
