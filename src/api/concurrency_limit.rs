//! A concurrency limit per peer or client.

use crate::auth::Caller;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

/// A limit on the permits that each key may hold at once; clones share the permits.
#[derive(Clone)]
pub(super) struct ConcurrencyLimit<K> {
    limit: usize,
    held: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Clone + Eq + Hash> ConcurrencyLimit<K> {
    /// Creates a limit of `limit` permits for each key.
    pub(super) fn new(limit: usize) -> Self {
        ConcurrencyLimit { limit, held: Arc::default() }
    }

    /// Takes one more permit for a key, or returns `None` if the key has as many as the limit.
    pub(super) fn try_acquire(&self, key: K) -> Option<Permit<K>> {
        // A poisoned lock means that a thread panicked while it held the lock; the counts are still consistent.
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = held.entry(key.clone()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Permit { limit: self.clone(), key })
    }
}

/// A permit, which is returned on drop.
pub(super) struct Permit<K: Clone + Eq + Hash> {
    limit: ConcurrencyLimit<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut held = self.limit.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

/// The other end of a connection: an IPv4 address, or the /64 network of an IPv6 address, because one machine usually has
/// all addresses of such a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer(IpAddr);

impl Peer {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                Peer(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))))
            }
            address => Peer(address),
        }
    }
}

/// The identity of a client: the id of its key, or its peer if it has no key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientId {
    Key(String),
    Peer(Peer),
}

impl ClientId {
    pub(super) fn of(caller: Option<&Caller>, peer: Peer) -> Self {
        caller.map_or(ClientId::Peer(peer), |caller| ClientId::Key(caller.key.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_permits_and_returns_them() {
        let limit = ConcurrencyLimit::new(2);
        let first = limit.try_acquire("one");
        let second = limit.try_acquire("one");
        assert!(first.is_some() && second.is_some() && limit.try_acquire("one").is_none());
        assert!(limit.try_acquire("other").is_some());
        drop(first);
        assert!(limit.try_acquire("one").is_some());
        drop(second);
        assert!(limit.held.lock().unwrap().is_empty(), "a key without permits takes no memory");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let peer = |address: &str| Peer::of(address.parse().unwrap()).0.to_string();
        assert_eq!(peer("2001:db8:0:1:2:3:4:5"), "2001:db8:0:1::");
        assert_eq!(peer("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(peer("::1"), "::1");
    }
}
