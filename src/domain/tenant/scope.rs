//! Access scope of a caller: all tenants, or the one tenant that its API key is bound to or that
//! its request names.
//!
//! This module is also the only place that maps names between a tenant and the store: those of
//! queues, pools, crons and rate limits. `store/codec/tenant.rs` maps those of workers.

use crate::domain::escape::escape;
use crate::domain::job::NewJob;
use crate::domain::job::queue_of;
use crate::domain::limit::{LimitKey, LimitScope, RateLimit};
use crate::domain::tenant_id::DEFAULT;
use std::borrow::Cow;
use std::sync::Arc;

/// The tenant whose jobs a caller may access, and the kinds of names that belong to this tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    tenant: Option<Arc<str>>,
    /// True if workers and rate limits of the tenant are separate from those of others.
    owns_names: bool,
    /// True if queues, pools and crons of the tenant are separate from those of others.
    owns_queues: bool,
}

/// Error for a job that the caller may not enqueue because it belongs to another tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Tenant whose jobs the caller may enqueue.
    pub tenant: String,
    /// Path of the member that names the other tenant.
    pub field: String,
}

impl Scope {
    /// Access to all tenants.
    pub const ALL: Scope = Scope { tenant: None, owns_names: false, owns_queues: false };

    /// Access to the tenant that an API key is bound to. Its workers and rate limits are separate,
    /// so that no key reaches those of another tenant.
    pub fn of(tenant: &str) -> Self {
        Scope { tenant: Some(tenant.into()), owns_names: true, owns_queues: false }
    }

    /// Access to the tenant that a request names. It shares workers, limits and queues with others.
    pub fn named(tenant: &str) -> Self {
        Scope { owns_names: false, ..Scope::of(tenant) }
    }

    /// Returns the scope for servers with a namespace per tenant. Names of the default tenant have
    /// no prefix.
    pub fn in_namespace(self) -> Self {
        let owns_names = self.owns_names || self.tenant().is_some_and(|tenant| tenant != DEFAULT);
        Scope { owns_names, owns_queues: self.tenant.is_some(), ..self }
    }

    /// Returns the tenant, if the scope is limited to one.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Returns true if nothing of other tenants is visible, not even shared names.
    pub fn is_apart(&self) -> bool {
        self.owns_names || self.owns_queues
    }

    /// Returns true if workers and rate limits of the tenant are separate from those of others.
    pub fn owns_names(&self) -> bool {
        self.owns_names
    }

    /// Returns true if the tenant has queues, pools and crons of its own.
    pub fn owns_queues(&self) -> bool {
        self.owns_queues
    }

    /// Returns the tenant whose name prefixes those of its queues, pools and crons.
    pub fn namespace(&self) -> Option<&str> {
        self.tenant().filter(|tenant| self.owns_queues && *tenant != DEFAULT)
    }

    /// Maps the caller's name of a queue, pool or cron to its name in the store. A name with a
    /// slash maps to one that does not exist, so that it cannot reach another tenant's.
    pub fn qualified<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.namespace() {
            _ if self.owns_queues && name.contains('/') => Cow::Owned(format!("/{name}")),
            Some(tenant) => Cow::Owned(queue_of(tenant, name)),
            None => Cow::Borrowed(name),
        }
    }

    /// Maps the name of a queue, pool or cron in the store to the caller's name; `None` if it
    /// belongs to another tenant.
    pub fn unqualified<'n>(&self, name: &'n str) -> Option<&'n str> {
        if !self.owns_queues {
            return Some(name);
        }
        let own = match self.namespace() {
            Some(tenant) => name.strip_prefix(&escape(tenant))?.strip_prefix('/')?,
            None => name,
        };
        (!own.contains('/')).then_some(own)
    }

    /// Returns true if the scope includes jobs of this tenant. Jobs without one belong to the
    /// default tenant.
    pub fn admits(&self, tenant: Option<&str>) -> bool {
        self.tenant().is_none_or(|own| own == tenant.unwrap_or(DEFAULT))
    }

    /// Maps the caller's key of a rate limit to its key among those of all tenants. It belongs to the
    /// tenant, so that no tenant can change another's limits. The key of a queue's limit is derived
    /// from the queue's name in the store.
    pub fn rate_key(&self, key: &LimitKey) -> LimitKey {
        if let Some(queue) = self.limited_queue(key) {
            return LimitKey::queue(&self.qualified(queue));
        }
        let is_own = self.owns_names || self.owns_queues && !key.owner.is_empty();
        match self.tenant().filter(|_| is_own) {
            Some(tenant) => LimitKey { owner: owner(tenant) + &key.owner, ..key.clone() },
            None => key.clone(),
        }
    }

    /// Returns the queue whose own limit a key is, if queues belong to the tenant.
    fn limited_queue<'k>(&self, key: &'k LimitKey) -> Option<&'k str> {
        let is_of_queue = self.owns_queues && key.owner.is_empty() && key.scope == LimitScope::Queue;
        is_of_queue.then_some(key.name.as_str())
    }

    /// Maps the key of a rate limit among those of all tenants to the caller's key; `None` if it
    /// belongs to another tenant.
    pub fn own_rate_key(&self, key: &LimitKey) -> Option<LimitKey> {
        if let Some(queue) = self.limited_queue(key) {
            return self.unqualified(queue).map(LimitKey::queue);
        }
        let Some(tenant) = self.tenant().filter(|_| self.owns_names) else {
            let is_shared = key.owner.is_empty() && key.scope != LimitScope::Tenant;
            return Some(key.clone()).filter(|_| !self.owns_queues || is_shared);
        };
        (key.owner == owner(tenant)).then(|| LimitKey { owner: String::new(), ..key.clone() })
    }

    /// Moves the job's rate limit into the tenant's own keys. The limit of a queue that belongs to
    /// the tenant is there already.
    pub fn claim_limit(&self, job: &mut NewJob) {
        let is_own = |limit: &RateLimit| self.owns_queues && limit.key.is_none();
        if let Some(limit) = job.rate_limit.as_mut().filter(|limit| !is_own(limit)) {
            let key = limit.key_in(&job.queue);
            if self.own_rate_key(&key).is_none() {
                limit.key = Some(self.rate_key(&key));
            }
        }
    }

    /// Assigns a job to the tenant: a job without a tenant gets this one, including its limit's
    /// key; a job of another tenant is refused.
    pub fn claim(&self, job: &mut NewJob) -> Result<(), Foreign> {
        let Some(tenant) = self.tenant() else { return Ok(()) };
        match job.tenant.as_deref() {
            Some(named) if named == tenant => {}
            None if !job.names_tenant() => job.put_tenant(tenant),
            _ => return Err(self.foreign("meta.tenant_id")),
        }
        self.claim_limit(job);
        Ok(())
    }

    /// Creates the error for a job that names another tenant in `field`.
    pub fn foreign(&self, field: &str) -> Foreign {
        Foreign { tenant: self.tenant().unwrap_or_default().to_owned(), field: field.to_owned() }
    }
}

/// Returns the owner of a tenant's keys. The escaped tenant contains no slash, so it ends at the first
/// one, whatever the key contains.
fn owner(tenant: &str) -> String {
    format!("@{}/", escape(tenant).replace('/', "%2F"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{Context, parse};

    fn job(more: &str) -> NewJob {
        parse(&format!(r#"{{"type":"a","args":[1.0]{more}}}"#), &RequestLimits::default(), &Context::default()).unwrap()
    }

    #[test]
    fn a_job_becomes_the_callers_and_stays_the_same_otherwise() {
        for (meta, expected) in [
            ("", r#"{"tenant_id":"acme"}"#),
            (r#","meta":{}"#, r#"{"tenant_id":"acme"}"#),
            (r#","meta":{"x": 1e400}"#, r#"{"tenant_id":"acme","x": 1e400}"#),
            (r#","meta":{"tenant_id": "acme"}"#, r#"{"tenant_id": "acme"}"#),
        ] {
            let mut job = job(meta);
            let before = job.envelope.replace(job.meta(), "META");
            Scope::of("acme").claim(&mut job).unwrap();
            assert_eq!((job.meta(), job.args(), job.tenant.as_deref()), (expected, "[1.0]", Some("acme")));
            assert_eq!(job.envelope.replace(job.meta(), "META"), before, "{meta}");
        }
    }

    #[test]
    fn a_job_of_another_tenant_is_refused() {
        for meta in [
            r#","meta":{"tenant_id":"beta"}"#,
            r#","meta":{"tenant_id":null}"#,
            r#","meta":{"tenant_id":"acme","tenant_id":"beta"}"#,
            r#","options":{"metadata":{"tenant_id":"beta"}}"#,
        ] {
            let refused = Scope::of("acme").claim(&mut job(meta)).unwrap_err();
            assert_eq!((refused.tenant.as_str(), refused.field.as_str()), ("acme", "meta.tenant_id"), "{meta}");
            assert_eq!(Scope::ALL.claim(&mut job(meta)), Ok(()));
        }
    }

    #[test]
    fn limits_are_each_tenants_own() {
        let (acme, slash) = (Scope::of("acme"), Scope::of("a/b"));
        for key in [LimitKey::key("stripe"), LimitKey::queue("q")] {
            assert_eq!(acme.own_rate_key(&acme.rate_key(&key)), Some(key.clone()));
            assert_eq!(slash.own_rate_key(&slash.rate_key(&key)), Some(key));
        }
        for foreign in ["stripe", "@beta/stripe", "@acme", "acme/stripe"].map(LimitKey::key) {
            assert_eq!(acme.own_rate_key(&foreign), None, "{foreign}");
        }
        let c = LimitKey::key("c");
        assert_eq!(Scope::of("a").own_rate_key(&slash.rate_key(&c)), None);
        assert_ne!(Scope::of("a").rate_key(&LimitKey::key("b/c")), slash.rate_key(&c));
        let mut limited = job(r#","options":{"queue":"q","rate_limit":{"max_per_second":1}}"#);
        for _ in 0..2 {
            acme.claim(&mut limited).unwrap();
            assert_eq!(limited.rate_limit.as_ref().unwrap().key, Some(LimitKey::queue("@acme/q")));
        }
    }

    #[test]
    fn a_request_that_names_a_tenant_shares_names_unless_there_are_namespaces() {
        let shares = Scope::named("acme");
        assert_eq!((shares.tenant(), shares.is_apart()), (Some("acme"), false));
        let (k, q) = (LimitKey::key("k"), LimitKey::queue("q"));
        assert_eq!(shares.rate_key(&k), k);
        assert_eq!((&*shares.qualified("q"), shares.unqualified("beta/q")), ("q", Some("beta/q")));

        let (acme, default) = (shares.in_namespace(), Scope::named(DEFAULT).in_namespace());
        for name in ["q", "a.b-c"] {
            assert_eq!(acme.unqualified(&acme.qualified(name)), Some(name));
            assert_eq!(default.unqualified(&default.qualified(name)), Some(name));
        }
        assert_eq!((&*acme.qualified("q"), &*default.qualified("q")), ("acme/q", "q"));
        for foreign in ["q", "beta/q", "acme/b/q", "acme2/q", "acme"] {
            assert_eq!(acme.unqualified(foreign), None, "{foreign}");
        }
        assert_eq!(default.unqualified("acme/q"), None);
        let of_acme = LimitKey::queue("acme/q");
        assert_eq!(acme.rate_key(&q), of_acme);
        assert_eq!(acme.rate_key(&LimitKey::key("queue:q")).to_string(), "@acme/queue:q");
        assert_eq!(acme.own_rate_key(&of_acme), Some(q.clone()));
        let slots = LimitKey::of(LimitScope::Tenant, "acme:acme/q");
        let foreign = ["queue:acme/q", "stripe", "@beta/stripe"].map(LimitKey::key);
        for foreign in foreign.into_iter().chain([q.clone(), LimitKey::queue("beta/q"), slots.clone()]) {
            assert_eq!(acme.own_rate_key(&foreign), None, "{foreign}");
        }
        for (key, is_own) in [(k, true), (q, true), (LimitKey::key("@acme/k"), false), (of_acme, false), (slots, false)]
        {
            assert_eq!(default.own_rate_key(&key), Some(key.clone()).filter(|_| is_own), "{key}");
        }
        let of_beta = LimitKey::key("@beta/k");
        for scope in [&acme, &default] {
            assert_ne!(scope.rate_key(&of_beta), of_beta, "{scope:?}");
            assert_ne!(scope.qualified("beta/q"), "beta/q", "{scope:?}");
            assert_eq!(scope.unqualified(&scope.qualified("b/q")), None);
        }
    }

    #[test]
    fn who_names_no_tenant_is_the_default_tenants() {
        assert!(Scope::ALL.admits(None) && Scope::ALL.admits(Some("x")));
        assert!(Scope::of(DEFAULT).admits(None) && !Scope::of("acme").admits(None));
        assert!(Scope::of("acme").admits(Some("acme")) && !Scope::of("acme").admits(Some("beta")));
    }
}
