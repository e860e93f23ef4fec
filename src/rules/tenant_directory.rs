//! A list of all tenants that have jobs or their own settings.

use super::Rulebook;
use super::tenant_settings::EffectiveSettings;
use crate::store::{Error, Store, TenantJobs};
use std::collections::BTreeMap;

/// Maximum number of tenants read for one list.
const MOST: usize = 100_000;
/// Number of tenants read by one call.
const PORTION: usize = 1000;

/// The order of a list; all orders but `Name` are descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectoryOrder {
    #[default]
    Name,
    Jobs,
    Depth,
    Active,
    Weight,
}

impl DirectoryOrder {
    /// All orders by name.
    pub const NAMES: [(&'static str, DirectoryOrder); 5] = [
        ("name", DirectoryOrder::Name),
        ("jobs", DirectoryOrder::Jobs),
        ("depth", DirectoryOrder::Depth),
        ("active", DirectoryOrder::Active),
        ("weight", DirectoryOrder::Weight),
    ];
}

/// A filter of tenants.
#[derive(Clone, Debug, Default)]
pub struct DirectoryFilter {
    /// Prefix of their ids.
    pub prefix: String,
    /// True for tenants with their own settings, false for those without.
    pub configured: Option<bool>,
}

/// A tenant in the list.
#[derive(Clone, Debug)]
pub struct TenantEntry {
    pub id: String,
    /// Its numbers of jobs, as `tenants_with_jobs` returns them.
    pub jobs: TenantJobs,
    pub served: EffectiveSettings,
}

/// A sorted list of tenants.
pub struct TenantDirectory {
    pub tenants: Vec<TenantEntry>,
    /// True if there are more tenants than were read.
    pub truncated: bool,
}

impl TenantDirectory {
    /// Reads the tenants that match a filter.
    pub async fn read(
        store: &Store,
        rules: &Rulebook,
        filter: &DirectoryFilter,
        order: DirectoryOrder,
    ) -> Result<TenantDirectory, Error> {
        let mut found: BTreeMap<String, (TenantJobs, String)> = BTreeMap::new();
        let (mut cursor, mut truncated) = (0, false);
        loop {
            let (next, tenants) = store.tenants_with_jobs(cursor, PORTION).await?;
            let wanted = tenants.into_iter().filter(|(id, _)| id.starts_with(&filter.prefix));
            wanted.for_each(|(id, jobs)| found.entry(id).or_default().0 = jobs);
            cursor = next;
            truncated |= cursor != 0 && found.len() >= MOST;
            if cursor == 0 || truncated {
                break;
            }
        }
        loop {
            let (next, tenants) = store.tenants_with_terms(cursor, PORTION).await?;
            let wanted = tenants.into_iter().filter(|(id, _)| id.starts_with(&filter.prefix));
            wanted.for_each(|(id, document)| found.entry(id).or_default().1 = document);
            cursor = next;
            truncated |= cursor != 0 && found.len() >= MOST;
            if cursor == 0 || truncated {
                break;
            }
        }
        let admits = |document: &str| filter.configured.is_none_or(|configured| configured != document.is_empty());
        let tenants = found.into_iter().filter(|(_, (_, document))| admits(document));
        let entries = tenants.map(|(id, (jobs, document))| {
            let served = rules.read_served(&id, document);
            TenantEntry { id, jobs, served }
        });
        let mut directory = TenantDirectory { tenants: entries.collect(), truncated };
        directory.sort(order);
        Ok(directory)
    }

    fn sort(&mut self, order: DirectoryOrder) {
        let amount = |tenant: &TenantEntry| match order {
            DirectoryOrder::Name => 0,
            DirectoryOrder::Jobs => tenant.jobs.total(),
            DirectoryOrder::Depth => tenant.jobs.depth(),
            DirectoryOrder::Active => tenant.jobs.active,
            DirectoryOrder::Weight => tenant.served.terms.weight.map_or(1000, |weight| u64::from(weight.thousandths())),
        };
        // They are sorted by name already, and a stable sort keeps that order for ties.
        self.tenants.sort_by_key(|tenant| std::cmp::Reverse(amount(tenant)));
    }
}
