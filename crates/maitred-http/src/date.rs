//! Dates of HTTP (9110-5.6.7) and of access logs. Times are seconds since 1970-01-01T00:00:00Z; there are no
//! leap seconds in them.

const DAY_NAMES: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const LONG_DAY_NAMES: [&[u8]; 7] =
    [b"Thursday", b"Friday", b"Saturday", b"Sunday", b"Monday", b"Tuesday", b"Wednesday"];
const MONTH_NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

const DAY_SECS: u64 = 86_400;
/// The last second of the year 9999, after which four digits do not hold a year.
const LATEST: u64 = 253_402_300_799;

/// An instant in the parts that are written.
struct Parts {
    year: u64,
    /// 0 is January.
    month: usize,
    /// 1 to 31.
    day: u64,
    /// Index into [`DAY_NAMES`].
    weekday: usize,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Parts {
    fn of(unix_secs: u64) -> Self {
        let secs = unix_secs.min(LATEST);
        let (days, of_day) = (secs / DAY_SECS, secs % DAY_SECS);
        // Years that begin in March put the leap day at their end; eras of 400 years all have the same
        // length. 719468 days lie between 0000-03-01 and 1970-01-01.
        let days_shifted = days + 719_468;
        let (era, of_era) = (days_shifted / 146_097, days_shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let january_or_february = month_from_march >= 10;
        let month = if january_or_february { month_from_march - 10 } else { month_from_march + 2 };
        Self {
            year: era * 400 + year_of_era + u64::from(january_or_february),
            month: usize::try_from(month).unwrap_or_default(),
            day,
            weekday: usize::try_from(days % 7).unwrap_or_default(),
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// Seconds since 1970, or `None` if a part is out of its bounds; 0 for everything before 1970.
    fn unix_secs(&self) -> Option<u64> {
        let leap_year =
            self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        let month_days = match self.month {
            1 if leap_year => 29,
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            0..=11 => 31,
            _ => return None,
        };
        // Second 60 is a leap second that the grammar allows; it counts as the first of the next minute.
        if !(1..=month_days).contains(&self.day) || self.hour > 23 || self.minute > 59 || self.second > 60 {
            return None;
        }
        let month = u64::try_from(self.month).ok()?;
        let (year, month_from_march) =
            if month < 2 { (self.year.checked_sub(1), month + 10) } else { (Some(self.year), month - 2) };
        let Some(year) = year else { return Some(0) };
        let of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let days_shifted = year * 365 + year / 4 - year / 100 + year / 400 + of_year;
        let Some(days) = days_shifted.checked_sub(719_468) else { return Some(0) };
        Some(days * DAY_SECS + self.hour * 3600 + self.minute * 60 + self.second)
    }
}

/// Writes an instant as IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`. Instants after the year 9999
/// are written as its last second.
pub fn format(unix_secs: u64) -> [u8; 29] {
    let parts = Parts::of(unix_secs);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(DAY_NAMES[parts.weekday]);
    text[5..7].copy_from_slice(&two_digits(parts.day));
    text[8..11].copy_from_slice(MONTH_NAMES[parts.month]);
    text[12..14].copy_from_slice(&two_digits(parts.year / 100));
    text[14..16].copy_from_slice(&two_digits(parts.year % 100));
    text[17..25].copy_from_slice(&time_of_day(&parts));
    text
}

/// Writes an instant as access logs in the Common Log Format do: `17/May/2015:10:05:03 +0000`.
pub fn format_clf(unix_secs: u64) -> [u8; 26] {
    let parts = Parts::of(unix_secs);
    let mut text = *b"01/Jan/1970:00:00:00 +0000";
    text[0..2].copy_from_slice(&two_digits(parts.day));
    text[3..6].copy_from_slice(MONTH_NAMES[parts.month]);
    text[7..9].copy_from_slice(&two_digits(parts.year / 100));
    text[9..11].copy_from_slice(&two_digits(parts.year % 100));
    text[12..20].copy_from_slice(&time_of_day(&parts));
    text
}

fn time_of_day(parts: &Parts) -> [u8; 8] {
    let ([h1, h2], [m1, m2], [s1, s2]) =
        (two_digits(parts.hour), two_digits(parts.minute), two_digits(parts.second));
    [h1, h2, b':', m1, m2, b':', s1, s2]
}

fn two_digits(value: u64) -> [u8; 2] {
    let digit = |value: u64| b'0' + u8::try_from(value % 10).unwrap_or_default();
    [digit(value / 10), digit(value)]
}

/// Reads a date in any of the three formats of 9110-5.6.7: IMF-fixdate, and the obsolete ones of RFC 850 and
/// of C's `asctime`. The name of the day must be one, but need not be the right one; names, and GMT, may be in any case: the
/// grammar says otherwise, but nothing else can be meant. Dates before 1970 are 0.
///
/// `now` decides about years with two digits: one that seems more than 50 years ahead is the last one in the
/// past with these digits.
pub fn parse(value: &[u8], now: u64) -> Option<u64> {
    let parts = match value {
        [_, _, _, b',', ..] => parse_fixdate(value),
        [_, _, _, b' ', ..] => parse_asctime(value),
        _ => parse_rfc850(value, now),
    };
    parts?.unix_secs()
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn parse_fixdate(value: &[u8]) -> Option<Parts> {
    let (day_name, rest) = value.split_at_checked(3)?;
    let rest = rest.strip_prefix(b", ")?;
    let (day, rest) = (number(rest.get(..2)?)?, rest.get(2..)?.strip_prefix(b" ")?);
    let (month, rest) = (month(rest.get(..3)?)?, rest.get(3..)?.strip_prefix(b" ")?);
    let (year, rest) = (number(rest.get(..4)?)?, rest.get(4..)?.strip_prefix(b" ")?);
    parts(is_one_of(&DAY_NAMES, day_name), year, month, day, before_gmt(rest)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn parse_rfc850(value: &[u8], now: u64) -> Option<Parts> {
    let (day_name, rest) = value.split_at_checked(memchr::memchr(b',', value)?)?;
    let rest = rest.strip_prefix(b", ")?;
    let (day, rest) = (number(rest.get(..2)?)?, rest.get(2..)?.strip_prefix(b"-")?);
    let (month, rest) = (month(rest.get(..3)?)?, rest.get(3..)?.strip_prefix(b"-")?);
    let (short_year, rest) = (number(rest.get(..2)?)?, rest.get(2..)?.strip_prefix(b" ")?);
    let time = before_gmt(rest)?;
    let day_name_is_one = is_one_of(&LONG_DAY_NAMES, day_name);
    let parts = |year| parts(day_name_is_one, year, month, day, time);

    let today = Parts::of(now);
    let year = today.year / 100 * 100 + short_year;
    // The latest year with these digits that is at most 50 years ahead.
    let year = if year + 50 <= today.year { year + 100 } else { year };
    let horizon = Parts { year: today.year + 50, ..today }.unix_secs().unwrap_or(u64::MAX);
    match parts(year)?.unix_secs() {
        Some(secs) if secs > horizon => parts(year.checked_sub(100)?),
        _ => parts(year),
    }
}

/// `Sun Nov  6 08:49:37 1994`
fn parse_asctime(value: &[u8]) -> Option<Parts> {
    let (day_name, rest) = value.split_at_checked(3)?;
    let rest = rest.strip_prefix(b" ")?;
    let (month, rest) = (month(rest.get(..3)?)?, rest.get(3..)?.strip_prefix(b" ")?);
    let day = match rest.get(..2)? {
        [b' ', digit] => number(&[*digit])?,
        digits => number(digits)?,
    };
    let rest = rest.get(2..)?.strip_prefix(b" ")?;
    let (time, rest) = rest.split_at_checked(8)?;
    let year = rest.strip_prefix(b" ").filter(|year| year.len() == 4)?;
    parts(is_one_of(&DAY_NAMES, day_name), number(year)?, month, day, time)
}

fn parts(day_name_is_one: bool, year: u64, month: usize, day: u64, time: &[u8]) -> Option<Parts> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *time else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    day_name_is_one.then_some(Parts { year, month, day, weekday: 0, hour, minute, second })
}

fn month(name: &[u8]) -> Option<usize> {
    MONTH_NAMES.iter().position(|month| month.eq_ignore_ascii_case(name))
}

fn is_one_of(names: &[impl AsRef<[u8]>], name: &[u8]) -> bool {
    names.iter().any(|other| other.as_ref().eq_ignore_ascii_case(name))
}

fn before_gmt(text: &[u8]) -> Option<&[u8]> {
    let (time, zone) = text.split_last_chunk::<4>()?;
    zone.eq_ignore_ascii_case(b" GMT").then_some(time)
}

/// The value of at most four digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests;
