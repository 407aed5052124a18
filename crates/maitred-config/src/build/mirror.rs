//! `mirror` of sites and routes.

use super::super::conditions::Share;
use super::super::mirror::{Mirror, MirrorChoice};
use super::super::reader::{Section, shorten};
use super::conditions::percentage;
use super::pools::Known;

/// `mirror`
pub(super) fn of(section: &Section<'_>, pools: &Known<'_>) -> Option<MirrorChoice> {
    if !section.is_table("mirror") {
        return section.choice("mirror").map(|_| MirrorChoice::Off);
    }
    let table = section.section("mirror");
    let pool = table.text("pool").and_then(|name| pools.takes_requests(&table, &name));
    let parts = table.text("share").and_then(|text| {
        let what = format!("`share`: \"{}\" is no percentage", shorten(&text.value));
        table.cx.accept(&text.span, &what, percentage(&text.value))
    });
    let concurrent = table.number("concurrent").value;
    let mirror = Mirror { pool: pool.unwrap_or_default(), parts: parts.unwrap_or(Share::WHOLE), concurrent };
    Some(MirrorChoice::To(mirror))
}
