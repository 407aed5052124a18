//! Times of packages, in the two forms that these want.

const SECONDS_OF_DAY: u64 = 86_400;
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time of the calendar, in UTC.
struct Date {
    year: u64,
    /// From 0.
    month: usize,
    day: u64,
    /// `01:02:03`
    time: String,
    weekday: &'static str,
}

/// Of seconds since 1970. Years begin in March here, so that the day of a leap year is the last one (Hinnant, "chrono-compatible
/// low-level date algorithms", `civil_from_days`).
fn date(seconds: u64) -> Date {
    let (days, rest) = (seconds / SECONDS_OF_DAY, seconds % SECONDS_OF_DAY);
    let since = days + 719_468;
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = (from_march + 2) % 12;
    Date {
        year: era * 400 + year_of_era + u64::from(month < 2),
        month: usize::try_from(month).unwrap_or_default(),
        day: day_of_year - (153 * from_march + 2) / 5 + 1,
        time: format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60),
        weekday: usize::try_from(days % 7).ok().and_then(|day| DAYS.get(day)).unwrap_or(&""),
    }
}

/// As RFC 5322 writes it, for Debian.
pub(super) fn rfc5322(seconds: u64) -> String {
    let Date { year, month, day, time, weekday } = date(seconds);
    format!("{weekday}, {day:02} {} {year} {time} +0000", MONTHS.get(month).unwrap_or(&""))
}

/// As ISO 8601 writes it, for Go.
pub(super) fn iso8601(seconds: u64) -> String {
    let Date { year, month, day, time, .. } = date(seconds);
    format!("{year}-{:02}-{day:02}T{time}Z", month + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc5322(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc5322(951_782_400 + 3_661), "Tue, 29 Feb 2000 01:01:01 +0000");
        assert_eq!(iso8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso8601(951_782_400 + 3_661), "2000-02-29T01:01:01Z");
    }

    #[test]
    fn years_and_leap_years_begin_and_end() {
        assert_eq!(iso8601(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(iso8601(1_735_689_600), "2025-01-01T00:00:00Z");
        assert_eq!(iso8601(1_709_251_200), "2024-03-01T00:00:00Z");
        // 2100 has no 29th of February.
        assert_eq!(iso8601(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(rfc5322(4_107_542_399), "Sun, 28 Feb 2100 23:59:59 +0000");
    }
}
