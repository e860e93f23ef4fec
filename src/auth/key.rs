//! A key: who holds it, what for, and of which tenant.

use super::{Digest, Role};
use crate::job::names;

/// How every key begins that we make, so that people and scanners recognise one.
pub const PREFIX: &str = "fgk_";

/// What an error message says about a bad name.
pub const NAME_EXPECTED: &str = names::POOL_EXPECTED;

/// The shortest key of somebody else's making: a hash hides only what cannot be guessed.
const SHORTEST: usize = 32;
/// The longest that is looked at at all.
const LONGEST: usize = 512;

/// What is said about a key that somebody may guess.
pub const WEAK: &str = "a key of 32 to 512 characters without spaces, which nobody can guess";

/// A key, without the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Whose it is. Two keys may share a name, while one takes the place of the other.
    pub name: String,
    pub role: Role,
    /// The one tenant that its holder sees and acts for.
    pub tenant: Option<String>,
    pub digest: Digest,
}

impl ApiKey {
    /// A new key: the secret, which nobody can find out later, and the rest.
    pub fn generate(name: &str, role: Role, tenant: Option<String>) -> Result<(String, ApiKey), getrandom::Error> {
        let secret = generate()?;
        let digest = Digest::of(&secret);
        Ok((secret, ApiKey { name: name.to_owned(), role, tenant, digest }))
    }

    /// Keys that may be valid under one name.
    pub const MOST_OF_A_NAME: usize = 2;

    /// How it is called where it must be told apart.
    pub fn id(&self) -> String {
        self.digest.id()
    }

    /// Whether it opens everything: somebody must be able to make and revoke keys.
    pub fn rules(&self) -> bool {
        self.role == Role::Admin && self.tenant.is_none()
    }
}

/// Whether a text is the name of a key.
pub fn is_name(text: &str) -> bool {
    names::is_pool(text)
}

/// Whether a text is fit to be a key.
pub fn is_strong(key: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A secret of 256 random bits.
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
        assert!(!format!("{key:?}").contains("hunter2") && key.rules());
        assert!(!ApiKey { tenant: Some("a".into()), ..key }.rules());
    }
}
