//! Times as logs write them, to microseconds since 1970.

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `17/May/2015:10:05:03 +0000`, the `%t` of httpd without its brackets.
pub(super) fn clf(text: &[u8]) -> Option<u64> {
    let (date, zone) = (text.get(..20)?, text.get(20..)?);
    let &[d1, d2, b'/', m1, m2, m3, b'/', ref year @ .., _, _, _, _, _, _, _, _, _] = date else {
        return None;
    };
    let month = MONTHS.iter().position(|name| **name == [m1, m2, m3])? as u64 + 1;
    let time = date.get(11..)?;
    let seconds = instant(number(year)?, month, number(&[d1, d2])?, time.strip_prefix(b":")?)?;
    let zone = zone.strip_prefix(b" ")?;
    shifted(seconds, zone.first()?, number(zone.get(1..3)?)?, number(zone.get(3..)?)?)?.checked_mul(1_000_000)
}

/// `1994-11-06T08:49:37.004321Z` (RFC 3339): any number of decimals, `Z` or an offset.
pub(super) fn rfc3339(text: &[u8]) -> Option<u64> {
    let (date, rest) = (text.get(..19)?, text.get(19..)?);
    let &[_, _, _, _, b'-', m1, m2, b'-', d1, d2, b'T' | b't' | b' ', ..] = date else { return None };
    let seconds = instant(number(date.get(..4)?)?, number(&[m1, m2])?, number(&[d1, d2])?, date.get(11..)?)?;
    let (micros, zone) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (fraction, zone) = rest.split_at_checked(digits).filter(|_| digits > 0)?;
            let shown = fraction.get(..6).unwrap_or(fraction);
            let scale = 10_u64.pow(6_u32.saturating_sub(shown.len() as u32));
            (number(shown)? * scale, zone)
        }
        None => (0, rest),
    };
    let seconds = match zone {
        b"Z" | b"z" => seconds,
        [sign, h1, h2, b':', m1, m2] => shifted(seconds, sign, number(&[*h1, *h2])?, number(&[*m1, *m2])?)?,
        _ => return None,
    };
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// Local time to UTC, by the offset that follows it.
fn shifted(seconds: u64, sign: &u8, hours: u64, minutes: u64) -> Option<u64> {
    let offset = hours * 3600 + minutes * 60;
    match sign {
        b'+' if hours < 24 && minutes < 60 => Some(seconds.saturating_sub(offset)),
        b'-' if hours < 24 && minutes < 60 => seconds.checked_add(offset),
        _ => None,
    }
}

/// Seconds since 1970 of a date and `10:05:03`. Years before 1970 are none.
fn instant(year: u64, month: u64, day: u64, time: &[u8]) -> Option<u64> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of_month = match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is second 60.
    if year < 1970 || day == 0 || day > days_of_month || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let before_month = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let days = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
        + before_month.get(month as usize - 1)?
        + u64::from(is_leap && month > 2)
        + day
        - 1;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Decimal digits and nothing else; at most 18 of them.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_formats_are_read() {
        assert_eq!(clf(b"06/Nov/1994:08:49:37 +0000"), Some(784_111_777_000_000));
        assert_eq!(clf(b"06/Nov/1994:10:49:37 +0200"), Some(784_111_777_000_000));
        assert_eq!(clf(b"06/Nov/1994:01:19:37 -0730"), Some(784_111_777_000_000));
        assert_eq!(rfc3339(b"1994-11-06T08:49:37.004321Z"), Some(784_111_777_004_321));
        assert_eq!(rfc3339(b"1994-11-06T09:49:37.5+01:00"), Some(784_111_777_500_000));
        assert_eq!(rfc3339(b"1994-11-06T08:49:37.123456789Z"), Some(784_111_777_123_456));
        assert_eq!(clf(b"29/Feb/2016:00:00:00 +0000"), Some(1_456_704_000_000_000));
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for text in [
            "29/Feb/2015:00:00:00 +0000",
            "00/Jan/2015:00:00:00 +0000",
            "17/Mai/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/2015:10:05:03",
            "17/May/2015:10:05:03 +00",
            "17/May/2015:10:05:03 *0000",
            "17/May/1969:10:05:03 +0000",
            "",
        ] {
            assert_eq!(clf(text.as_bytes()), None, "{text}");
        }
        for text in ["1994-11-06T08:49:37", "1994-11-06T08:49:37.Z", "1994-13-06T08:49:37Z", "1994-11-06"] {
            assert_eq!(rfc3339(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_day_agrees_with_the_server() {
        for day in 0..40_000_u64 {
            let seconds = day * 86_400 + day % 86_400;
            let text = maitred_http::date::format_clf(seconds);
            assert_eq!(clf(&text), Some(seconds * 1_000_000), "{}", String::from_utf8_lossy(&text));
        }
    }
}
