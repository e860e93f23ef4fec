//! How fair it was.

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
