//! The digest of a key, which is stored in place of the key.
//!
//! It is a SHA-256 without salt or stretching, because keys have 256 random bits: guessing is hopeless without stretching, and
//! no two keys are equal, so a salt adds nothing. A request costs no more than one hash.

use sha2::Digest as _;
use std::fmt;
use subtle::ConstantTimeEq;

/// The SHA-256 of a key. Digests are compared in constant time; `Debug` prints only the id of the key.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The prefix of a digest as text.
    const SCHEME: &'static str = "sha256:";
    /// The expectation that error messages name for a malformed digest.
    pub const EXPECTED: &'static str = "sha256: and 64 hexadecimal digits, as `fairgate keys hash` prints them";

    /// Computes the digest of a key.
    pub fn of(key: &str) -> Self {
        Digest(sha2::Sha256::digest(key.as_bytes()).into())
    }

    /// Parses `sha256:…`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::SCHEME)?;
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(0..) {
            *byte = u8::from_str_radix(digits.get(pair * 2..pair * 2 + 2)?, 16).ok()?;
        }
        Some(Digest(bytes))
    }

    /// Returns `sha256:…`, the form in storage and configuration.
    pub fn text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}{digits}", Self::SCHEME)
    }

    /// Returns the id of the key: the first 48 bits of the digest, which reveal nothing about the key.
    pub fn id(&self) -> String {
        let digits: String = self.0[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("key_{digits}")
    }

    /// Returns the part of the digest that indexes keys, before whole digests are compared.
    pub fn bucket(&self) -> [u8; 8] {
        let mut bucket = [0; 8];
        bucket.copy_from_slice(&self.0[24..]);
        bucket
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = Digest::of("abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((digest.text().as_str(), digest.id().as_str()), (text, "key_ba7816bf8f01"));
        assert_eq!(Digest::parse(text), Some(digest));
        assert_eq!(Digest::parse(&text.to_uppercase().replace("SHA", "sha")), Some(digest));
        for other in ["", "sha256:", "sha1:00", &text[7..], &text[..70], &text.replace('b', "g"), &format!("{text}0")] {
            assert_eq!(Digest::parse(other), None, "{other}");
        }
    }

    #[test]
    fn digests_differ_in_any_byte_and_print_only_their_beginning() {
        let digest = Digest::of("abc");
        for place in 0..32 {
            let mut other = digest;
            other.0[place] ^= 1;
            assert_ne!(digest, other);
        }
        assert_eq!(format!("{digest:?}"), "key_ba7816bf8f01");
    }
}
