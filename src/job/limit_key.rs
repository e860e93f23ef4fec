//! The key under which a limit counts. Clients choose keys of their own; those of queues, types and tenants' slots are the
//! server's, and start with a character that no client's key starts with, so that neither can be taken for the other.

use std::fmt;

use super::Partition;
use super::escape::{escape, unescape};
use super::names;

/// Stands between a key of jobs and what it is divided by: no key that a client can send holds it.
const DIVIDES: char = '|';

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LimitScope {
    /// Jobs that name a key.
    Key,
    /// Jobs of a queue.
    Queue,
    /// Jobs of a type, or of types that fit a glob.
    Type,
    /// Slots that a tenant has in a queue; the name is `TENANT:QUEUE`.
    Tenant,
}

impl LimitScope {
    const ALL: [LimitScope; 4] = [LimitScope::Key, LimitScope::Queue, LimitScope::Type, LimitScope::Tenant];

    /// All names, in the order of the documentation.
    pub const NAMES: [&'static str; 4] = ["key", "queue", "type", "tenant"];

    /// The scope of that name.
    pub fn parse(name: &str) -> Option<LimitScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// What a stored key of this scope starts with; `limit_label` in `lua/queue/lane.lua` reads it as well.
    fn sign(self) -> &'static str {
        ["", "#", "~", "+"][self as usize]
    }
}

/// The key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitKey {
    /// `@TENANT/` if the limit is one of a tenant's own, else nothing.
    owner: String,
    pub scope: LimitScope,
    pub name: String,
}

impl LimitKey {
    /// A key that jobs name.
    pub fn key(name: &str) -> LimitKey {
        LimitKey::of(LimitScope::Key, name)
    }

    /// The key of a queue's own limit.
    pub fn queue(name: &str) -> LimitKey {
        LimitKey::of(LimitScope::Queue, name)
    }

    /// The key of a scope and a name, which may be written as it is shown: `queue:NAME` is `NAME`.
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

    /// The part of it that is for a tenant, a queue or a type.
    pub fn divided(&self, by: Partition, name: &str) -> LimitKey {
        LimitKey { name: format!("{}{DIVIDES}{}={}", self.name, by.name(), escape(name)), ..self.clone() }
    }

    /// If it is part of a key: that key, what divides it, and the name of the tenant, queue or type.
    pub fn part(&self) -> Option<(&str, Partition, String)> {
        let (key, part) = self.name.split_once(DIVIDES).filter(|_| self.scope == LimitScope::Key)?;
        let (by, name) = part.split_once('=')?;
        Some((key, Partition::parse(by)?, unescape(name)))
    }

    /// The common prefix of the stored keys of its parts.
    pub fn start_of_parts(&self) -> String {
        format!("{}{DIVIDES}", self.stored())
    }

    /// True for a key that jobs can have, and for a part of one.
    pub fn is_of_jobs(&self) -> bool {
        let key = self.part().map_or(self.name.as_str(), |(key, ..)| key);
        self.scope == LimitScope::Key && self.owner.is_empty() && names::is_rate_key(key)
    }

    /// The key as it is stored.
    pub fn stored(&self) -> String {
        format!("{}{}{}", self.owner, self.scope.sign(), self.name)
    }

    /// A stored key.
    pub fn from_stored(text: &str) -> LimitKey {
        let (owner, name) = split_owner(text);
        let signed = LimitScope::ALL[1..].iter().find_map(|scope| Some((*scope, name.strip_prefix(scope.sign())?)));
        let (scope, name) = signed.unwrap_or((LimitScope::Key, name));
        LimitKey { owner: owner.to_owned(), scope, name: name.to_owned() }
    }

    /// The keys that may be meant where the scope is not said: that of jobs, then the server's that is shown in the same way.
    pub fn candidates(text: &str) -> Vec<LimitKey> {
        let (_, name) = split_owner(text);
        let shown = |scope: &&LimitScope| name.strip_prefix(scope.name()).is_some_and(|rest| rest.starts_with(':'));
        let server = LimitScope::ALL[1..].iter().filter(shown).map(|scope| LimitKey::of(*scope, text));
        std::iter::once(LimitKey::key(text)).chain(server).collect()
    }
}

/// As people read it: `stripe-api`, `queue:email`, `type:report.*`, `tenant:acme:queue:email`.
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

/// A tenant's own key starts with `@TENANT/`.
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
            assert_eq!(key.part(), Some(("stripe", by, name.to_owned())));
            assert!(stored.starts_with(&LimitKey::key("stripe").start_of_parts()));
            assert!(key.is_of_jobs() && !names::is_rate_key(stored), "no client can name {stored}");
        }
        let own = LimitKey::key("@acme/stripe").divided(Partition::Queue, "mail");
        assert_eq!((own.stored().as_str(), own.part().unwrap().0), ("@acme/stripe|queue=mail", "stripe"));
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
