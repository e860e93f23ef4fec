//! The active plan rules: those of the configuration file plus changes made at run time.

use super::policy::ActivePolicy;
use crate::config;
use crate::domain::plan::{Rule, Rules};
use crate::domain::pool::Policy;
use crate::domain::tenant::TenantRule;
use crate::store::{Error, Signal, Store, StoredRule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Maximum number of attempts to change the rules under concurrent changes.
pub(super) const ATTEMPTS: usize = 8;
/// Interval at which the rules are read without a signal, because signals may be lost.
const LONGEST: Duration = Duration::from_secs(5);

/// The source of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    File,
    Api,
}

impl RuleSource {
    /// Returns the name used in API answers.
    pub fn name(self) -> &'static str {
        match self {
            RuleSource::File => "file",
            RuleSource::Api => "api",
        }
    }
}

/// A rule and its source.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    rule: Rule,
    source: RuleSource,
}

/// The stored form of an entry.
#[derive(Deserialize, Serialize)]
struct Document {
    /// The position among all rules.
    place: usize,
    rule: Value,
    source: RuleSource,
}

/// The rules as this process knows them.
#[derive(Clone, Debug, Default)]
pub struct KnownRules {
    /// Identifies to scripts the rules under which a job was prepared.
    pub version: Arc<str>,
    pub rules: Rules,
    sources: Vec<RuleSource>,
    /// Removed rules with staged jobs, each with its main queue.
    pub draining: Vec<(String, String)>,
    /// The dispatch policy, and the parts of it that were changed at run time.
    pub dispatch: ActivePolicy,
    /// True once the rules have been read from the store.
    read: bool,
}

impl KnownRules {
    /// Returns the source of a rule.
    pub fn source(&self, name: &str) -> Option<RuleSource> {
        let place = self.rules.iter().position(|rule| rule.name == name)?;
        self.sources.get(place).copied()
    }

    /// Returns the names of all rules with staged jobs or the possibility of them: active rules,
    /// then draining ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str()).chain(self.draining.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns true if there is an active or draining rule of that name.
    pub fn has(&self, name: &str) -> bool {
        self.rules.get(name).is_some() || self.is_draining(name)
    }

    /// Returns true if a rule was removed but still has staged jobs.
    pub fn is_draining(&self, name: &str) -> bool {
        self.draining.iter().any(|(gone, _)| gone == name)
    }

    /// Returns the rule of that name. A draining rule has every option at its default.
    pub fn find(&self, name: &str) -> Option<Arc<Rule>> {
        let drained = || {
            let (_, main_queue) = self.draining.iter().find(|(gone, _)| gone == name)?;
            Some(Arc::new(Rule { main_queue: main_queue.clone(), ..Rule::new(name, &[]) }))
        };
        self.rules.get(name).cloned().or_else(drained)
    }

    fn entries(&self) -> Vec<Entry> {
        let rules = self.rules.iter().zip(&self.sources);
        rules.map(|(rule, source)| Entry { rule: Rule::clone(rule), source: *source }).collect()
    }
}

/// The result of removing a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The rule was removed; its staged jobs are still promoted.
    Gone,
    /// The run-time changes were removed, and the file's rule is active again.
    Restored,
    /// The rule is in the file, so it would be back after the next start. Nothing was changed.
    InFile,
    Unknown,
}

/// A handle to the rules; clones share the state.
#[derive(Clone)]
pub struct Rulebook {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) store: Store,
    file: Vec<Rule>,
    pub(super) policy: Policy,
    pub(super) tenants: Vec<TenantRule>,
    defaults: config::PlanDefaults,
    known: watch::Sender<Arc<KnownRules>>,
    /// True once the file's rules have been written to the store.
    started: AtomicBool,
}

impl Rulebook {
    /// Creates a rulebook of a store with the rules of the configuration file.
    pub fn new(store: Store, file: Vec<Rule>, policy: Policy, defaults: config::PlanDefaults) -> Self {
        Self::with_tenants(store, file, policy, defaults, Vec::new())
    }

    /// Creates a rulebook that also has tenant rules.
    pub fn with_tenants(
        store: Store,
        file: Vec<Rule>,
        policy: Policy,
        defaults: config::PlanDefaults,
        tenants: Vec<TenantRule>,
    ) -> Self {
        let (known, started) = (watch::channel(Arc::default()).0, AtomicBool::new(false));
        Rulebook { inner: Arc::new(Inner { store, file, policy, tenants, defaults, known, started }) }
    }

    /// Creates a rulebook that only contains the stored rules; `reload` reads them.
    pub fn as_stored(store: Store) -> Self {
        let rules = Self::new(store, Vec::new(), Policy::default(), config::PlanDefaults::default());
        rules.inner.started.store(true, Ordering::SeqCst);
        rules
    }

    /// Returns the configured defaults of plan rules.
    pub fn defaults(&self) -> &config::PlanDefaults {
        &self.inner.defaults
    }

    /// Subscribes to changes of the rules.
    pub fn watch(&self) -> watch::Receiver<Arc<KnownRules>> {
        self.inner.known.subscribe()
    }

    /// Returns the rules as last read.
    pub fn now(&self) -> Arc<KnownRules> {
        Arc::clone(&self.inner.known.borrow())
    }

    /// Returns the rules; writes the file's rules to the store first, if that has not been done
    /// yet.
    pub async fn known(&self) -> Result<Arc<KnownRules>, Error> {
        match self.is_started() {
            true => Ok(self.now()),
            false => self.start().await,
        }
    }

    /// Writes the file's rules to the store, keeping rules that were changed at run time.
    pub async fn start(&self) -> Result<Arc<KnownRules>, Error> {
        let known = self.change(|entries| {
            let stays = |entry: &Entry| entry.source == RuleSource::Api;
            let mut merged: Vec<Entry> = Vec::new();
            for rule in &self.inner.file {
                let changed = entries.iter().find(|entry| stays(entry) && entry.rule.name == rule.name);
                let own = Entry { rule: rule.clone(), source: RuleSource::File };
                merged.push(changed.cloned().unwrap_or(own));
            }
            let added = |entry: &&Entry| stays(entry) && !self.is_in_file(&entry.rule.name);
            merged.extend(entries.iter().filter(added).cloned());
            merged
        });
        known.await?;
        self.start_policy().await?;
        self.start_tenants().await?;
        let known = self.read().await?;
        self.inner.started.store(true, Ordering::SeqCst);
        Ok(known)
    }

    fn is_started(&self) -> bool {
        self.inner.started.load(Ordering::SeqCst)
    }

    /// Reads the rules again, because they have changed.
    pub async fn reload(&self) -> Result<Arc<KnownRules>, Error> {
        if !self.is_started() {
            return self.start().await; // Redis was unreachable until now.
        }
        let known = self.read().await?;
        // An empty version means that Redis was emptied; restore the file's rules.
        let inner = &self.inner;
        let has_own = !inner.file.is_empty() || !inner.policy.is_plain() || !inner.tenants.is_empty();
        if known.version.is_empty() && has_own { self.start().await } else { Ok(known) }
    }

    /// Follows changes by other processes until `stop`. Every process needs this, even if it does
    /// not plan, because it answers requests by these rules.
    pub async fn follow(self, stop: CancellationToken) {
        let mut signals = self.inner.store.signals();
        loop {
            if let Err(error) = self.reload().await {
                tracing::debug!(%error, "cannot read the plan rules");
            }
            let next = tokio::time::sleep(LONGEST);
            let changed = async {
                loop {
                    match signals.recv().await {
                        Ok(Signal::Rules | Signal::Missed) | Err(RecvError::Lagged(_)) => return,
                        Ok(_) => {}
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed => {}
                () = next => {}
            }
        }
    }

    /// Adds a rule or replaces the one of that name.
    pub async fn put(&self, rule: Rule) -> Result<Arc<KnownRules>, Error> {
        self.change(|entries| {
            let new = Entry { rule: rule.clone(), source: RuleSource::Api };
            let mut changed = entries.to_vec();
            match changed.iter_mut().find(|entry| entry.rule.name == rule.name) {
                Some(entry) => *entry = new,
                None => changed.push(new),
            }
            changed
        })
        .await
    }

    /// Removes a rule, or the run-time changes to a rule of the file.
    pub async fn remove(&self, name: &str) -> Result<Removed, Error> {
        let of_file = self.inner.file.iter().find(|rule| rule.name == name);
        match (self.reload().await?.source(name), of_file) {
            (None, _) => return Ok(Removed::Unknown),
            (Some(RuleSource::File), _) => return Ok(Removed::InFile),
            (Some(RuleSource::Api), _) => {}
        }
        self.change(|entries| {
            let mut changed = entries.to_vec();
            match (changed.iter_mut().find(|entry| entry.rule.name == name), of_file) {
                (Some(entry), Some(rule)) => *entry = Entry { rule: rule.clone(), source: RuleSource::File },
                _ => changed.retain(|entry| entry.rule.name != name),
            }
            changed
        })
        .await?;
        Ok(if of_file.is_some() { Removed::Restored } else { Removed::Gone })
    }

    fn is_in_file(&self, name: &str) -> bool {
        self.inner.file.iter().any(|rule| rule.name == name)
    }

    /// Replaces the rules by the result of `change`, and repeats that if another process changed
    /// them meanwhile.
    async fn change(&self, change: impl Fn(&[Entry]) -> Vec<Entry>) -> Result<Arc<KnownRules>, Error> {
        for _ in 0..ATTEMPTS {
            let before = self.read().await?;
            let (old, new) = (before.entries(), change(&before.entries()));
            let same = |(old, new): (&Entry, &Entry)| old.rule == new.rule && old.source == new.source;
            if old.len() == new.len() && old.iter().zip(&new).all(same) {
                return Ok(before);
            }
            let stored: Vec<StoredRule<'_>> = new
                .iter()
                .enumerate()
                .map(|(place, entry)| StoredRule { rule: &entry.rule, document: document(entry, place) })
                .collect();
            if self.inner.store.replace_rules(&before.version, &stored).await? {
                return self.read().await;
            }
        }
        Err(Error::Busy)
    }

    pub(super) async fn read(&self) -> Result<Arc<KnownRules>, Error> {
        let set = self.inner.store.rules().await?;
        let parsed = set.documents.iter().map(|(name, document)| (name, parse(name, document)));
        let mut entries: Vec<(usize, Entry)> = parsed
            .filter_map(|(rule, entry)| {
                let unknown = |problems: &Vec<config::Problem>| {
                    tracing::error!(rule, ?problems, "cannot parse a stored plan rule; its types are not planned");
                };
                entry.inspect_err(unknown).ok()
            })
            .collect();
        entries.sort_by_key(|(place, _)| *place);
        let (sources, rules): (Vec<_>, Vec<_>) =
            entries.into_iter().map(|(_, entry)| (entry.source, entry.rule)).unzip();
        let version = set.version.into();
        let dispatch = ActivePolicy::from_document(&set.policy);
        let (rules, draining) = (Rules::new(rules), set.draining);
        let known = Arc::new(KnownRules { version, rules, sources, draining, dispatch, read: true });
        self.inner.known.send_if_modified(|now| {
            let changed = now.version != known.version || now.draining != known.draining || !now.read;
            if changed {
                *now = Arc::clone(&known);
            }
            changed
        });
        Ok(known)
    }
}

/// Parses the output of [`document`]; returns the position and the entry.
fn parse(name: &str, text: &str) -> Result<(usize, Entry), Vec<config::Problem>> {
    let Document { place, rule, source } = serde_json::from_str(text).map_err(|error| vec![error.into()])?;
    // Stored documents are complete: this process' own defaults must not change them.
    let rule = config::plan_from_json(name, rule, &config::PlanDefaults::default(), config::RuleContext::ANY)?;
    Ok((place, Entry { rule, source }))
}

fn document(entry: &Entry, place: usize) -> String {
    json!(Document { place, rule: entry.rule.to_json(), source: entry.source }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_and_a_broken_one_names_the_fault() {
        let entry = Entry { rule: Rule::new("r", &["a.*"]), source: RuleSource::Api };
        let text = document(&entry, 3);
        assert_eq!(parse("r", &text), Ok((3, entry)));
        for (broken, expected) in [
            ("{".to_owned(), "EOF while parsing"),
            ("{}".to_owned(), "missing field `place`"),
            (text.replace("\"api\"", "\"elsewhere\""), "unknown variant `elsewhere`, expected `file` or `api`"),
            (text.replace("a.*", "A b"), "expected a job type"),
        ] {
            let problems = parse("r", &broken).expect_err("it is broken");
            assert!(problems[0].message.starts_with(expected), "{problems:?}");
        }
    }
}
