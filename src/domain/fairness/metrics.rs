//! Measures of fairness.

use crate::domain::tenant::Weight;

/// Cost of one job in virtual time at a weight of one thousandth.
pub(super) const JOB: f64 = 1000.0;

/// Returns the number of jobs by which a tenant is behind its fair share; negative if it is ahead.
pub fn lag(weight: Weight, start: f64, clock: f64) -> f64 {
    f64::from(weight.thousandths()) * (clock - start) / JOB
}

/// Returns the maximum number of promotions until the next job of a tenant is promoted, if no
/// weight is added to `total`; `None` if the tenant is held.
pub fn wait_bound(total: u64, weight: Weight) -> Option<u64> {
    (!weight.is_held()).then(|| total.div_ceil(u64::from(weight.thousandths())) + 1)
}

/// Returns Jain's index of the amounts per weight: 1 if all are equal, 1/n if one tenant received
/// everything. Returns 1 for fewer than two.
pub fn jain_index(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    if shares.len() < 2 || squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_one_for_all_to_all_for_one() {
        assert_eq!(jain_index(&[2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain_index(&[6.0, 0.0, 0.0]), 1.0 / 3.0);
        assert_eq!((jain_index(&[]), jain_index(&[5.0]), jain_index(&[0.0, 0.0])), (1.0, 1.0, 1.0));
    }
}
