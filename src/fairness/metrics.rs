//! How fair it was, and is.

use super::Weight;

/// What one job costs in virtual time at a weight of one thousandth.
pub(super) const JOB: f64 = 1000.0;

/// Jobs by which a tenant of that weight and start is behind its fair share; negative when it is ahead.
pub fn lag(weight: Weight, start: f64, clock: f64) -> f64 {
    f64::from(weight.thousandths()) * (clock - start) / JOB
}

/// How many promotions may pass at most until the next job of a tenant goes, if no weight joins; none if it is held.
pub fn wait_bound(total: u64, weight: Weight) -> Option<u64> {
    (!weight.is_held()).then(|| total.div_ceil(u64::from(weight.thousandths())) + 1)
}

/// Jain's index of what each got per weight: 1 if all got the same, 1/n if one got all. 1 for fewer than two.
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
