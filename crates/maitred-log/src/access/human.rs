//! A short line for a person at a terminal: `08:49:37  200  GET /index.html  1.2 kB  0.3 ms  127.0.0.1`.

use super::escape;
use super::line::{Line, RequestLine, decimal};

/// SGR sequences of ECMA-48.
const RESET: &[u8] = b"\x1b[0m";
const DIM: &[u8] = b"\x1b[2m";
const GREEN: &[u8] = b"\x1b[32m";
const CYAN: &[u8] = b"\x1b[36m";
const YELLOW: &[u8] = b"\x1b[33m";
const RED: &[u8] = b"\x1b[31m";

/// Appends one line. `stamp` is `08:49:37`.
pub(super) fn append(line: &Line<'_>, stamp: &[u8], colour: bool, out: &mut Vec<u8>) {
    let paint = |sequence: &[u8], out: &mut Vec<u8>| {
        if colour {
            out.extend_from_slice(sequence);
        }
    };
    paint(DIM, out);
    out.extend_from_slice(stamp);
    paint(RESET, out);
    out.extend_from_slice(b"  ");
    paint(status_colour(line.status), out);
    decimal(u64::from(line.status), out);
    paint(RESET, out);
    out.extend_from_slice(b"  ");
    match line.request {
        RequestLine::Parsed { method, target, .. } => {
            escape::quoted(method.as_bytes(), out);
            out.push(b' ');
            escape::quoted(target.as_bytes(), out);
        }
        RequestLine::Refused(b"") => out.push(b'-'),
        RequestLine::Refused(bytes) => escape::quoted(bytes, out),
    }
    out.extend_from_slice(b"  ");
    paint(DIM, out);
    size(line.body_bytes, out);
    out.extend_from_slice(b"  ");
    tenths(line.duration_us, 1000, b" ms", out);
    out.extend_from_slice(b"  ");
    out.extend_from_slice(line.remote);
    if let Some(pool) = line.pool {
        out.extend_from_slice(b"  ");
        escape::quoted(pool.as_bytes(), out);
    }
    paint(RESET, out);
    out.push(b'\n');
}

fn status_colour(status: u16) -> &'static [u8] {
    match status {
        0..300 => GREEN,
        300..400 => CYAN,
        400..500 => YELLOW,
        _ => RED,
    }
}

fn size(bytes: u64, out: &mut Vec<u8>) {
    match bytes {
        0..1000 => {
            decimal(bytes, out);
            out.extend_from_slice(b" B");
        }
        1000..1_000_000 => tenths(bytes, 1000, b" kB", out),
        1_000_000..1_000_000_000 => tenths(bytes, 1_000_000, b" MB", out),
        _ => tenths(bytes, 1_000_000_000, b" GB", out),
    }
}

/// `number / unit` with one decimal, rounded down.
fn tenths(number: u64, unit: u64, suffix: &[u8], out: &mut Vec<u8>) {
    decimal(number / unit, out);
    out.push(b'.');
    decimal(number % unit / (unit / 10), out);
    out.extend_from_slice(suffix);
}
