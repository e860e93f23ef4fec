//! Places of which each peer or credential has so many.

use crate::keyring::Caller;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

/// Places by whoever takes them; clones share them.
#[derive(Clone)]
pub(super) struct Slots<K> {
    most: usize,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Clone + Eq + Hash> Slots<K> {
    /// At most `most` places for each.
    pub(super) fn new(most: usize) -> Self {
        Slots { most, taken: Arc::default() }
    }

    /// One more place; none if there is no other.
    pub(super) fn take(&self, key: K) -> Option<Slot<K>> {
        // A poisoned lock means that some thread panicked while it held it; the counts are whole all the same.
        let mut taken = self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = taken.entry(key.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Slot { slots: self.clone(), key })
    }
}

/// A place, which is free again when this is dropped.
pub(super) struct Slot<K: Clone + Eq + Hash> {
    slots: Slots<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// What counts as one peer: an IPv4 address, or the /64 network of an IPv6 address, of which one machine has all.
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

/// By what a request is told from those of others: its key, or without one the peer that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Credential {
    Key(String),
    Peer(Peer),
}

impl Credential {
    pub(super) fn of(caller: Option<&Caller>, peer: Peer) -> Self {
        caller.map_or(Credential::Peer(peer), |caller| Credential::Key(caller.key.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_places_and_gives_them_back() {
        let slots = Slots::new(2);
        let first = slots.take("one");
        let second = slots.take("one");
        assert!(first.is_some() && second.is_some() && slots.take("one").is_none());
        assert!(slots.take("other").is_some());
        drop(first);
        assert!(slots.take("one").is_some());
        drop(second);
        assert!(slots.taken.lock().unwrap().is_empty(), "nothing is kept about those without a place");
    }

    #[test]
    fn addresses_of_one_network_count_together() {
        let peer = |address: &str| Peer::of(address.parse().unwrap()).0.to_string();
        assert_eq!(peer("2001:db8:0:1:2:3:4:5"), "2001:db8:0:1::");
        assert_eq!(peer("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(peer("::1"), "::1");
    }
}
