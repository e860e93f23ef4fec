//! fairgate makes background jobs fair between tenants. It is an Open Job Spec server on Redis that
//! runs beside the queue a product already has.
//!
//! The modules, from the bottom up; each one uses only modules listed before it:
//!
//! - [`clock`], [`backoff`], [`config`], [`telemetry`] – time, delays, settings, logs and metrics. Used
//!   by all; `config` itself uses the types of `domain`.
//! - [`domain`] – jobs, tenants, plans and limits as data, and the arithmetic of fairness. Pure: no
//!   I/O, no clock, no tokio.
//! - [`auth`] – API keys and roles as data, and the cache of active keys that authenticates requests.
//! - [`store`] – operations on Redis, each one a script. The only module that knows Redis.
//! - [`weights`] – requests weights of tenants from the user's webhook.
//! - [`remote`] – a client of another OJS server, and the relay of requests to it.
//! - [`webhooks`] – sends events to subscribed HTTP endpoints.
//! - [`main_queue`] – the queues that promoted jobs go to: fairgate's own, or those of another
//!   system.
//! - [`planner`] – decides when staged jobs are promoted, how many, and with which weights.
//! - [`background`] – periodic work; [`long_poll`] – fetches that wait for a job.
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
pub mod long_poll;
pub mod main_queue;
pub mod planner;
pub mod remote;
pub mod store;
pub mod telemetry;
pub mod webhooks;
pub mod weights;
