//! Values with a form of their own: times, sizes, addresses, networks, CPU lists.

use maitred_http::fields;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::listen::Address;

/// An IP network: its first address, and the length of its prefix in bits.
pub type Network = (IpAddr, u8);

/// `"250ms"`, `"5s"`, `"2m"`, `"1h"`; what is wrong with it otherwise, in words.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "" => return Err("a time in a string needs a unit: \"ms\", \"s\", \"m\" or \"h\"".into()),
        unit => return Err(format!("`{unit}` is not a unit of time: \"ms\", \"s\", \"m\" and \"h\" are")),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "this is too long".into())
}

/// Digits after the point of a size: enough for any that is written by hand, and too few to overflow.
const FRACTION_DIGITS_MAX: usize = 9;

/// `"16KiB"`, `"1.5MiB"`, `"64kB"`, `"100m"`, `"100"`; in bytes. What is wrong with it otherwise, in words.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (whole, rest) = number_and_unit(text)?;
    let (fraction, unit) = match rest.strip_prefix('.') {
        None => ("", rest),
        Some(rest) => {
            let (fraction, unit) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
            match (1..=FRACTION_DIGITS_MAX).contains(&fraction.len()) {
                true => (fraction, unit.trim_start()),
                false => return Err(format!("after the point stand 1 to {FRACTION_DIGITS_MAX} digits")),
            }
        }
    };
    let scaled: u128 =
        format!("{whole}{fraction}").parse().map_err(|_| "this number is too large".to_owned())?;
    let scale = fraction.bytes().fold(1_u128, |scale, _| scale.saturating_mul(10));
    let bytes = scaled.saturating_mul(unit_of_size(unit)?.into());
    match bytes.is_multiple_of(scale) {
        true => u64::try_from(bytes / scale).map_err(|_| "this is too much".into()),
        false => Err("this is not a whole number of bytes".into()),
    }
}

/// How many bytes a unit is. A letter alone is binary, as in nginx and Apache.
fn unit_of_size(unit: &str) -> Result<u64, String> {
    Ok(match unit {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "m" | "M" | "MiB" => 1 << 20,
        "g" | "G" | "GiB" => 1 << 30,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        unit => {
            let meant = match unit.to_ascii_lowercase().as_str() {
                "kb" | "kib" => "\"KiB\" (1024 bytes) and \"kB\" (1000) are",
                "mb" | "mib" => "\"MiB\" (1024 KiB) and \"MB\" (1000 kB) are",
                "gb" | "gib" => "\"GiB\" (1024 MiB) and \"GB\" (1000 MB) are",
                _ => "\"B\", \"KiB\", \"MiB\" and \"GiB\" are, or for short \"k\", \"m\" and \"g\"",
            };
            return Err(format!("`{unit}` is not a unit of size: {meant}"));
        }
    })
}

fn number_and_unit(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("this does not start with a whole number".into());
    }
    let number = number.parse().map_err(|_| "this number is too large".to_owned())?;
    Ok((number, unit.trim_start()))
}

/// `75s`, `250ms`, `1h`: in the largest unit that leaves a whole number.
pub(super) fn show_duration(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0 => "0s".into(),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) && millis > 60_000 => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

/// `16KiB`, `1MiB`, `100`: in the largest unit that leaves a whole number.
pub(super) fn show_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes > 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// `"0.0.0.0:8080"`, `"[::]:8080"`, `":8080"`. Also what `--listen` takes.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix(':').filter(|port| !port.starts_with(':')) {
        let port = port.parse().map_err(|_| format!("`{port}` is not a port number"))?;
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    Err(match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => format!("the port is missing: write \"{address}:8080\""),
        Ok(IpAddr::V6(address)) => format!("the port is missing: write \"[{address}]:8080\""),
        Err(_) if text.parse::<u16>().is_ok() => format!("write \":{text}\" for that port of every address"),
        Err(_) if text.starts_with("localhost:") => {
            "names are not looked up: write \"127.0.0.1\" or \"[::1]\" for localhost".into()
        }
        Err(_) => "write an address and a port, such as \"0.0.0.0:8080\", \"[::1]:8080\" or \":8080\"".into(),
    })
}

/// What [`listen_address`] takes, or `"unix:/path"`; a relative path stays relative.
pub(super) fn listener(text: &str) -> Result<Address, String> {
    match text.strip_prefix(Address::UNIX) {
        None if text.contains('/') => {
            Err(format!("write \"unix:{}\" for a socket file", text.trim_start_matches("unix/")))
        }
        None => listen_address(text).map(Address::Inet),
        Some(path) if path.is_empty() || path.ends_with('/') || path.contains('\0') => {
            Err("write the path of a file after \"unix:\", such as \"unix:/run/maitred/http.sock\"".into())
        }
        Some(path) if path.starts_with('@') => {
            Err("an abstract socket has no permissions, so that every account of the machine could connect: write the path of \
                 a file"
                .into())
        }
        Some(path) => Ok(Address::Unix(path.into())),
    }
}

/// `"0660"`: permissions of a file.
pub(super) fn file_mode(text: &str) -> Result<u32, String> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or_else(|| {
        "it takes three octal digits, with or without a 0 before them, such as \"0660\"".into()
    })
}

/// `"10.0.0.0/8"`, `"2001:db8::/32"`, or a single address.
pub(super) fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| format!("`{address}` is not an IP address"))?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => width,
        Some(bits) => bits
            .parse()
            .ok()
            .filter(|bits| *bits <= width)
            .ok_or_else(|| format!("`{bits}` is not a prefix length from 0 to {width}"))?,
    };
    let first = first_address(address, bits);
    if first != address {
        return Err(format!("the network of {bits} bits starts at {first}: write \"{first}/{bits}\""));
    }
    Ok((address, bits))
}

fn first_address(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// The highest CPU number that a list may name; the kernel's largest configuration has 8192.
const CPU_MAX: u16 = 8191;

/// `"0-3,8"`, in its order.
pub(super) fn cpus(text: &str) -> Result<Vec<u16>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first)?, cpu(last)?);
        if first > last {
            return Err(format!("the range {first}-{last} runs backwards"));
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(format!("CPU {cpu} is named twice"));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

fn cpu(text: &str) -> Result<u16, String> {
    let text = text.trim();
    text.parse().ok().filter(|cpu| *cpu <= CPU_MAX).ok_or_else(|| format!("`{text}` is not a CPU number"))
}

/// Whether this is a token (RFC 9110 section 5.6.2): a method, or the name of a field.
pub(super) fn is_token(text: &str) -> bool {
    fields::is_token(text.as_bytes())
}

/// Whether this can be the value of a field (RFC 9110 section 5.5): no control characters, no white space at the ends.
pub(super) fn is_field_value(text: &str) -> bool {
    fields::is_value(text.as_bytes())
}

/// Whether an address is in one of `networks`.
pub fn is_within(address: IpAddr, networks: &[Network]) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|(network, bits)| match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*bits)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*bits)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_shown_as_they_are_read() {
        for text in ["0s", "1ms", "250ms", "5s", "60s", "75s", "2m", "1h", "24h"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
        for text in ["0", "1", "1000", "16KiB", "1MiB", "3GiB"] {
            assert_eq!(show_bytes(bytes(text).unwrap()), text);
        }
        assert_eq!(bytes("5 kB"), Ok(5000));
    }

    #[test]
    fn sizes_are_taken_as_people_write_them() {
        for (text, meant) in [
            ("100m", 100 << 20),
            ("10M", 10 << 20),
            ("1g", 1 << 30),
            ("2G", 2 << 30),
            ("16k", 16 << 10),
            ("16K", 16 << 10),
            ("1.5MiB", 3 << 19),
            ("0.5g", 1 << 29),
            ("2.50 kB", 2500),
            ("1.000000000", 1),
        ] {
            assert_eq!(bytes(text), Ok(meant), "{text}");
        }
        for (text, why) in [
            ("1.5", "this is not a whole number of bytes"),
            ("0.1k", "this is not a whole number of bytes"),
            ("1.k", "after the point stand 1 to 9 digits"),
            ("1.0000000000k", "after the point stand 1 to 9 digits"),
            (".5k", "this does not start with a whole number"),
            (
                "1,5m",
                "`,5m` is not a unit of size: \"B\", \"KiB\", \"MiB\" and \"GiB\" are, or for short \"k\", \"m\" and \"g\"",
            ),
            ("5mb", "`mb` is not a unit of size: \"MiB\" (1024 KiB) and \"MB\" (1000 kB) are"),
            ("5KB", "`KB` is not a unit of size: \"KiB\" (1024 bytes) and \"kB\" (1000) are"),
            ("99999999999g", "this is too much"),
            ("18446744073709551615.999999999GB", "this is too much"),
        ] {
            assert_eq!(bytes(text), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_or_size_is_explained() {
        for text in ["", "s", "5", "5 weeks", "-5s", "1.5s", "99999999999999999999s", "9999999999999999999h"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "KiB", "16kib", "-1", "99999999999999999999", "18446744073709551615KiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_have_three_spellings() {
        assert_eq!(listen_address(":8080").unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(listen_address("[::]:0").unwrap().to_string(), "[::]:0");
        assert_eq!(listen_address("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        for text in ["", ":", ":x", ":99999", "8080", "::", "::1:80x", "localhost:80", "1.2.3.4", "[::1]"] {
            assert!(listen_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_start_where_their_mask_says() {
        assert_eq!(network("10.0.0.0/8").unwrap().1, 8);
        assert_eq!(network("10.1.2.3").unwrap().1, 32);
        assert_eq!(network("::/0").unwrap().1, 0);
        assert_eq!(network("0.0.0.0/0").unwrap().1, 0);
        assert_eq!(network("fe80::/10").unwrap().1, 10);
        for text in ["10.0.0.1/8", "10.0.0.0/33", "x", "10.0.0.0/", "::1/64", "::/129"] {
            assert!(network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpu_lists_keep_their_order() {
        assert_eq!(cpus("8,0-3"), Ok(vec![8, 0, 1, 2, 3]));
        for text in ["", "a", "3-1", "0,0", "0-", "-1", "0-65535", "1,,2"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }
}
