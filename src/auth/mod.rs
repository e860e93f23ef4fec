//! API keys as data: what a key is, what its role may do. Pure, but for the randomness of a new key.

mod digest;
mod key;
mod role;

pub use digest::Digest;
pub use key::{ApiKey, NAME_EXPECTED, PREFIX, WEAK, is_name, is_strong};
pub use role::Role;
