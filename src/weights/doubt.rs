//! Detection of answers that are well-formed but probably a mistake.

use super::ReceivedWeights;

/// A reason to doubt an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It contains no tenants.
    Empty,
    /// It contains tenants, but none of the requested ones.
    UnknownIds,
    /// Every requested tenant has weight 0.
    AllZero,
}

impl Doubt {
    /// Returns the doubt about an answer, if there is one. Answers with invalid values are reported
    /// in another way.
    pub fn of(outcome: &ReceivedWeights) -> Option<Doubt> {
        if outcome.invalid_total > 0 {
            return None;
        }
        match (outcome.weights.is_empty(), outcome.unknown, outcome.missing) {
            (true, 0, 1..) => Some(Doubt::Empty),
            (true, 1.., 1..) => Some(Doubt::UnknownIds),
            (false, _, 0) if outcome.weights.iter().all(|(_, weight)| weight.is_held()) => Some(Doubt::AllZero),
            _ => None,
        }
    }

    /// Returns the name used in events.
    pub fn name(self) -> &'static str {
        match self {
            Doubt::Empty => "empty",
            Doubt::UnknownIds => "unknown_ids",
            Doubt::AllZero => "all_zero",
        }
    }

    /// Describes the answer and its effect.
    pub fn describe(self) -> &'static str {
        match self {
            Doubt::Empty => "the webhook returned no weights; tenants keep their current weights",
            Doubt::UnknownIds => {
                "the webhook returned other ids than the requested ones; tenants keep their current weights"
            }
            Doubt::AllZero => "the webhook returned 0 for every requested tenant; none of their jobs is promoted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tenant::Weight;

    #[test]
    fn odd_answers_are_doubted() {
        let (zero, one) = (Weight::HELD, Weight::ONE);
        for (weights, invalid_total, unknown, missing, expected) in [
            (&[][..], 0, 0, 2, Some(Doubt::Empty)),
            (&[], 0, 3, 2, Some(Doubt::UnknownIds)),
            (&[zero, zero], 0, 0, 0, Some(Doubt::AllZero)),
            (&[zero], 0, 0, 1, None),
            (&[zero, one], 0, 0, 0, None),
            (&[], 2, 0, 0, None),
            (&[zero], 1, 0, 0, None),
            (&[], 0, 0, 0, None),
        ] {
            let weights = weights.iter().map(|weight| ("a".to_owned(), *weight)).collect();
            let outcome = ReceivedWeights { weights, invalid_total, unknown, missing, ..ReceivedWeights::default() };
            assert_eq!(Doubt::of(&outcome), expected, "{outcome:?}");
        }
    }
}
