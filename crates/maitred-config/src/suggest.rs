//! "Did you mean": the nearest of the names that would have been right.

/// The name in `known` that `given` was probably meant to be: at most a third of its letters differ.
pub(super) fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let given = given.to_lowercase().replace('-', "_");
    let most = (given.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&given, &name.replace('-', "_")), name))
        .filter(|&(distance, _)| distance <= most)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of adjacent characters that turn one word into the other (optimal string
/// alignment). Long words are cut: a name of ours has at most 64 characters.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, &letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &other) in to.iter().enumerate() {
            let mut best = (last[j] + usize::from(letter != other)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && letter == to[j - 1] && from[i - 1] == other {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_single_edits() {
        for (from, to, edits) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "", 2),
            ("ab", "ba", 1),
            ("thread", "threads", 1),
            ("abc", "xyz", 3),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_name_wins_and_a_far_one_is_not_suggested() {
        let known = ["threads", "affinity", "user", "server_header"];
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("Server-Header", known), Some("server_header"));
        assert_eq!(nearest("usr", known), Some("user"));
        assert_eq!(nearest("colour", known), None);
    }
}
