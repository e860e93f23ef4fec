//! Tasks of plan rules: one per rule that needs it, as long as it does.

use super::{KnownRules, Rulebook};
use std::collections::HashMap;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Runs a task for each rule that `wanted` names, following changes of the rules, until `stop`. A
/// task of a rule that is not wanted any more is cancelled, as all are in the end. Returns the tasks
/// that are still ending.
pub async fn run_per_rule<F: Future<Output = ()> + Send + 'static>(
    rules: &Rulebook,
    wanted: impl Fn(&KnownRules) -> Vec<String>,
    task: impl Fn(String, CancellationToken) -> F,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut changes = rules.watch();
    let mut running: HashMap<String, CancellationToken> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        if let Err(error) = rules.known().await {
            tracing::debug!(%error, "cannot read the plan rules yet");
        }
        let names = wanted(&changes.borrow_and_update().clone());
        running.retain(|name, cancel| {
            let stays = names.contains(name);
            if !stays {
                cancel.cancel();
            }
            stays
        });
        for name in names {
            running.entry(name.clone()).or_insert_with(|| {
                let cancel = stop.child_token();
                tasks.spawn(task(name, cancel.clone()));
                cancel
            });
        }
        tokio::select! {
            () = stop.cancelled() => return tasks,
            _ = changes.changed() => {}
        }
    }
}
