//! Servers of one rank (all but the backups, or these), with what makes a choice among many as cheap as one among few: made once
//! when the list changes, and shared by all threads.

use super::server::{hash_of, mix};

/// Points on the ring of a server whose weight is the mean: with 100, the shares of servers of equal weight differ by about a
/// tenth.
const POINTS_MEAN: u64 = 100;
/// The most that one server has.
const POINTS_MAX: u64 = 2000;

/// A server of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) slot: u16,
    pub(super) weight: u16,
    pub(super) identity: u64,
}

/// The servers of one rank that get requests.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    /// Sum of their weights.
    pub(super) weight: u64,
    /// For a draw by weight in one step (Vose 1991): of each member, the probability of 2^32 to stay with it, and the other one.
    alias: Vec<(u32, u16)>,
    /// Points of all members, ascending, each with the position of its member. Empty unless keys are hashed.
    ring: Vec<(u64, u16)>,
}

impl Group {
    pub(super) fn new(members: Vec<Member>, hashes: bool) -> Group {
        let weight = members.iter().map(|member| u64::from(member.weight)).sum();
        let alias = alias(&members, weight);
        let ring = if hashes { ring(&members, weight) } else { Vec::new() };
        Group { members, weight, alias, ring }
    }

    /// A member by weight; `random` is spread evenly. The position of one if there is any.
    pub(super) fn draw(&self, random: u64) -> Option<usize> {
        let at = (((random & 0xffff_ffff) * self.alias.len() as u64) >> 32) as usize;
        let (stay, other) = *self.alias.get(at)?;
        Some(if (random >> 32) as u32 <= stay { at } else { usize::from(other) })
    }

    /// All members in the order of their points, from that of a key on. A member comes as often as it has points.
    pub(super) fn on_ring(&self, key: u64) -> impl Iterator<Item = usize> + '_ {
        let start = self.ring.partition_point(|(point, _)| *point < key);
        let (before, after) = self.ring.split_at(start);
        after.iter().chain(before).map(|(_, member)| usize::from(*member))
    }
}

fn alias(members: &[Member], weight: u64) -> Vec<(u32, u16)> {
    let count = members.len() as u64;
    // In units of the mean weight divided by 2^32.
    let scaled =
        |member: &Member| ((u128::from(member.weight) * u128::from(count)) << 32) / u128::from(weight.max(1));
    let mut left: Vec<u128> = members.iter().map(scaled).collect();
    let mut table = vec![(u32::MAX, 0); members.len()];
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..members.len()).partition(|at| left[*at] < 1 << 32);
    while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
        table[less] = (left[less] as u32, more as u16);
        left[more] -= (1 << 32) - left[less];
        if left[more] < 1 << 32 {
            large.pop();
            small.push(more);
        }
    }
    table
}

fn ring(members: &[Member], weight: u64) -> Vec<(u64, u16)> {
    let mut ring = Vec::new();
    for (at, member) in (0..).zip(members) {
        let points = POINTS_MEAN * u64::from(member.weight) * members.len() as u64 / weight.max(1);
        let point = |number: u64| mix(member.identity ^ mix(number));
        ring.extend((0..points.clamp(1, POINTS_MAX)).map(|number| (point(number), at)));
    }
    ring.sort_unstable();
    ring
}

/// The place of a key on the ring.
pub fn key_of(bytes: &[u8]) -> u64 {
    mix(hash_of(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(weights: &[u16]) -> Group {
        let member = |(slot, weight): (u16, &u16)| Member {
            slot,
            weight: *weight,
            identity: hash_of(format!("10.0.0.{slot}:80").as_bytes()),
        };
        Group::new((0..).zip(weights).map(member).collect(), true)
    }

    fn first(group: &Group, key: u64) -> u16 {
        group.members[group.on_ring(key).next().unwrap()].slot
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let none = group(&[]);
        assert_eq!((none.draw(7), none.on_ring(7).next()), (None, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn draws_follow_the_weights(weights in prop::collection::vec(1_u16..1000, 1..40), seed in any::<u64>()) {
            let group = group(&weights);
            let (mut seen, draws) = (vec![0_u64; weights.len()], 40_000_u64);
            (0..draws).for_each(|number| seen[group.draw(mix(seed ^ number)).unwrap()] += 1);
            for (seen, weight) in seen.iter().zip(&weights) {
                let expected = draws as f64 * f64::from(*weight) / group.weight as f64;
                // Six standard deviations of a binomial distribution, and a few for the smallest.
                prop_assert!((*seen as f64 - expected).abs() < 6.0 * expected.sqrt() + 10.0, "{seen} of {expected}");
            }
        }

        #[test]
        fn only_the_keys_of_a_server_that_goes_move(count in 2_usize..30, gone in any::<prop::sample::Index>()) {
            let all = group(&vec![1; count]);
            let gone = gone.index(count) as u16;
            let members: Vec<Member> = all.members.iter().copied().filter(|member| member.slot != gone).collect();
            // The points of a server depend on the number of servers only by their weights, which are equal.
            let fewer = Group::new(members, true);
            for key in (0..2000).map(mix) {
                let before = first(&all, key);
                if before != gone {
                    prop_assert_eq!(before, first(&fewer, key));
                }
            }
        }

        #[test]
        fn keys_are_spread_by_weight(weights in prop::collection::vec(1_u16..5, 2..30)) {
            let group = group(&weights);
            let (mut seen, keys) = (vec![0_u32; weights.len()], 20_000);
            (0..keys).for_each(|key| seen[usize::from(first(&group, mix(key)))] += 1);
            for (seen, weight) in seen.iter().zip(&weights) {
                let expected = keys as f64 * f64::from(*weight) / group.weight as f64;
                prop_assert!((expected * 0.3..expected * 2.0).contains(&f64::from(*seen)), "{seen} of {expected}");
            }
        }
    }
}
