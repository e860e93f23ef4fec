//! Parents of a job: the workflow or job that a new job names as its origin. A parent belongs to
//! the same tenant as the job; workflows do not cross tenants.

use super::NewJob;
use super::id;
use crate::domain::invalid::{Invalid, Kind};
use crate::domain::json::{self, Object};
use crate::domain::tenant_id::DEFAULT;

/// Kind of an ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Workflow,
    Job,
}

/// Members that name an ancestor, at top level or in `meta`.
const NAMES: [(&str, Origin); 2] = [("workflow_id", Origin::Workflow), ("parent_id", Origin::Job)];

/// A workflow or job that a new job names as its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub origin: Origin,
    pub id: String,
    /// Path of the member that names it, such as `meta.workflow_id`.
    pub field: String,
    /// Tenant of the ancestor, filled in by a lookup in the store. `None` before the lookup, and if
    /// the ancestor does not exist.
    pub owner: Option<String>,
}

impl Ancestor {
    /// Returns the ancestor that a member names, or `None` for any other member.
    pub(super) fn of_member(path: &str, name: &str, value: &str) -> Option<Ancestor> {
        let (_, origin) = NAMES.iter().find(|(known, _)| *known == name)?;
        // Ids are always UUIDv7, so an ancestor with any other id cannot exist.
        let id = json::text(value).filter(|id| id::is_valid(id))?.into_owned();
        Some(Ancestor { origin: *origin, id, field: format!("{path}{name}"), owner: None })
    }

    /// Returns the ancestors that the text of `meta` names.
    pub(super) fn in_meta(meta: &str) -> Vec<Ancestor> {
        // Fast path: most jobs name no ancestor, so their `meta` is not parsed a second time.
        if !NAMES.iter().any(|(name, _)| meta.contains(name)) {
            return Vec::new();
        }
        let meta = Object::parse(meta).unwrap_or_default();
        meta.members().filter_map(|member| Ancestor::of_member("meta.", &member.name, member.value)).collect()
    }

    /// Error for a job whose tenant differs from the tenant of this ancestor.
    pub fn refusal(&self, job: &NewJob) -> Invalid {
        let what = match self.origin {
            Origin::Workflow => "a workflow",
            Origin::Job => "a job",
        };
        let tenant = job.owner().unwrap_or(DEFAULT);
        let expected = format!("{what} of tenant {tenant:?}, which owns this job, or left out");
        Invalid::field(&self.field, expected, &self.id).of_kind(Kind::Tenant)
    }
}

impl NewJob {
    /// Assigns the job to its ancestor's tenant if it names no tenant itself. The default tenant is
    /// left implicit: its name is not written into `meta`.
    pub fn inherit_tenant(&mut self, default_tenant: &str) {
        let owner = self.ancestors.iter().find_map(|ancestor| ancestor.owner.clone());
        if let Some(owner) = owner.filter(|owner| owner != DEFAULT && owner != default_tenant)
            && self.tenant.is_none()
            && !self.names_tenant()
        {
            self.put_tenant(&owner);
        }
    }

    /// Returns the first ancestor that belongs to another tenant than the job.
    pub fn foreign_ancestor(&self) -> Option<&Ancestor> {
        let own = self.owner().unwrap_or(DEFAULT);
        self.ancestors.iter().find(|ancestor| ancestor.owner.as_deref().is_some_and(|owner| owner != own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::RequestLimits;
    use crate::domain::job::request::{Context, parse};

    fn job(more: &str) -> NewJob {
        parse(&format!(r#"{{"type":"a","args":[]{more}}}"#), &RequestLimits::default(), &Context::default()).unwrap()
    }

    #[test]
    fn ancestors_are_named_at_top_level_and_in_meta() {
        let [w1, w2, j] = std::array::from_fn(|_| id::generate());
        let found = |more: &str| {
            let job = job(more);
            job.ancestors.into_iter().map(|it| (it.field, it.origin, it.id)).collect::<Vec<_>>()
        };
        assert_eq!(found(r#","meta":{"x":1},"parent":"y""#), []);
        assert_eq!(found(r#","parent_id":7,"meta":{"workflow_id":null},"workflow_id":"mine""#), []);
        let expected = [
            ("meta.workflow_id".to_owned(), Origin::Workflow, w2.clone()),
            ("parent_id".to_owned(), Origin::Job, j.clone()),
            ("workflow_id".to_owned(), Origin::Workflow, w1.clone()),
        ];
        assert_eq!(
            found(&format!(r#","parent_id":"{j}","workflow_id":"{w1}","meta":{{"workflow_id":"{w2}"}}"#)),
            expected
        );
    }

    #[test]
    fn a_job_inherits_the_tenant_unless_it_names_one() {
        let child = |meta: &str, owner: &str| {
            let mut job = job(&format!(r#","parent_id":"{}","meta":{meta}"#, id::generate()));
            job.ancestors[0].owner = Some(owner.to_owned());
            job.inherit_tenant("house");
            let foreign = job.foreign_ancestor().map(|ancestor| ancestor.refusal(&job).field);
            (job.meta().to_owned(), job.tenant.clone(), foreign)
        };
        let acme = Some("acme".to_owned());
        assert_eq!(child("{}", "acme"), (r#"{"tenant_id":"acme"}"#.to_owned(), acme.clone(), None));
        let own = r#"{"tenant_id":"acme"}"#;
        assert_eq!(child(own, "acme"), (own.to_owned(), acme.clone(), None));
        assert_eq!(child("{}", DEFAULT), ("{}".to_owned(), None, None));
        let foreign = Some("parent_id".to_owned());
        assert_eq!(child(own, "beta"), (own.to_owned(), acme.clone(), foreign.clone()));
        assert_eq!(child(own, DEFAULT), (own.to_owned(), acme, foreign.clone()));
        let none = r#"{"tenant_id":null}"#;
        assert_eq!(child(none, "acme"), (none.to_owned(), None, foreign));
    }
}
