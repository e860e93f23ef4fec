//! The reasons why a job waits. [`explain`] turns the facts about a waiting job into an ordered
//! list of [`Check`]s, names the one that binds now, and estimates when the job starts. [`stages`]
//! divides the life of a job into the time spent in each stage.

mod check;
mod dispatch;
mod eta;
mod facts;
mod planner;
mod stages;
mod staging;
mod turn;
mod waiting;
mod words;

pub use check::{Check, CheckName, CheckState};
pub use eta::{Eta, EtaTarget};
pub use facts::{
    DispatchFacts, Dispatched, Holder, JobFacts, LimitFacts, PoolFacts, Postponed, QueuePlace, RateWindow, StagedPlace,
    Starts, TenantThrottle, TenantTurn, ThrottleWindow, Turn, TurnRival,
};
pub use planner::{LockFacts, MainQueueFacts, PlannerFacts, PromotionRate, WebhookFacts};
pub use stages::{Life, Stage, StageName, stages};
pub use waiting::{Explanation, Position, explain};

#[cfg(test)]
mod tests;
