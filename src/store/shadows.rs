//! Records of rules in shadow mode, written by the one process that watches a rule.

use super::rounds::ROUNDS_KEPT;
use super::script::SHADOW_SAVE;
use super::{Error, Store, reply};
use crate::job::escape::{escape, unescape};
use crate::job::id;
use serde::{Deserialize, Serialize};

/// The outcome of saving a shadow record.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// The record is saved; the caller watches the rule.
    Kept,
    Paused,
    /// The rule is not in shadow mode any more.
    Gone,
    /// Another process watches the rule, for `left_ms` unless it renews.
    Elsewhere {
        by: String,
        left_ms: u64,
    },
}

/// The record of a rule in shadow mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowRecord {
    /// The process that watches the rule.
    pub holder: String,
    pub document: String,
}

#[derive(Serialize)]
struct ShadowSave<'a> {
    rule: &'a str,
    holder: &'a str,
    id: &'a str,
    life: u64,
    document: &'a str,
    most: usize,
    rounds: &'a [String],
}

impl Store {
    /// Saves the record of a rule in shadow mode for `life_ms`, and the rounds that it would have
    /// run. No other process can watch the rule during that time.
    pub async fn keep_shadow(
        &self,
        rule: &str,
        holder: &str,
        life_ms: u64,
        document: &str,
        rounds: &[String],
    ) -> Result<Watched, Error> {
        let (holder, id) = (&escape(holder), &id::generate());
        let args = ShadowSave { rule, holder, id, life: life_ms, document, most: ROUNDS_KEPT, rounds };
        Ok(match SHADOW_SAVE.call_packed(&self.core, &args).await? {
            Watched::Elsewhere { by, left_ms } => Watched::Elsewhere { by: unescape(&by), left_ms },
            watched => watched,
        })
    }

    /// Returns the last record of a rule in shadow mode; `None` if no process watches it.
    pub async fn shadow(&self, rule: &str) -> Result<Option<ShadowRecord>, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.keys.shadow(rule)).arg("holder").arg("document");
        let mut parts = reply::array(self.core.command("shadow", command).await?, "shadow")?.into_iter();
        let mut text = || reply::text(parts.next().unwrap_or_default(), "shadow");
        let (holder, document) = (unescape(&text()?), text()?);
        Ok((!document.is_empty()).then_some(ShadowRecord { holder, document }))
    }
}
