//! Keys of limits. Clients choose keys of their own. Keys of queues, types and tenants belong to
//! the server and start with a character that is not allowed in a client's key, so the two kinds
//! cannot collide.

use std::fmt;

use super::Partition;
use crate::domain::escape::{escape, unescape};
use crate::domain::names;

/// Separates a client's key from its partition. Not allowed in a client's key.
const DIVIDES: char = '|';

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

    /// Prefix of stored keys of this scope. `limit_label` in `lua/queue/lane.lua` knows it too.
    fn sign(self) -> &'static str {
        ["", "#", "~", "+"][self as usize]
    }
}

/// The key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitKey {
    /// `@TENANT/` if the limit belongs to a tenant, else empty.
    owner: String,
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
        let (owner, name) = split_owner(name);
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
        LimitKey { name: format!("{}{DIVIDES}{}={}", self.name, by.name(), escape(name)), ..self.clone() }
    }

    /// Splits the key of a partition. Returns `None` for other keys.
    pub fn part(&self) -> Option<KeyPart<'_>> {
        let (key, part) = self.name.split_once(DIVIDES).filter(|_| self.scope == LimitScope::Key)?;
        let (by, name) = part.split_once('=')?;
        Some(KeyPart { key, by: Partition::parse(by)?, name: unescape(name) })
    }

    /// Prefix that the stored keys of all partitions share.
    pub fn start_of_parts(&self) -> String {
        format!("{}{DIVIDES}", self.stored())
    }

    /// Returns true for a key that jobs can name, and for its partitions.
    pub fn is_of_jobs(&self) -> bool {
        let key = self.part().map_or(self.name.as_str(), |part| part.key);
        self.scope == LimitScope::Key && self.owner.is_empty() && names::is_rate_key(key)
    }

    /// Encodes the key for storage.
    pub fn stored(&self) -> String {
        format!("{}{}{}", self.owner, self.scope.sign(), self.name)
    }

    /// Decodes a stored key.
    pub fn from_stored(text: &str) -> LimitKey {
        let (owner, name) = split_owner(text);
        let signed = LimitScope::ALL[1..].iter().find_map(|scope| Some((*scope, name.strip_prefix(scope.sign())?)));
        let (scope, name) = signed.unwrap_or((LimitScope::Key, name));
        LimitKey { owner: owner.to_owned(), scope, name: name.to_owned() }
    }

    /// Returns the keys that a displayed text can mean if no scope is given: a client's key first,
    /// then the server's keys with that display form.
    pub fn candidates(text: &str) -> Vec<LimitKey> {
        let (_, name) = split_owner(text);
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

/// Splits off the prefix `@TENANT/` of a tenant's own key.
fn split_owner(key: &str) -> (&str, &str) {
    let end = key.strip_prefix('@').and_then(|rest| rest.find('/')).map_or(0, |slash| slash + 2);
    key.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_what_it_is_part_of() {
        for (by, name, stored) in [
            (Partition::Tenant, "acme", "stripe|tenant=acme"),
            (Partition::Tenant, "a|b;c:d", "stripe|tenant=a%7Cb%3Bc%3Ad"),
            (Partition::Queue, "mail", "stripe|queue=mail"),
            (Partition::Type, "mail.send", "stripe|type=mail.send"),
        ] {
            let key = LimitKey::key("stripe").divided(by, name);
            assert_eq!((key.stored().as_str(), key.to_string().as_str()), (stored, stored));
            assert_eq!(LimitKey::from_stored(stored), key);
            assert_eq!(key.part(), Some(KeyPart { key: "stripe", by, name: name.to_owned() }));
            assert!(stored.starts_with(&LimitKey::key("stripe").start_of_parts()));
            assert!(key.is_of_jobs() && !names::is_rate_key(stored), "no client can name {stored}");
        }
        let own = LimitKey::key("@acme/stripe").divided(Partition::Queue, "mail");
        assert_eq!((own.stored().as_str(), own.part().unwrap().key), ("@acme/stripe|queue=mail", "stripe"));
        for whole in ["stripe", "stripe|", "stripe|pool=x", "#mail", "+acme:mail"].map(LimitKey::from_stored) {
            assert_eq!(whole.part(), None, "{whole}");
        }
    }

    #[test]
    fn keys_of_clients_and_of_the_server_are_never_the_same() {
        for (scope, name, stored, shown) in [
            (LimitScope::Key, "stripe-api", "stripe-api", "stripe-api"),
            (LimitScope::Key, "queue:email", "queue:email", "queue:email"),
            (LimitScope::Key, "tenant:acme:queue:email", "tenant:acme:queue:email", "tenant:acme:queue:email"),
            (LimitScope::Queue, "email", "#email", "queue:email"),
            (LimitScope::Type, "report.*", "~report.*", "type:report.*"),
            (LimitScope::Tenant, "acme:email", "+acme:email", "tenant:acme:queue:email"),
            (LimitScope::Queue, "@acme/email", "@acme/#email", "@acme/queue:email"),
            (LimitScope::Key, "@acme/queue:email", "@acme/queue:email", "@acme/queue:email"),
        ] {
            let key = LimitKey::of(scope, name);
            assert_eq!((key.stored().as_str(), key.to_string().as_str()), (stored, shown));
            assert_eq!(LimitKey::from_stored(stored), key);
            assert_eq!(LimitKey::of(scope, shown), key, "as it is shown");
            assert!(LimitKey::candidates(shown).contains(&key), "{shown}");
            assert_eq!(scope == LimitScope::Key && !name.starts_with('@'), names::is_rate_key(stored), "{stored}");
        }
    }

    #[test]
    fn scopes_have_names() {
        assert_eq!(
            LimitScope::NAMES.map(|name| LimitScope::parse(name).map(LimitScope::name)),
            LimitScope::NAMES.map(Some)
        );
        assert_eq!(LimitScope::parse("pool"), None);
        let keys = |text| LimitKey::candidates(text).iter().map(LimitKey::stored).collect::<Vec<_>>();
        assert_eq!(
            (keys("k"), keys("queue:q"), keys("queues:q")),
            (vec!["k".to_owned()], vec!["queue:q".to_owned(), "#q".to_owned()], vec!["queues:q".to_owned()])
        );
    }
}
