//! Bounds on the requests of clients.

/// Maximum sizes in bytes and counts, from `[limits]` of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    pub max_envelope: usize,
    pub max_meta: usize,
    pub max_result: usize,
    pub max_batch: usize,
    pub max_nesting: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            max_envelope: 10 << 20,
            max_meta: 64 << 10,
            max_result: 1 << 20,
            max_batch: 1000,
            max_nesting: 32,
        }
    }
}
