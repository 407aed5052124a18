//! When a server is well. Pure: what checks find goes in.
//!
//! | state | a good check | a failed check |
//! |---|---|---|
//! | well | failures are forgotten | unwell, if it is the last of `unhealthy_after` in a row |
//! | unwell | well, if it is the last of `healthy_after` in a row | good checks are forgotten |

/// Checks in a row that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// `healthy_after`; at least 1.
    pub healthy_after: u32,
    /// `unhealthy_after`; at least 1.
    pub unhealthy_after: u32,
}

/// What is known of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    well: bool,
    /// Checks in a row that say otherwise.
    against: u32,
}

impl Verdict {
    /// A verdict that is taken over: what was found before.
    pub(crate) fn new(well: bool) -> Verdict {
        Verdict { well, against: 0 }
    }

    /// A check has ended. `Some` if that changes the state: whether the server is well now.
    pub(crate) fn note(&mut self, good: bool, rules: Rules) -> Option<bool> {
        if good == self.well {
            self.against = 0;
            return None;
        }
        self.against = self.against.saturating_add(1);
        let needed = if good { rules.healthy_after } else { rules.unhealthy_after };
        if self.against < needed {
            return None;
        }
        *self = Verdict::new(good);
        Some(good)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules { healthy_after: 2, unhealthy_after: 3 };

    #[test]
    fn it_takes_some_checks_in_a_row() {
        let mut verdict = Verdict::new(true);
        let mut said = Vec::new();
        for (number, good) in [false, false, true, false, false, false, false, true, false, true, true, true]
            .into_iter()
            .enumerate()
        {
            said.extend(verdict.note(good, RULES).map(|well| (number, well)));
        }
        assert_eq!(said, [(5, false), (10, true)]);
    }

    #[test]
    fn one_check_is_enough_where_that_is_wanted() {
        let rules = Rules { healthy_after: 1, unhealthy_after: 1 };
        let mut verdict = Verdict::new(false);
        assert_eq!(
            [true, false, false, true].map(|good| verdict.note(good, rules)),
            [Some(true), Some(false), None, Some(true)]
        );
    }

    proptest! {
        #[test]
        fn what_is_said_alternates_and_follows_a_run(
            checks in prop::collection::vec(any::<bool>(), 0..200),
            (healthy_after, unhealthy_after) in (1_u32..5, 1_u32..5),
        ) {
            let rules = Rules { healthy_after, unhealthy_after };
            let (mut verdict, mut well) = (Verdict::new(true), true);
            for (end, good) in checks.iter().enumerate() {
                let Some(now) = verdict.note(*good, rules) else { continue };
                prop_assert_eq!(now, !well);
                let needed = if now { healthy_after } else { unhealthy_after } as usize;
                prop_assert!(end + 1 >= needed && checks[end + 1 - needed..=end].iter().all(|good| *good == now));
                well = now;
            }
        }
    }
}
