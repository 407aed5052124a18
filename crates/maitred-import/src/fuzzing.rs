//! What the fuzz target and a seeded test throw arbitrary bytes at.

use super::{Imported, apache, caddy, finished, guard, nginx, unit};

/// Imports any bytes as a configuration of each server.
///
/// # Panics
/// If nothing is said of what was read, or the output does not pass the check: that is what fuzzing looks for.
pub fn read(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = [nginx::text(&text), unit::text("text", &text), caddy::text(&text), apache::text(&text)];
    for (document, report) in read.into_iter().flatten() {
        let Imported { text, report } = finished(document, report, &[]);
        assert!(!report.table().is_empty());
        assert!(guard::check(&text).is_ok(), "{text}");
    }
}
