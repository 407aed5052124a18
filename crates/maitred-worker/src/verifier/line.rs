//! Who is next: a line for each address, and each in its turn. So one address gets as many places as others leave, and one
//! that guesses passwords from a thousand connections keeps another waiting for one check at a time.

use std::collections::{HashMap, VecDeque};

use maitred_base::rates::AddressKey;

/// Where a request comes from; `None` for clients without an address (Unix sockets), which count as one.
pub(super) type From = Option<AddressKey>;

/// What waits, at most [`super::CHECKS_MAX`] in all.
#[derive(Debug)]
pub(super) struct Line<T> {
    lines: HashMap<From, VecDeque<T>>,
    /// The addresses with something that waits, the next one first; each once.
    turns: VecDeque<From>,
    count: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { lines: HashMap::new(), turns: VecDeque::new(), count: 0 }
    }
}

impl<T> Line<T> {
    /// Adds something. When all places are taken, it takes the last place of the address that has most, if that has more than
    /// this one would have then; what has lost it is given back. An error, with what was to be added, if there is none to take.
    pub(super) fn push(&mut self, from: From, what: T, places: usize) -> Result<Option<T>, T> {
        let own = self.lines.get(&from).map_or(0, VecDeque::len);
        let mut lost = None;
        if self.count >= places {
            let most =
                self.lines.iter().max_by_key(|(_, line)| line.len()).map(|(of, line)| (*of, line.len()));
            let Some((of, _)) = most.filter(|(_, length)| *length > own + 1) else { return Err(what) };
            // More than one: the address keeps its turn.
            lost = self.lines.get_mut(&of).and_then(VecDeque::pop_back);
            self.count -= usize::from(lost.is_some());
        }
        if own == 0 {
            self.turns.push_back(from);
        }
        self.lines.entry(from).or_default().push_back(what);
        self.count += 1;
        Ok(lost)
    }

    /// What is next: the oldest of the address whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let from = self.turns.pop_front()?;
        let line = self.lines.get_mut(&from)?;
        let next = line.pop_front()?;
        match line.is_empty() {
            true => drop(self.lines.remove(&from)),
            false => self.turns.push_back(from),
        }
        self.count -= 1;
        Some(next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(number: u32) -> From {
        Some(AddressKey::V4(number))
    }

    #[test]
    fn addresses_take_turns() {
        let mut line = Line::default();
        for (from, what) in [(1, "a"), (1, "b"), (1, "c"), (2, "d"), (3, "e"), (2, "f")] {
            assert_eq!(line.push(address(from), what, 64), Ok(None));
        }
        let order: Vec<&str> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order, ["a", "d", "e", "b", "f", "c"]);
        assert!(line.is_empty());
    }

    #[test]
    fn one_address_has_all_places_until_others_come() {
        let mut line = Line::default();
        for number in 0..4 {
            assert_eq!(line.push(address(1), number, 4), Ok(None));
        }
        assert_eq!(line.push(address(1), 4, 4), Err(4), "no other has any");
        assert_eq!(line.push(address(2), 10, 4), Ok(Some(3)), "the last one that came");
        assert_eq!(line.push(None, 20, 4), Ok(Some(2)));
        assert_eq!(line.push(address(2), 11, 4), Err(11), "each would have two, or one and two");
        assert_eq!(line.push(address(3), 30, 4), Ok(Some(1)));
        assert_eq!(line.push(address(4), 40, 4), Err(40), "each has one");
        assert_eq!(std::iter::from_fn(|| line.pop()).collect::<Vec<_>>(), [0, 10, 20, 30]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_address_is_starved(
            steps in prop::collection::vec((0_u32..6, prop::bool::weighted(0.7)), 0..400),
        ) {
            const PLACES: usize = 8;
            let (mut line, mut inside) = (Line::default(), Vec::new());
            for (number, (from, pushes)) in steps.into_iter().enumerate() {
                if pushes {
                    let has = |from| inside.iter().filter(|(of, _)| *of == from).count();
                    let (full, own) = (inside.len() == PLACES, has(from));
                    match line.push(address(from), (from, number), PLACES) {
                        Ok(lost) => {
                            prop_assert_eq!(lost.is_some(), full);
                            if let Some(lost) = lost {
                                prop_assert!(has(lost.0) > own + 1, "from one with more");
                                inside.retain(|one| *one != lost);
                            }
                            inside.push((from, number));
                        }
                        Err(_) => prop_assert!(full && (0..6).all(|other| has(other) <= own + 1)),
                    }
                } else {
                    let next = line.pop();
                    prop_assert_eq!(next.is_some(), !inside.is_empty());
                    inside.retain(|one| Some(*one) != next);
                }
                prop_assert_eq!(line.count, inside.len());
                prop_assert_eq!(line.turns.len(), line.lines.len());
            }
        }
    }
}
