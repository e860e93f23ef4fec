//! Reporting of likely misconfigurations beside a Sidekiq: each is reported once, in the log and as
//! an event.

use crate::domain::job::sidekiq::Payload;
use crate::domain::json::quoted;
use crate::domain::plan::Rule;
use crate::domain::shape::shape;
use crate::planner::{FailureReporter, Notice};
use crate::store::{SidekiqProcess, Store};
use std::collections::HashSet;

/// Maximum number of findings that are remembered; clients choose the names of classes.
const MOST_FINDINGS: usize = 1000;

/// A likely mistake in the configuration or in a pushed job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// No plan rule covers the class, so its jobs go straight to a queue.
    Unplanned { class: String, queue: String },
    /// Neither the rule nor the job names a queue to promote into.
    QueueUnknown { rule: String, class: String },
    /// The rule's `tenant_key` finds no tenant in the job.
    TenantMissing { rule: String, class: String },
}

/// A `tenant_key` and the shape of the arguments in which it finds no tenant.
#[derive(Clone, Debug)]
pub struct KeyMismatch {
    tenant_key: String,
    args: String,
}

/// Reports findings about the jobs of one main queue.
pub struct StagingReporter {
    store: Store,
    main_queue: String,
    reported: HashSet<Finding>,
    readers: FailureReporter,
}

impl StagingReporter {
    /// Creates a reporter for a main queue.
    pub fn new(store: Store, main_queue: &str) -> StagingReporter {
        let (main_queue, reported, readers) = (main_queue.to_owned(), HashSet::new(), FailureReporter::default());
        StagingReporter { store, main_queue, reported, readers }
    }

    /// Returns the finding about a job in which its rule finds no tenant, with the shape of its
    /// arguments. Returns `None` if it was reported before.
    pub fn tenant_missing(&self, rule: &Rule, payload: &Payload<'_>) -> Option<(Finding, Option<KeyMismatch>)> {
        let finding = Finding::TenantMissing { rule: rule.name.clone(), class: payload.class.clone() };
        let is_news = self.reported.len() < MOST_FINDINGS && !self.reported.contains(&finding);
        is_news.then(|| {
            let mismatch = KeyMismatch { tenant_key: rule.tenant_key.to_string(), args: shape(payload.args) };
            (finding, Some(mismatch))
        })
    }

    /// Reports a finding, unless it was reported before. `mismatch` belongs to a missing tenant.
    pub async fn report(&mut self, finding: &Finding, mismatch: Option<&KeyMismatch>) {
        if self.reported.len() >= MOST_FINDINGS || self.reported.contains(finding) {
            return;
        }
        let main_queue = &self.main_queue;
        let (event, data, message) = match finding {
            Finding::Unplanned { class, queue } => {
                let message = format!(
                    "no plan rule has class {class}, so its jobs go to queue {queue} unplanned; add the class to \
                     `types` of a rule, or stop pushing it to the staging queue"
                );
                tracing::warn!(
                    main_queue,
                    class,
                    queue,
                    "no plan rule has this class; its jobs are passed on unplanned"
                );
                (
                    "main_queue.class_unplanned",
                    format!("\"class\":{},\"queue\":{}", quoted(class), quoted(queue)),
                    message,
                )
            }
            Finding::QueueUnknown { rule, class } => {
                let message = format!(
                    "plan rule {rule} has no queue and jobs of class {class} name none, so they go to queue default; set \
                     `queue` of the rule, or push them through the client middleware"
                );
                tracing::warn!(main_queue, rule, class, "no queue to promote into; jobs go to queue default");
                ("main_queue.queue_unknown", format!("\"rule\":{},\"class\":{}", quoted(rule), quoted(class)), message)
            }
            Finding::TenantMissing { rule, class } => {
                let message = format!(
                    "tenant_key of plan rule {rule} finds no tenant in a job of class {class}, so the job belongs to the \
                     default tenant; compare tenant_key with the shape of the arguments"
                );
                let tenant_key = mismatch.map(|mismatch| mismatch.tenant_key.as_str()).unwrap_or_default();
                let args = mismatch.map(|mismatch| mismatch.args.as_str()).unwrap_or_default();
                tracing::warn!(
                    main_queue,
                    rule,
                    class,
                    tenant_key,
                    args,
                    "tenant_key finds no tenant in a job; it belongs to the default tenant"
                );
                let data = format!(
                    "\"rule\":{},\"class\":{},\"tenant_key\":{},\"args\":{}",
                    quoted(rule),
                    quoted(class),
                    quoted(tenant_key),
                    quoted(args)
                );
                ("main_queue.tenant_missing", data, message)
            }
        };
        let data = format!("{data},\"message\":{}", quoted(&message));
        match self.store.announce(event, main_queue, &data).await {
            Ok(()) => _ = self.reported.insert(finding.clone()),
            Err(error) => tracing::debug!(event, %error, "cannot store an event; trying again with the next such job"),
        }
    }

    /// Reports processes that read the staging queue: their workers run jobs before they are
    /// planned.
    pub async fn report_readers(&mut self, queue: &str, processes: &[SidekiqProcess]) {
        let reads = |process: &&SidekiqProcess| !process.quiet && process.queues.iter().any(|own| own == queue);
        let readers: Vec<&str> = processes.iter().filter(reads).map(|process| process.identity.as_str()).collect();
        let main_queue = &self.main_queue;
        let notice = || {
            let (event, more) = match readers.as_slice() {
                [] => {
                    tracing::info!(main_queue, queue, "no process reads the staging queue any more");
                    ("main_queue.staging_unread", String::new())
                }
                readers => {
                    let processes = readers.join(", ");
                    tracing::warn!(
                        main_queue,
                        queue,
                        processes,
                        "a process reads the staging queue; its workers bypass fairness"
                    );
                    let identities: Vec<String> = readers.iter().map(|identity| quoted(identity)).collect();
                    let message = "these processes read the staging queue, so their workers bypass fairness; remove the \
                        queue from their configuration";
                    let more = format!(",\"processes\":[{}],\"message\":{}", identities.join(","), quoted(message));
                    ("main_queue.staging_read", more)
                }
            };
            let data = format!("\"queue\":{}{more}", quoted(queue));
            Notice { event, subject: main_queue.clone(), data }
        };
        self.readers.report(&self.store, (!readers.is_empty()).then_some("staging_read"), notice).await;
    }
}
