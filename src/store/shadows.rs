//! Records of rules in shadow mode, written by the one process that watches a rule.

use super::rounds::ROUNDS_KEPT;
use super::script::SHADOW_SAVE;
use super::{Error, Store, reply};
use crate::job::escape::{escape, unescape};
use crate::job::id;

/// The outcome of saving a shadow record.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let call_id = id::generate();
        let fill = |command: &mut redis::Cmd, _: bool| {
            let command = self.core.begin(command).arg(rule).arg(escape(holder)).arg(&call_id).arg(life_ms);
            command.arg(document).arg(ROUNDS_KEPT).arg(rounds);
        };
        let mut parts = reply::texts(SHADOW_SAVE.call(&self.core.connection, fill).await?, "shadow_save")?.into_iter();
        Ok(match parts.next().as_deref() {
            Some("ok") => Watched::Kept,
            Some("paused") => Watched::Paused,
            Some("gone") => Watched::Gone,
            Some("held") => {
                let by = unescape(&parts.next().unwrap_or_default());
                Watched::Elsewhere { by, left_ms: parts.next().and_then(|ms| ms.parse().ok()).unwrap_or(0) }
            }
            _ => return Err(Error::unreadable("shadow_save")),
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
