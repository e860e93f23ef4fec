//! Whose jobs a caller may see and touch: everybody's, or those of the one tenant that its API key is bound to or that its request
//! names. This is also the one place that maps names between a tenant and the store: those of its queues, pools, crons, workers and
//! rate limits.

use super::escape::{escape, unescape};
use super::json::{self, Object};
use super::limit_key::{LimitKey, LimitScope};
use super::planned::queue_of;
use super::tenant::DEFAULT;
use super::{NewJob, RateLimit};
use std::borrow::Cow;
use std::sync::Arc;

/// Stands between a tenant and the name of its worker; names of workers hold no control characters.
const OF_TENANT: char = '\u{1c}';

/// Whose jobs a caller may see and touch, and which names are that tenant's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    tenant: Option<Arc<str>>,
    /// Whether workers and rate limits of the tenant are apart from those of others.
    owns_names: bool,
    /// Whether its queues, pools and crons are, too.
    owns_queues: bool,
}

/// A job that a caller may not enqueue, because it would be another tenant's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Whose jobs the caller may enqueue.
    pub tenant: String,
    /// Where the other tenant is named.
    pub field: String,
}

impl Scope {
    /// Everybody's.
    pub const ALL: Scope = Scope { tenant: None, owns_names: false, owns_queues: false };

    /// Those of the tenant that a key is bound to. Its workers and rate limits are its own, so that no key reaches another tenant's.
    pub fn of(tenant: &str) -> Self {
        Scope { tenant: Some(tenant.into()), owns_names: true, owns_queues: false }
    }

    /// Those of the tenant that a request names, which shares workers, limits and queues with others.
    pub fn named(tenant: &str) -> Self {
        Scope { owns_names: false, ..Scope::of(tenant) }
    }

    /// The same where each tenant has a namespace of its own. That of the default tenant has no prefix.
    pub fn in_namespace(self) -> Self {
        let owns_names = self.owns_names || self.tenant().is_some_and(|tenant| tenant != DEFAULT);
        Scope { owns_names, owns_queues: self.tenant.is_some(), ..self }
    }

    /// The one tenant, if there is just one.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Whether nothing of other tenants is there, not even what they share.
    pub fn is_apart(&self) -> bool {
        self.owns_names || self.owns_queues
    }

    /// Whether the tenant has queues, pools and crons of its own.
    pub fn owns_queues(&self) -> bool {
        self.owns_queues
    }

    /// The tenant whose name stands before those of its queues, pools and crons.
    pub fn namespace(&self) -> Option<&str> {
        self.tenant().filter(|tenant| self.owns_queues && *tenant != DEFAULT)
    }

    /// The name that a queue, pool or cron of the caller has in the store. One with a slash is nobody's, or another tenant's.
    pub fn qualified<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.namespace() {
            _ if self.owns_queues && name.contains('/') => Cow::Owned(format!("/{name}")),
            Some(tenant) => Cow::Owned(queue_of(tenant, name)),
            None => Cow::Borrowed(name),
        }
    }

    /// The name that the caller knows a queue, pool or cron of the store by; `None` if it is another tenant's.
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

    /// Whether it holds the jobs of a tenant; those without one are the default tenant's.
    pub fn admits(&self, tenant: Option<&str>) -> bool {
        self.tenant().is_none_or(|own| own == tenant.unwrap_or(DEFAULT))
    }

    /// As scripts compare it with a job's tenant: escaped, or nothing.
    pub fn word(&self) -> String {
        self.tenant().map(escape).unwrap_or_default()
    }

    /// The name under which a worker is known. Each tenant names its own, so that none can speak for another's.
    pub fn worker(&self, name: &str) -> String {
        let is_own = self.owns_names || self.owns_queues && name.contains(OF_TENANT);
        match self.tenant().filter(|_| is_own) {
            Some(tenant) => format!("{tenant}{OF_TENANT}{name}"),
            None => name.to_owned(),
        }
    }

    /// The name that the caller knows a worker by; `None` if it is another tenant's.
    pub fn known_worker<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.tenant().filter(|_| self.owns_names) {
            Some(tenant) => name.strip_prefix(tenant)?.strip_prefix(OF_TENANT),
            None => Some(name).filter(|name| !self.owns_queues || !name.contains(OF_TENANT)),
        }
    }

    /// The key under which a rate limit counts. Each tenant has its own keys, so that none can change another's limits:
    /// clients cannot choose one that starts with `@`. The limit of a queue goes by the queue's name.
    pub fn rate_key(&self, key: &str) -> String {
        if let Some(queue) = self.limited_queue(key) {
            return LimitKey::queue(&self.qualified(&queue)).stored();
        }
        let is_own = self.owns_names || self.owns_queues && key.starts_with('@');
        match self.tenant().filter(|_| is_own) {
            // The tenant holds no slash then, so that it ends at the first, whatever the key is.
            Some(tenant) => format!("@{}/{key}", escape(tenant).replace('/', "%2F")),
            None => key.to_owned(),
        }
    }

    /// The queue whose own limit a stored key is, if queues are the tenant's own.
    fn limited_queue(&self, key: &str) -> Option<String> {
        let key = Some(key).filter(|key| self.owns_queues && !key.starts_with('@')).map(LimitKey::from_stored)?;
        (key.scope == LimitScope::Queue).then_some(key.name)
    }

    /// The key that the caller knows a limit by; `None` if it is another tenant's.
    pub fn own_rate_key(&self, key: &str) -> Option<String> {
        if let Some(queue) = self.limited_queue(key) {
            return self.unqualified(&queue).map(|queue| LimitKey::queue(queue).stored());
        }
        let Some(tenant) = self.tenant().filter(|_| self.owns_names) else {
            return Some(key.to_owned()).filter(|key| !self.owns_queues || !key.starts_with(['@', '+']));
        };
        let (owner, own) = key.strip_prefix('@')?.split_once('/')?;
        (unescape(owner) == tenant).then(|| own.to_owned())
    }

    /// Makes the limit that a job brings along one of the tenant's own. That of its queue is already, if the queue is.
    pub fn claim_limit(&self, job: &mut NewJob) {
        let is_own = |limit: &RateLimit| self.owns_queues && limit.key.is_none();
        if let Some(limit) = job.rate_limit.as_mut().filter(|limit| !is_own(limit)) {
            let key = limit.key_in(&job.queue).stored();
            if self.own_rate_key(&key).is_none() {
                limit.key = Some(self.rate_key(&key));
            }
        }
    }

    /// Makes a job the tenant's: one that names no tenant gets it, with its limit's key; one that names another is refused.
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

    /// The refusal of a job whose tenant another one is named as at `field`.
    pub fn foreign(&self, field: &str) -> Foreign {
        Foreign { tenant: self.tenant().unwrap_or_default().to_owned(), field: field.to_owned() }
    }
}

/// The name by which a worker calls itself.
pub fn own_worker(name: &str) -> &str {
    name.rsplit_once(OF_TENANT).map_or(name, |(_, own)| own)
}

impl NewJob {
    /// Whether `meta` says something about a tenant, if only that there is none: what stands there last is what others read.
    pub(super) fn names_tenant(&self) -> bool {
        Object::parse(self.meta()).map_or(true, |meta| meta.members().any(|member| member.name == "tenant_id"))
    }

    /// Names the tenant in `meta`, where none is named.
    pub(super) fn put_tenant(&mut self, tenant: &str) {
        let is_empty = Object::parse(self.meta()).is_ok_and(|meta| meta.is_empty());
        let mut member = String::from("\"tenant_id\":");
        json::push_text(&mut member, tenant);
        if !is_empty {
            member.push(',');
        }
        // Behind the brace that `meta` starts with; everything else stays to the byte.
        self.envelope.insert_str(self.meta.start + 1, &member);
        self.meta.end += member.len();
        self.tenant = Some(tenant.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limits;
    use crate::job::request::{Context, parse};

    fn job(more: &str) -> NewJob {
        parse(&format!(r#"{{"type":"a","args":[1.0]{more}}}"#), &Limits::default(), &Context::default()).unwrap()
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
    fn limits_and_workers_are_each_tenants_own() {
        let (acme, slash) = (Scope::of("acme"), Scope::of("a/b"));
        assert_eq!(acme.own_rate_key(&acme.rate_key("stripe")).as_deref(), Some("stripe"));
        assert_eq!(slash.own_rate_key(&slash.rate_key("#q")).as_deref(), Some("#q"));
        for foreign in ["stripe", "@beta/stripe", "@acme", "acme/stripe"] {
            assert_eq!(acme.own_rate_key(foreign), None, "{foreign}");
        }
        assert_eq!(Scope::of("a").own_rate_key(&slash.rate_key("c")), None);
        assert_ne!(Scope::of("a").rate_key("b/c"), slash.rate_key("c"));
        let mut limited = job(r#","options":{"queue":"q","rate_limit":{"max_per_second":1}}"#);
        for _ in 0..2 {
            acme.claim(&mut limited).unwrap();
            assert_eq!(limited.rate_limit.as_ref().unwrap().key.as_deref(), Some("@acme/#q"));
        }
        assert_ne!(acme.worker("w"), Scope::ALL.worker("w"));
        assert_eq!((own_worker(&acme.worker("w")), own_worker("w")), ("w", "w"));
    }

    #[test]
    fn a_request_that_names_a_tenant_shares_names_unless_there_are_namespaces() {
        let shares = Scope::named("acme");
        assert_eq!((shares.tenant(), shares.is_apart()), (Some("acme"), false));
        assert_eq!((shares.worker("w").as_str(), shares.rate_key("k").as_str()), ("w", "k"));
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
        assert_eq!((acme.rate_key("#q").as_str(), acme.rate_key("queue:q").as_str()), ("#acme/q", "@acme/queue:q"));
        assert_eq!(acme.own_rate_key("#acme/q").as_deref(), Some("#q"));
        for foreign in ["#q", "#beta/q", "queue:acme/q", "stripe", "@beta/stripe", "+acme:acme/q"] {
            assert_eq!(acme.own_rate_key(foreign), None, "{foreign}");
        }
        for (key, own) in [
            ("stripe", Some("stripe")),
            ("#q", Some("#q")),
            ("@acme/k", None),
            ("#acme/q", None),
            ("+acme:acme/q", None),
        ] {
            assert_eq!(default.own_rate_key(key).as_deref(), own, "{key}");
        }
        for scope in [&acme, &default] {
            let reached =
                [scope.qualified("beta/q"), scope.rate_key("@beta/k").into(), scope.worker("beta\u{1c}w").into()];
            for (reached, foreign) in reached.iter().zip(["beta/q", "@beta/k", "beta\u{1c}w"]) {
                assert_ne!(reached, foreign, "{scope:?}");
            }
            assert_eq!(scope.unqualified(&scope.qualified("b/q")), None);
        }
        assert_eq!(acme.known_worker(&acme.worker("w")), Some("w"));
        assert_eq!((acme.known_worker("w"), default.known_worker(&acme.worker("w"))), (None, None));
        assert_eq!((default.known_worker("w"), Scope::ALL.known_worker("w")), (Some("w"), Some("w")));
    }

    #[test]
    fn who_names_no_tenant_is_the_default_tenants() {
        assert!(Scope::ALL.admits(None) && Scope::ALL.admits(Some("x")));
        assert!(Scope::of(DEFAULT).admits(None) && !Scope::of("acme").admits(None));
        assert!(Scope::of("acme").admits(Some("acme")) && !Scope::of("acme").admits(Some("beta")));
    }
}
