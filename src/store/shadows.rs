//! Verbs of rules in shadow: who watches, and what was seen.

use super::rounds::ROUNDS_KEPT;
use super::script::SHADOW_SAVE;
use super::{Error, Store, reply};
use crate::job::escape::{escape, unescape};
use crate::job::id;

/// What became of the wish to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It is ours to watch, and what was seen is kept.
    Kept,
    Paused,
    /// The rule is not in shadow any more.
    Gone,
    /// Another process watches, for so many ms unless it goes on.
    Elsewhere {
        by: String,
        left_ms: u64,
    },
}

/// What a process has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowRecord {
    /// Who watches.
    pub holder: String,
    pub document: String,
}

impl Store {
    /// Keeps what was seen for `life_ms`, and the rounds that would have been; nobody else watches meanwhile.
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
            _ => return Err(Error::unreadable("shadow")),
        })
    }

    /// What was last seen of a rule in shadow; none where nobody watches.
    pub async fn shadow(&self, rule: &str) -> Result<Option<ShadowRecord>, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.core.keys.shadow(rule)).arg("holder").arg("document");
        let mut parts = reply::array(self.core.command("shadow", command).await?, "shadow")?.into_iter();
        let mut text = || parts.next().map(reply::text).unwrap_or_default();
        let (holder, document) = (unescape(&text()), text());
        Ok((!document.is_empty()).then_some(ShadowRecord { holder, document }))
    }
}
