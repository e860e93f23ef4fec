//! Limits: keys, quotas and bounds of queues. The counterparts are `lua/limits/quota.lua`,
//! `lua/queue/bound.lua` and, for keys, `lua/queue/lane.lua`.

use crate::domain::limit::{Bound, LimitKey, LimitScope, Overflow, Quota, Window};

impl Quota {
    /// Encodes the quota for the store: `concurrency rate_limit rate_period_ms throttle_limit
    /// throttle_period_ms`, with `-` for absent values.
    pub(in crate::store) fn packed(&self) -> String {
        let window = |window: Option<Window>| match window {
            Some(Window { limit, period }) => format!("{limit} {period}"),
            None => "- -".to_owned(),
        };
        let concurrency = self.concurrency.map_or_else(|| "-".to_owned(), |most| most.to_string());
        format!("{concurrency} {} {}", window(self.rate), window(self.throttle))
    }

    /// Decodes the result of [`Quota::packed`].
    pub(in crate::store) fn from_packed(text: &str) -> Option<Quota> {
        let words: Vec<&str> = text.split(' ').collect();
        let &[concurrency, rate_limit, rate_period, throttle_limit, throttle_period] = words.as_slice() else {
            return None;
        };
        let window = |limit: &str, period: &str| match (limit, period) {
            ("-", "-") => Some(None),
            _ => Some(Some(Window { limit: limit.parse().ok()?, period: period.parse().ok()? })),
        };
        Some(Quota {
            concurrency: if concurrency == "-" { None } else { Some(concurrency.parse().ok()?) },
            rate: window(rate_limit, rate_period)?,
            throttle: window(throttle_limit, throttle_period)?,
        })
    }
}

impl Bound {
    /// Encodes the bound as the scripts read it.
    pub(in crate::store) fn packed(&self) -> String {
        let mark = (self.most as f64 * self.warning).floor() as u64;
        format!("{} {} {mark} {}", self.most, self.overflow.name(), self.warning)
    }

    /// Decodes the result of [`Bound::packed`].
    pub(in crate::store) fn from_packed(text: &str) -> Option<Bound> {
        let mut words = text.split(' ');
        let most: u64 = words.next()?.parse().ok()?;
        let overflow = Overflow::from_name(words.next()?)?;
        let mark: u64 = words.next()?.parse().ok()?;
        // Bounds stored by older versions have only the mark, not the fraction.
        let warning = words.next().and_then(|word| word.parse().ok());
        Some(Bound { most, overflow, warning: warning.unwrap_or(mark as f64 / most.max(1) as f64) })
    }
}

/// Scopes of keys that the server makes, each with the sign that begins its stored keys. Keys of
/// clients begin with none of them. `limit_label` in `lua/queue/lane.lua` knows the signs too.
const SIGNS: [(LimitScope, &str); 3] = [(LimitScope::Queue, "#"), (LimitScope::Type, "~"), (LimitScope::Tenant, "+")];

impl LimitKey {
    /// Encodes the key for storage.
    pub(in crate::store) fn stored(&self) -> String {
        let sign = SIGNS.iter().find(|(scope, _)| *scope == self.scope).map_or("", |(_, sign)| sign);
        format!("{}{sign}{}", self.owner, self.name)
    }

    /// Decodes a stored key.
    pub(in crate::store) fn from_stored(text: &str) -> LimitKey {
        let (owner, name) = LimitKey::split_owner(text);
        let signed = SIGNS.iter().find_map(|(scope, sign)| Some((*scope, name.strip_prefix(sign)?)));
        let (scope, name) = signed.unwrap_or((LimitScope::Key, name));
        LimitKey { owner: owner.to_owned(), scope, name: name.to_owned() }
    }

    /// Returns the prefix that the stored keys of all partitions share.
    pub(in crate::store) fn start_of_parts(&self) -> String {
        format!("{}{}", self.stored(), LimitKey::DIVIDES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::limit::Partition;
    use crate::domain::limit::quota::{LONGEST_PERIOD, MOST_CONCURRENCY, MOST_STARTS};
    use crate::domain::names;
    use proptest::option::of;
    use proptest::prelude::*;

    #[test]
    fn scripts_get_a_quota_as_words() {
        let window = |limit, period| Some(Window { limit, period });
        for (concurrency, rate, throttle, packed) in [
            (None, None, None, "- - - - -"),
            (Some(0), None, None, "0 - - - -"),
            (Some(5), window(100, 60_000), None, "5 100 60000 - -"),
            (None, None, window(10, 1000), "- - - 10 1000"),
        ] {
            assert_eq!(Quota { concurrency, rate, throttle }.packed(), packed);
        }
    }

    #[test]
    fn what_is_not_packed_is_not_unpacked() {
        for text in ["", "-", "- - - -", "- - - - - -", "x - - - -", "- 1 - - -", "- - - - 5", "-1 - - - -"] {
            assert_eq!(Quota::from_packed(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_quota_is_read_as_it_was_stored(
            concurrency in of(0..=MOST_CONCURRENCY),
            [rate, throttle] in proptest::array::uniform2(of((1..=MOST_STARTS, 1..=LONGEST_PERIOD))),
        ) {
            let window = |(limit, period)| Window { limit, period };
            let quota = Quota { concurrency, rate: rate.map(window), throttle: throttle.map(window) };
            prop_assert_eq!(Quota::from_packed(&quota.packed()), Some(quota));
        }
    }

    #[test]
    fn a_bound_is_read_as_it_was_stored_and_as_older_versions_stored_it() {
        for most in [10, 1] {
            let bound = Bound { most, overflow: Overflow::Block, warning: 0.8 };
            assert_eq!(Bound::from_packed(&bound.packed()), Some(bound), "however few there may be");
        }
        let old = Bound::from_packed("10 reject 5").expect("a bound");
        assert_eq!((old.most, old.overflow, old.warning), (10, Overflow::Reject, 0.5));
        assert_eq!(Bound::from_packed("10 explode 5"), None);
    }

    #[test]
    fn keys_of_clients_and_of_the_server_are_never_the_same() {
        for (scope, name, stored) in [
            (LimitScope::Key, "stripe-api", "stripe-api"),
            (LimitScope::Key, "queue:email", "queue:email"),
            (LimitScope::Key, "tenant:acme:queue:email", "tenant:acme:queue:email"),
            (LimitScope::Queue, "email", "#email"),
            (LimitScope::Type, "report.*", "~report.*"),
            (LimitScope::Tenant, "acme:email", "+acme:email"),
            (LimitScope::Queue, "@acme/email", "@acme/#email"),
            (LimitScope::Key, "@acme/queue:email", "@acme/queue:email"),
        ] {
            let key = LimitKey::of(scope, name);
            assert_eq!(key.stored(), stored);
            assert_eq!(LimitKey::from_stored(stored), key);
            assert_eq!(scope == LimitScope::Key && !name.starts_with('@'), names::is_rate_key(stored), "{stored}");
        }
    }

    #[test]
    fn keys_of_partitions_begin_with_the_key() {
        for key in ["stripe", "@acme/stripe"].map(LimitKey::key) {
            let part = key.divided(Partition::Tenant, "a|b");
            assert!(part.stored().starts_with(&key.start_of_parts()));
            assert_eq!(LimitKey::from_stored(&part.stored()), part);
        }
        for whole in ["stripe", "stripe|", "stripe|pool=x", "#mail", "+acme:mail"].map(LimitKey::from_stored) {
            assert_eq!(whole.part(), None, "{whole}");
        }
    }
}
