//! Enums that scripts exchange as their names.

use crate::domain::cron::CronSkip;
use crate::domain::job::State;
use crate::domain::limit::LimitStrategy;
use crate::domain::pool::Directive;
use crate::domain::workflow::{Shape, WorkflowState};
use serde::de::{Deserialize, Deserializer, Error};

macro_rules! read_by_name {
    ($($type:ty),+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| D::Error::custom(format_args!("unknown name `{name}`")))
            }
        }
    )+};
}

read_by_name!(CronSkip, Directive, LimitStrategy, Shape, State, WorkflowState);
