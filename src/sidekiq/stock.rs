//! Staged jobs of a Sidekiq, by rule and origin.

use crate::main_queue::ImportSource;
use crate::store::{CameFrom, StagedEntry};

/// Maximum number of jobs handed back in one call, which bounds how long Redis is busy with it.
const PORTION: usize = 50;
/// Maximum number of bytes handed back in one call.
const PORTION_BYTES: usize = 256 * 1024;

/// Staged jobs of a rule with the same origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    pub rule: String,
    pub came_from: CameFrom,
    /// The source that they are handed back to; `None` if they stay.
    pub home: Option<ImportSource>,
    /// Number of jobs that a release handed back.
    pub released: u64,
    /// Number of jobs that are still staged.
    pub left: u64,
}

/// A staged job that is to be handed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: String,
    sequence: u64,
    bytes: usize,
    /// The index of its stock.
    pub(super) stock: usize,
}

/// All staged jobs of a Sidekiq, as listed.
#[derive(Default)]
pub(super) struct Inventory {
    pub(super) stocks: Vec<Stock>,
    /// Jobs by source.
    jobs: Vec<Vec<Listed>>,
    /// Sequence numbers of jobs that stay, with the indexes of their stocks.
    staying: Vec<(u64, usize)>,
}

impl Inventory {
    /// Begins a new listing. The numbers of released jobs are kept.
    pub(super) fn begin(&mut self, sources: usize) {
        self.stocks.iter_mut().for_each(|stock| stock.left = 0);
        (self.jobs, self.staying) = (vec![Vec::new(); sources], Vec::new());
    }

    /// Adds jobs of a rule.
    pub(super) fn add(&mut self, rule: &str, sources: &[ImportSource], jobs: Vec<StagedEntry>) {
        for StagedEntry { id, sequence, bytes, came_from } in jobs {
            let home = sources.iter().position(|source| source.is_home_of(&came_from));
            let known = self.stocks.iter().position(|stock| stock.rule == rule && stock.came_from == came_from);
            let stock = known.unwrap_or_else(|| {
                let home = home.map(|home| sources[home].clone());
                self.stocks.push(Stock { rule: rule.to_owned(), came_from, home, released: 0, left: 0 });
                self.stocks.len() - 1
            });
            match home {
                Some(home) => self.jobs[home].push(Listed { id, sequence, bytes, stock }),
                None => self.staying.push((sequence, stock)),
            }
        }
    }

    /// Ends the listing. Returns the jobs of each source without duplicates, the newest first.
    pub(super) fn end(&mut self) -> Vec<Vec<Listed>> {
        self.staying.sort_unstable();
        self.staying.dedup();
        let mut jobs = std::mem::take(&mut self.jobs);
        for jobs in &mut jobs {
            jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.sequence));
            jobs.dedup_by_key(|job| job.sequence);
        }
        let staying = self.staying.iter().map(|(_, stock)| *stock);
        for stock in jobs.iter().flatten().map(|job| job.stock).chain(staying) {
            self.stocks[stock].left += 1;
        }
        jobs
    }

    /// Returns the number of jobs that were handed back.
    pub(super) fn released(&self) -> u64 {
        self.stocks.iter().map(|stock| stock.released).sum()
    }

    /// Returns the number of staged jobs that are still to be handed back.
    pub(super) fn left(&self) -> u64 {
        self.stocks.iter().filter(|stock| stock.home.is_some()).map(|stock| stock.left).sum()
    }
}

/// Returns the number of jobs to hand back in one call, at least 1.
pub(super) fn portion(jobs: &[Listed]) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Listed| {
        bytes += job.bytes;
        bytes <= PORTION_BYTES
    };
    jobs.iter().take(PORTION).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(sequence: u64, bytes: usize, came_from: CameFrom) -> StagedEntry {
        StagedEntry { id: format!("j{sequence}"), sequence, bytes, came_from }
    }

    #[test]
    fn jobs_go_to_their_source_newest_first_and_each_once() {
        let sources = [ImportSource::Queue("stage".to_owned())];
        let mut inventory = Inventory::default();
        let gem = CameFrom::Fairplay { class: "A".to_owned() };
        for _ in 0..2 {
            inventory.begin(1);
            inventory.add("r", &sources, vec![job(1, 9, CameFrom::StagingQueue), job(4, 9, CameFrom::Elsewhere)]);
            inventory.add("s", &sources, vec![job(3, 9, CameFrom::StagingQueue), job(2, 9, gem.clone())]);
            inventory.add("r", &sources, vec![job(1, 9, CameFrom::StagingQueue), job(4, 9, CameFrom::Elsewhere)]);
            let listed = inventory.end();
            let ids: Vec<&str> = listed[0].iter().map(|job| job.id.as_str()).collect();
            assert_eq!((listed.len(), ids), (1, vec!["j3", "j1"]));
            assert_eq!(inventory.left(), 2);
        }
        let lefts: Vec<(&str, bool, u64)> =
            inventory.stocks.iter().map(|one| (one.rule.as_str(), one.home.is_some(), one.left)).collect();
        assert_eq!(lefts, [("r", true, 1), ("r", false, 1), ("s", true, 1), ("s", false, 1)]);
    }

    #[test]
    fn a_portion_is_bounded_by_jobs_and_bytes() {
        let listed = |bytes| Listed { id: String::new(), sequence: 0, bytes, stock: 0 };
        assert_eq!(portion(&vec![listed(1); 1000]), PORTION);
        assert_eq!(portion(&[PORTION_BYTES / 2, PORTION_BYTES / 2, 1].map(listed)), 2);
        assert_eq!(portion(&[PORTION_BYTES * 2, 1].map(listed)), 1);
    }
}
