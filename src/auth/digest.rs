//! What is kept of a key.
//!
//! SHA-256 without salt or stretching, because keys are made by us from 256 random bits: there is nothing to guess that
//! stretching would slow down, no two keys are equal for a salt to tell apart, and a request costs no more than a hash.

use sha2::Digest as _;
use std::fmt;
use subtle::ConstantTimeEq;

/// The SHA-256 of a key. Compared in constant time, printed only as its beginning.
#[derive(Clone, Copy)]
pub struct Digest([u8; 32]);

impl Digest {
    /// How a digest is written, in front of its 64 digits.
    const SCHEME: &'static str = "sha256:";
    /// What an error message says about one that is written otherwise.
    pub const EXPECTED: &'static str = "sha256: and 64 hexadecimal digits, as `fairgate keys hash` prints them";

    /// The digest of a key.
    pub fn of(key: &str) -> Self {
        Digest(sha2::Sha256::digest(key.as_bytes()).into())
    }

    /// Reads `sha256:…`.
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

    /// As it is stored and configured: `sha256:…`.
    pub fn text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}{digits}", Self::SCHEME)
    }

    /// The id of its key: the first 48 bits, which tell nothing about the key.
    pub fn id(&self) -> String {
        let digits: String = self.0[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("key_{digits}")
    }

    /// The part by which digests are looked up before they are compared.
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
