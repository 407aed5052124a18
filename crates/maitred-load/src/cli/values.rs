//! Values of arguments.

use std::time::Duration;

/// The longest run: a day and a night for each of a month's days is more than any log is replayed for.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(31 * 24 * 3600);

/// `500ms`, `30s`, `5m`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| "wanted a number and a unit, such as 30s".to_owned())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" | "" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("unknown unit {unit:?}: ms, s, m and h are known")),
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| "that is longer than a month".to_owned())
}

/// The same, but not 0.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("that is no time at all".to_owned()),
        time => Ok(time),
    }
}

/// `1000`, `64K`, `256M`, `4G`: powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (number, scale) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (text.get(..text.len() - 1), 1 << 10),
        Some(b'M' | b'm') => (text.get(..text.len() - 1), 1 << 20),
        Some(b'G' | b'g') => (text.get(..text.len() - 1), 1 << 30),
        _ => (Some(text), 1_u64),
    };
    let number = number.and_then(|number| number.parse::<u64>().ok());
    // What a file's length can be.
    let bytes =
        number.and_then(|number| number.checked_mul(scale)).filter(|bytes| i64::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| "wanted a number of bytes, such as 64K, 256M or 4G".to_owned())
}

/// `10x`, `0.5x` or `10`; `max` is as fast as connections allow.
pub(super) fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let number: f64 = text.strip_suffix('x').unwrap_or(text).parse().unwrap_or(0.0);
    if (1e-6..=1e9).contains(&number) {
        Ok(Speed::Times(number))
    } else {
        Err("wanted max, or how many times as fast as the log, such as 10x".to_owned())
    }
}

/// How fast a log is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Speed {
    /// As fast as the connections allow.
    Max,
    /// So many times as fast as it was written.
    Times(f64),
}

/// `name: value`.
pub(super) fn field(text: &str) -> Result<(String, String), String> {
    let wanted = || "wanted a name and a value, such as 'accept-encoding: gzip'".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let value = value.trim();
    if name.is_empty() || !name.bytes().all(is_token) || value.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
    {
        return Err(wanted());
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(
            (duration("2m"), duration("1h")),
            (Ok(Duration::from_secs(120)), Ok(Duration::from_secs(3600)))
        );
        for wrong in ["", "s", "5x", "-1s", "1e9s", "99999h", "1.2.3s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("0s").is_ok() && some_time("0s").is_err() && some_time("").is_err());
        assert_eq!(some_time("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!((bytes("7"), bytes("2K"), bytes("1g")), (Ok(7), Ok(2048), Ok(1 << 30)));
        for wrong in ["", "K", "1.5M", "-1", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn speeds_are_factors() {
        assert_eq!(speed("max"), Ok(Speed::Max));
        assert_eq!((speed("10x"), speed("0.5")), (Ok(Speed::Times(10.0)), Ok(Speed::Times(0.5))));
        for wrong in ["", "x", "0x", "-1x", "infx", "NaN", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
