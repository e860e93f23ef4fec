//! API keys: the key and its role as pure data, and the cache of the keys that are valid.
//!
//! Only `key_cache` uses the store; the other modules do no I/O, except that a new key needs random bytes.

mod digest;
mod key;
mod key_cache;
mod role;

pub use digest::Digest;
pub use key::{ApiKey, NAME_EXPECTED, PREFIX, WEAK, is_name, is_strong};
pub use key_cache::{AuthMode, Caller, Credential, KeyCache, Revocation, Session};
pub use role::Role;
