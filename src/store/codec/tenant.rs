//! Tenants: their settings, and the names of their workers. The counterpart is
//! `lua/tenants/quotas.lua`.

use super::wire::FILE;
use crate::domain::escape::escape;
use crate::domain::tenant::{Scope, TenantRule, TenantSettings};

impl TenantSettings {
    /// Returns the settings in the format that scripts store; `lua/tenants/quotas.lua` lists the
    /// words.
    pub(in crate::store) fn packed(&self) -> String {
        let word = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let limits = &self.limits;
        let rate = limits.max_enqueue_rate;
        [
            word(self.weight.map(|weight| u64::from(weight.thousandths()))),
            if self.boost == 0 { "-".to_owned() } else { self.boost.to_string() },
            word(limits.max_concurrency.map(u64::from)),
            word(rate.map(|rate| u64::from(rate.limit))),
            word(rate.map(|rate| rate.period)),
            word(limits.max_queue_depth),
            word(limits.max_scheduled),
            word(limits.soft.then_some(1)),
        ]
        .join(" ")
    }

    /// Returns a letter for each feature that scripts have to handle for these settings.
    pub(in crate::store) fn letters(&self) -> String {
        let limits = &self.limits;
        let measured =
            limits.max_enqueue_rate.is_some() || limits.max_queue_depth.is_some() || limits.max_scheduled.is_some();
        let all = [('c', limits.max_concurrency.is_some()), ('e', measured), ('w', self.weight.is_some())];
        let all = all.into_iter().chain([('b', self.boost != 0)]);
        all.filter_map(|(letter, holds)| holds.then_some(letter)).collect()
    }
}

impl TenantRule {
    /// Returns prefix and packed settings of all tiers, the longest prefix first.
    pub(in crate::store) fn tiers(rules: &[TenantRule]) -> Vec<(String, String)> {
        let tier = |rule: &TenantRule| Some((rule.prefix()?.to_owned(), rule.terms.packed()));
        let mut tiers: Vec<(String, String)> = rules.iter().filter_map(tier).collect();
        tiers.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        tiers
    }
}

impl Scope {
    /// Returns the escaped tenant, which scripts compare with the tenant of a job; empty for all
    /// tenants.
    pub(in crate::store) fn word(&self) -> String {
        self.tenant().map(escape).unwrap_or_default()
    }

    /// Maps the caller's name of a worker to its name in the store. Prefixed with the tenant, so
    /// that no tenant can act for another's worker.
    pub(in crate::store) fn worker(&self, name: &str) -> String {
        let is_own = self.owns_names() || self.owns_queues() && name.contains(FILE);
        match self.tenant().filter(|_| is_own) {
            Some(tenant) => format!("{tenant}{FILE}{name}"),
            None => name.to_owned(),
        }
    }

    /// Maps the name of a worker in the store to the caller's name; `None` if it belongs to another
    /// tenant.
    pub(in crate::store) fn known_worker<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.tenant().filter(|_| self.owns_names()) {
            Some(tenant) => name.strip_prefix(tenant)?.strip_prefix(FILE),
            None => Some(name).filter(|name| !self.owns_queues() || !name.contains(FILE)),
        }
    }
}

/// Strips the tenant from a worker's name in the store.
pub fn own_worker(name: &str) -> &str {
    name.rsplit_once(FILE).map_or(name, |(_, own)| own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::limit::Window;
    use crate::domain::tenant::{TenantLimits, Weight};
    use crate::domain::tenant_id::DEFAULT;

    #[test]
    fn scripts_get_settings_as_words_and_features_as_letters() {
        let limits = TenantLimits {
            max_concurrency: Some(20),
            max_enqueue_rate: Some(Window { limit: 1000, period: 60_000 }),
            max_queue_depth: Some(50_000),
            max_scheduled: Some(10_000),
            soft: true,
        };
        let terms = TenantSettings { weight: Weight::of(10.0), boost: -3, limits };
        assert_eq!(
            (terms.packed().as_str(), terms.letters().as_str()),
            ("10000 -3 20 1000 60000 50000 10000 1", "cewb")
        );
        let plain = TenantSettings::default();
        assert_eq!((plain.packed().as_str(), plain.letters().as_str()), ("- - - - - - - -", ""));
    }

    #[test]
    fn the_tier_with_the_longest_prefix_comes_first() {
        let rule = |id: &str, concurrency: u32| {
            let limits = TenantLimits { max_concurrency: Some(concurrency), ..TenantLimits::default() };
            TenantRule { id: id.to_owned(), terms: TenantSettings { limits, ..TenantSettings::default() } }
        };
        let rules = [rule("*", 1), rule("free-*", 2), rule("free-a*", 3), rule("free-abc", 4)];
        let tiers = [("free-a", 3), ("free-", 2), ("", 1)];
        let tiers = tiers.map(|(prefix, most)| (prefix.to_owned(), format!("- - {most} - - - - -")));
        assert_eq!(TenantRule::tiers(&rules), tiers);
    }

    #[test]
    fn workers_are_each_tenants_own_unless_it_shares_names() {
        let (acme, shares) = (Scope::of("acme"), Scope::named("acme"));
        assert_ne!(acme.worker("w"), Scope::ALL.worker("w"));
        assert_eq!((own_worker(&acme.worker("w")), own_worker("w")), ("w", "w"));
        assert_eq!(shares.worker("w"), "w");
        let (acme, default) = (shares.in_namespace(), Scope::named(DEFAULT).in_namespace());
        for scope in [&acme, &default] {
            let of_beta = format!("beta{FILE}w");
            assert_ne!(scope.worker(&of_beta), of_beta, "{scope:?}");
        }
        assert_eq!(acme.known_worker(&acme.worker("w")), Some("w"));
        assert_eq!((acme.known_worker("w"), default.known_worker(&acme.worker("w"))), (None, None));
        assert_eq!((default.known_worker("w"), Scope::ALL.known_worker("w")), (Some("w"), Some("w")));
    }
}
