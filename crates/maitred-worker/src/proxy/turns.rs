//! Turns by weight: smooth, whatever the weights are, and with as many steps as the servers' number has bits.
//!
//! Each server has the time of its next turn, which is a step later after each: the smaller its weight, the larger the step. Time
//! is that of the last turn; who could not be chosen for a while begins anew, and makes up for nothing (start-time fair queueing:
//! Goyal, Vin, Cheng 1997).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::group::Member;

/// The step of a server of weight 1.
const STEP: u64 = 1 << 30;

/// The turns of one thread, of the servers of one group.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The time of the last turn.
    now: u64,
    /// When each comes next, by position.
    next: Vec<u64>,
    /// The same, the first one on top; entries that `next` does not have are old.
    order: BinaryHeap<Reverse<(u64, u16)>>,
}

impl Turns {
    /// The first turns are spread over a step. `first` is the one that begins: threads that begin at different ones do not all
    /// prefer the same.
    pub(super) fn new(members: &[Member], first: usize) -> Turns {
        let count = members.len().max(1);
        let begin = |(at, member): (usize, &Member)| {
            let place = (at + count - first % count) % count;
            step(member.weight) / count as u64 * place as u64
        };
        let next: Vec<u64> = members.iter().enumerate().map(begin).collect();
        let order = next.iter().zip(0..).map(|(time, at)| Reverse((*time, at))).collect();
        Turns { now: 0, next, order }
    }

    /// When this one's turn is.
    pub(super) fn when(&self, at: usize) -> u64 {
        self.next.get(at).map_or(u64::MAX, |next| (*next).max(self.now))
    }

    /// The member had its turn; `share` of 256 of its weight counts.
    pub(super) fn take(&mut self, at: usize, weight: u16, share: u32) {
        self.now = self.when(at);
        if let Some(next) = self.next.get_mut(at) {
            *next = self.now + step(weight) / u64::from(share.clamp(1, 256)) * 256;
            self.order.push(Reverse((*next, at as u16)));
        }
        if self.order.len() > 2 * self.next.len() + 8 {
            self.order = self.next.iter().zip(0..).map(|(time, at)| Reverse((*time, at))).collect();
        }
    }

    /// The first in order that `is_good`. Members that are not have missed their turn.
    pub(super) fn first(
        &mut self,
        members: &[Member],
        mut is_good: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        // Each is looked at once, besides old entries.
        let mut missed = 0;
        while missed < members.len() {
            let Reverse((time, at)) = self.order.pop()?;
            let position = usize::from(at);
            if self.next.get(position) != Some(&time) {
                continue;
            }
            if is_good(position) {
                self.order.push(Reverse((time, at)));
                return Some(position);
            }
            missed += 1;
            let weight = members.get(position).map_or(1, |member| member.weight);
            let later = time.max(self.now) + step(weight);
            self.next[position] = later;
            self.order.push(Reverse((later, at)));
        }
        None
    }
}

fn step(weight: u16) -> u64 {
    STEP / u64::from(weight.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(weights: &[u16]) -> Vec<Member> {
        (0..).zip(weights).map(|(slot, weight)| Member { slot, weight: *weight, identity: 0 }).collect()
    }

    fn turn(turns: &mut Turns, members: &[Member], is_good: impl FnMut(usize) -> bool) -> Option<usize> {
        let at = turns.first(members, is_good)?;
        turns.take(at, members[at].weight, 256);
        Some(at)
    }

    #[test]
    fn equals_come_one_after_the_other_and_a_heavy_one_not_in_a_row() {
        let equal = members(&[1, 1, 1]);
        let mut turns = Turns::new(&equal, 1);
        let seen: Vec<_> = (0..6).map(|_| turn(&mut turns, &equal, |_| true).unwrap()).collect();
        assert_eq!(seen, [1, 2, 0, 1, 2, 0]);
        let mixed = members(&[5, 1, 1]);
        let mut turns = Turns::new(&mixed, 0);
        let seen: Vec<_> = (0..14).map(|_| turn(&mut turns, &mixed, |_| true).unwrap()).collect();
        assert_eq!(seen, [0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 2, 0]);
    }

    #[test]
    fn who_was_not_there_makes_up_for_nothing() {
        let equal = members(&[1, 1]);
        let mut turns = Turns::new(&equal, 0);
        assert!((0..50).all(|_| turn(&mut turns, &equal, |at| at == 1) == Some(1)));
        let seen: Vec<_> = (0..10).map(|_| turn(&mut turns, &equal, |_| true).unwrap()).collect();
        assert!((4..=6).contains(&seen.iter().filter(|at| **at == 0).count()), "{seen:?}");
        assert_eq!(turn(&mut turns, &equal, |_| false), None);
        assert_eq!(turn(&mut Turns::new(&[], 3), &[], |_| true), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn turns_are_exact_over_one_round(weights in prop::collection::vec(1_u16..50, 1..30), first in 0_usize..50) {
            let members = members(&weights);
            let mut turns = Turns::new(&members, first);
            let sum: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            let mut seen = vec![0_usize; weights.len()];
            for _ in 0..10 * sum {
                seen[turn(&mut turns, &members, |_| true).unwrap()] += 1;
            }
            for (seen, weight) in seen.iter().zip(&weights) {
                prop_assert!(seen.abs_diff(10 * usize::from(*weight)) <= 1, "{seen} for {weight}");
            }
            prop_assert!(turns.order.len() <= 2 * weights.len() + 8);
        }
    }
}
