//! `security_headers`

use super::super::reader::Section;
use super::super::security::SecurityHeaders;

/// `None` where it is not given.
pub(super) fn of(section: &Section<'_>) -> Option<SecurityHeaders> {
    section.given("security_headers")?;
    Some(match section.flag_or_choice("security_headers") {
        Ok(true) => SecurityHeaders::Usual,
        Ok(false) => SecurityHeaders::Off,
        Err(_) => SecurityHeaders::Strict,
    })
}
