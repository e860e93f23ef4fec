//! An API key: its holder, role and tenant.

use super::{Digest, Role};
use crate::domain::names;

/// The prefix of generated keys, by which people and secret scanners recognize them.
pub const PREFIX: &str = "fgk_";

/// The expectation that error messages name for a malformed key name.
pub const NAME_EXPECTED: &str = names::POOL_EXPECTED;

/// The shortest key that a user may choose. A hash protects only a key that cannot be guessed.
const SHORTEST: usize = 32;
/// The longest key, in bytes.
const LONGEST: usize = 512;

/// The expectation that error messages name for a weak key.
pub const WEAK: &str = "a key of 32 to 512 characters without spaces that cannot be guessed";

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The name of the holder. Two keys may share a name while one replaces the other.
    pub name: String,
    pub role: Role,
    /// The tenant to which the key is bound, if it is bound to one.
    pub tenant: Option<String>,
    pub digest: Digest,
}

impl ApiKey {
    /// Generates a key. Returns the secret, which is not stored anywhere, and the key.
    pub fn generate(name: &str, role: Role, tenant: Option<String>) -> Result<(String, ApiKey), getrandom::Error> {
        let secret = generate()?;
        let digest = Digest::of(&secret);
        Ok((secret, ApiKey { name: name.to_owned(), role, tenant, digest }))
    }

    /// The number of keys that may be valid under one name at once.
    pub const MOST_OF_A_NAME: usize = 2;

    /// Returns the id, which is unique among keys.
    pub fn id(&self) -> String {
        self.digest.id()
    }

    /// Returns true if the key can create and revoke keys, which needs the role admin and no tenant.
    pub fn can_manage_keys(&self) -> bool {
        self.role == Role::Admin && self.tenant.is_none()
    }
}

/// Returns true if a text is a valid name of a key.
pub fn is_name(text: &str) -> bool {
    names::is_pool(text)
}

/// Returns true if a text has the length and the characters of a key.
pub fn is_strong(key: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Generates a secret of 258 random bits.
fn generate() -> Result<String, getrandom::Error> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 43 letters of 6 bits: a byte each, of which 256 values fall on 64 letters evenly.
    let mut random = [0; 43];
    getrandom::fill(&mut random)?;
    let letters = random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 64)]));
    Ok(PREFIX.chars().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_strong_and_never_the_same() {
        let keys: std::collections::HashSet<String> = (0..100).map(|_| generate().expect("random bytes")).collect();
        assert_eq!(keys.len(), 100);
        assert!(keys.iter().all(|key| key.starts_with(PREFIX) && key.len() == 47 && is_strong(key)));
    }

    #[test]
    fn what_can_be_guessed_is_no_key() {
        for text in
            ["", "password", &"x".repeat(31), &"x".repeat(513), &format!("{} ", "x".repeat(40)), &"ä".repeat(20)]
        {
            assert!(!is_strong(text), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_printed_tells_nothing() {
        let key = ApiKey { name: "n".into(), role: Role::Admin, tenant: None, digest: Digest::of("fgk_hunter2") };
        assert!(!format!("{key:?}").contains("hunter2") && key.can_manage_keys());
        assert!(!ApiKey { tenant: Some("a".into()), ..key }.can_manage_keys());
    }
}
