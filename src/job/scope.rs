//! Whose jobs a caller may see and touch: everybody's, or those of the one tenant that its API key is bound to.

use super::escape::{escape, unescape};
use super::json::{self, Object};
use super::request::NewJob;
use std::sync::Arc;

/// Whose a job is that names no tenant.
pub const DEFAULT_TENANT: &str = "_default";

/// Stands between a tenant and the name of its worker; names of workers hold no control characters.
const OF_TENANT: char = '\u{1c}';

/// Whose jobs a caller may see and touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(Option<Arc<str>>);

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
    pub const ALL: Scope = Scope(None);

    /// Those of one tenant.
    pub fn of(tenant: &str) -> Self {
        Scope(Some(tenant.into()))
    }

    /// The one tenant, if there is just one.
    pub fn tenant(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether it holds the jobs of a tenant; those without one are the default tenant's.
    pub fn admits(&self, tenant: Option<&str>) -> bool {
        self.tenant().is_none_or(|own| own == tenant.unwrap_or(DEFAULT_TENANT))
    }

    /// As scripts compare it with a job's tenant: escaped, or nothing.
    pub fn word(&self) -> String {
        self.tenant().map(escape).unwrap_or_default()
    }

    /// The name under which a worker is known. Each tenant names its own, so that none can speak for another's.
    pub fn worker(&self, name: &str) -> String {
        match self.tenant() {
            Some(tenant) => format!("{tenant}{OF_TENANT}{name}"),
            None => name.to_owned(),
        }
    }

    /// The key under which a rate limit counts. Each tenant has its own keys, so that none can change another's limits:
    /// clients cannot choose one that starts with `@`.
    pub fn rate_key(&self, key: &str) -> String {
        match self.tenant() {
            // The tenant holds no slash then, so that it ends at the first, whatever the key is.
            Some(tenant) => format!("@{}/{key}", escape(tenant).replace('/', "%2F")),
            None => key.to_owned(),
        }
    }

    /// The key that the caller knows a limit by; `None` if it is another tenant's.
    pub fn own_rate_key<'k>(&self, key: &'k str) -> Option<&'k str> {
        let Some(tenant) = self.tenant() else { return Some(key) };
        let (owner, own) = key.strip_prefix('@')?.split_once('/')?;
        (unescape(owner) == tenant).then_some(own)
    }

    /// Makes a job the tenant's: one that names no tenant gets it, with its limit's key; one that names another is refused.
    pub fn claim(&self, job: &mut NewJob) -> Result<(), Foreign> {
        let Some(tenant) = self.tenant() else { return Ok(()) };
        match job.tenant.as_deref() {
            Some(named) if named == tenant => {}
            None if !names_tenant(job.meta()) => job.put_tenant(tenant),
            _ => return Err(self.foreign("meta.tenant_id")),
        }
        if let Some(limit) = &mut job.rate_limit {
            let key = limit.key_in(&job.queue).into_owned();
            if self.own_rate_key(&key).is_none() {
                limit.key = Some(self.rate_key(&key));
            }
        }
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

/// Whether `meta` says something about a tenant, if only that there is none: what stands there last is what others read.
fn names_tenant(meta: &str) -> bool {
    Object::parse(meta).map_or(true, |meta| meta.members().any(|member| member.name == "tenant_id"))
}

impl NewJob {
    /// Names the tenant in `meta`, where none is named.
    fn put_tenant(&mut self, tenant: &str) {
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
            r#","meta":{"tenant_id":["acme"]}"#,
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
        assert_eq!(acme.own_rate_key(&acme.rate_key("stripe")), Some("stripe"));
        assert_eq!(slash.own_rate_key(&slash.rate_key("queue:q")), Some("queue:q"));
        for foreign in ["stripe", "@beta/stripe", "@acme", "acme/stripe"] {
            assert_eq!(acme.own_rate_key(foreign), None, "{foreign}");
        }
        assert_eq!(Scope::of("a").own_rate_key(&slash.rate_key("c")), None);
        assert_ne!(Scope::of("a").rate_key("b/c"), slash.rate_key("c"));
        let mut limited = job(r#","options":{"queue":"q","rate_limit":{"max_per_second":1}}"#);
        for _ in 0..2 {
            acme.claim(&mut limited).unwrap();
            assert_eq!(limited.rate_limit.as_ref().unwrap().key.as_deref(), Some("@acme/queue:q"));
        }
        assert_ne!(acme.worker("w"), Scope::ALL.worker("w"));
        assert_eq!((own_worker(&acme.worker("w")), own_worker("w")), ("w", "w"));
    }

    #[test]
    fn who_names_no_tenant_is_the_default_tenants() {
        assert!(Scope::ALL.admits(None) && Scope::ALL.admits(Some("x")));
        assert!(Scope::of(DEFAULT_TENANT).admits(None) && !Scope::of("acme").admits(None));
        assert!(Scope::of("acme").admits(Some("acme")) && !Scope::of("acme").admits(Some("beta")));
    }
}
