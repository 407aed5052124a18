//! Times as people say them.

use std::time::Duration;

/// `100 ms`, `1.6 s`, `12 s`, `3 min`: as exact as a person who waits needs it.
pub(crate) fn rounded(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        // In tens above ten, rounded up: a wait that is over sooner is not missed.
        0..=10 => format!("{} ms", time.as_micros().div_ceil(1000)),
        11..=990 => format!("{} ms", ms.div_ceil(10) * 10),
        991..=9_950 => format!("{:.1} s", time.as_secs_f64()).replace(".0 s", " s"),
        9_951..=119_499 => format!("{:.0} s", time.as_secs_f64()),
        _ => format!("{:.0} min", time.as_secs_f64() / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded() {
        let cases = [
            (99_945_390, "100 ms"),
            (1_600_000, "2 ms"),
            (0, "0 ms"),
            (983_100_000, "990 ms"),
            (999_000_000, "1 s"),
            (1_560_000_000, "1.6 s"),
            (9_990_000_000, "10 s"),
            (29_700_000_000, "30 s"),
            (180_000_000_000, "3 min"),
        ];
        for (nanoseconds, said) in cases {
            assert_eq!(rounded(Duration::from_nanos(nanoseconds)), said, "{nanoseconds}");
        }
    }
}
