//! Bounds on the requests of clients.

/// Maximum sizes in bytes and counts, from `[limits]` of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_envelope: usize,
    pub max_meta: usize,
    pub max_result: usize,
    pub max_batch: usize,
    pub max_nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_envelope: 10 << 20, max_meta: 64 << 10, max_result: 1 << 20, max_batch: 1000, max_nesting: 32 }
    }
}
