//! Keys of limits. Clients choose keys of their own. Keys of queues, types and tenants belong to
//! the server and have scopes of their own, so the two kinds cannot collide.

use std::fmt;

use super::Partition;
use crate::domain::escape::{escape, unescape};
use crate::domain::names;

/// Scope of a limit: the jobs that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitScope {
    /// Jobs that name a key.
    Key,
    /// Jobs of a queue.
    Queue,
    /// Jobs of a type, or of types that match a glob.
    Type,
    /// Slots of a tenant in a queue; the name is `TENANT:QUEUE`.
    Tenant,
}

impl LimitScope {
    const ALL: [LimitScope; 4] = [LimitScope::Key, LimitScope::Queue, LimitScope::Type, LimitScope::Tenant];

    /// Names of all scopes, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["key", "queue", "type", "tenant"];

    /// Parses the name of a scope.
    pub fn parse(name: &str) -> Option<LimitScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitKey {
    /// `@TENANT/` if the limit belongs to a tenant, with the tenant escaped; else empty.
    pub(crate) owner: String,
    pub scope: LimitScope,
    pub name: String,
}

/// A partition of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart<'a> {
    /// The client's key.
    pub key: &'a str,
    pub by: Partition,
    /// Name of the tenant, queue or type.
    pub name: String,
}

impl LimitKey {
    /// Separates a client's key from its partition. Not allowed in a client's key.
    pub(crate) const DIVIDES: char = '|';

    /// Creates a key as jobs name it.
    pub fn key(name: &str) -> LimitKey {
        LimitKey::of(LimitScope::Key, name)
    }

    /// Creates the key of a queue's own limit.
    pub fn queue(name: &str) -> LimitKey {
        LimitKey::of(LimitScope::Queue, name)
    }

    /// Creates a key from a scope and a name. The name may also be in its displayed form:
    /// `queue:NAME` is `NAME`.
    pub fn of(scope: LimitScope, name: &str) -> LimitKey {
        let (owner, name) = Self::split_owner(name);
        let shown = if scope == LimitScope::Key { "" } else { scope.name() };
        let bare = name.strip_prefix(shown).and_then(|rest| rest.strip_prefix(':')).filter(|_| !shown.is_empty());
        let name = match (scope, bare) {
            (LimitScope::Tenant, Some(bare)) => bare.replacen(":queue:", ":", 1),
            (_, bare) => bare.unwrap_or(name).to_owned(),
        };
        LimitKey { owner: owner.to_owned(), scope, name }
    }

    /// Returns the partition of this key for a tenant, a queue or a type.
    pub fn divided(&self, by: Partition, name: &str) -> LimitKey {
        LimitKey { name: format!("{}{}{}={}", self.name, Self::DIVIDES, by.name(), escape(name)), ..self.clone() }
    }

    /// Splits the key of a partition. Returns `None` for other keys.
    pub fn part(&self) -> Option<KeyPart<'_>> {
        let (key, part) = self.name.split_once(Self::DIVIDES).filter(|_| self.scope == LimitScope::Key)?;
        let (by, name) = part.split_once('=')?;
        Some(KeyPart { key, by: Partition::parse(by)?, name: unescape(name) })
    }

    /// Returns true for a key that jobs can name, and for its partitions.
    pub fn is_of_jobs(&self) -> bool {
        let key = self.part().map_or(self.name.as_str(), |part| part.key);
        self.scope == LimitScope::Key && self.owner.is_empty() && names::is_rate_key(key)
    }

    /// Splits off the prefix `@TENANT/` of a tenant's own key.
    pub(crate) fn split_owner(key: &str) -> (&str, &str) {
        let end = key.strip_prefix('@').and_then(|rest| rest.find('/')).map_or(0, |slash| slash + 2);
        key.split_at(end)
    }

    /// Returns the keys that a displayed text can mean if no scope is given: a client's key first,
    /// then the server's keys with that display form.
    pub fn candidates(text: &str) -> Vec<LimitKey> {
        let (_, name) = Self::split_owner(text);
        let shown = |scope: &&LimitScope| name.strip_prefix(scope.name()).is_some_and(|rest| rest.starts_with(':'));
        let server = LimitScope::ALL[1..].iter().filter(shown).map(|scope| LimitKey::of(*scope, text));
        std::iter::once(LimitKey::key(text)).chain(server).collect()
    }
}

/// Displayed form: `stripe-api`, `queue:email`, `type:report.*`, `tenant:acme:queue:email`.
impl fmt::Display for LimitKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitKey { owner, scope, name } = self;
        match (scope, name.rsplit_once(':')) {
            (LimitScope::Key, _) => write!(formatter, "{owner}{name}"),
            (LimitScope::Tenant, Some((tenant, queue))) => write!(formatter, "{owner}tenant:{tenant}:queue:{queue}"),
            _ => write!(formatter, "{owner}{}:{name}", scope.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_what_it_is_part_of() {
        for (by, name, shown) in [
            (Partition::Tenant, "acme", "stripe|tenant=acme"),
            (Partition::Tenant, "a|b;c:d", "stripe|tenant=a%7Cb%3Bc%3Ad"),
            (Partition::Queue, "mail", "stripe|queue=mail"),
            (Partition::Type, "mail.send", "stripe|type=mail.send"),
        ] {
            let key = LimitKey::key("stripe").divided(by, name);
            assert_eq!(key.to_string(), shown);
            assert_eq!(key.part(), Some(KeyPart { key: "stripe", by, name: name.to_owned() }));
            assert!(key.is_of_jobs() && !names::is_rate_key(shown), "no client can name {shown}");
        }
        let own = LimitKey::key("@acme/stripe").divided(Partition::Queue, "mail");
        assert_eq!((own.to_string().as_str(), own.part().unwrap().key), ("@acme/stripe|queue=mail", "stripe"));
        for whole in ["stripe", "stripe|", "stripe|pool=x"].map(LimitKey::key) {
            assert_eq!(whole.part(), None, "{whole}");
        }
        assert_eq!(LimitKey::queue("a|queue=b").part(), None);
    }

    #[test]
    fn a_key_is_known_by_the_text_that_shows_it() {
        for (scope, name, shown) in [
            (LimitScope::Key, "stripe-api", "stripe-api"),
            (LimitScope::Key, "queue:email", "queue:email"),
            (LimitScope::Key, "tenant:acme:queue:email", "tenant:acme:queue:email"),
            (LimitScope::Queue, "email", "queue:email"),
            (LimitScope::Type, "report.*", "type:report.*"),
            (LimitScope::Tenant, "acme:email", "tenant:acme:queue:email"),
            (LimitScope::Queue, "@acme/email", "@acme/queue:email"),
            (LimitScope::Key, "@acme/queue:email", "@acme/queue:email"),
        ] {
            let key = LimitKey::of(scope, name);
            assert_eq!(key.to_string(), shown);
            assert_eq!(LimitKey::of(scope, shown), key, "as it is shown");
            assert!(LimitKey::candidates(shown).contains(&key), "{shown}");
        }
    }

    #[test]
    fn scopes_have_names() {
        assert_eq!(
            LimitScope::NAMES.map(|name| LimitScope::parse(name).map(LimitScope::name)),
            LimitScope::NAMES.map(Some)
        );
        assert_eq!(LimitScope::parse("pool"), None);
        let key = LimitKey::key;
        assert_eq!(LimitKey::candidates("k"), [key("k")]);
        assert_eq!(LimitKey::candidates("queue:q"), [key("queue:q"), LimitKey::queue("q")]);
        assert_eq!(LimitKey::candidates("queues:q"), [key("queues:q")]);
    }
}
