//! `listen` of sites, and listeners in conditions.

use super::super::finding::{At, Context};
use super::super::listen::Listen;
use super::super::meaning::Site;
use super::super::reader::{Section, shorten};
use super::super::suggest::nearest;
use super::super::values;
use super::common::normal;
use super::tls::Spans;
use crate::listen::Address;

/// `listen` of a site: indexes of listeners, ascending; `None` where it is not given.
pub(super) fn of_site(section: &Section<'_>) -> Option<Vec<u16>> {
    if let Some(span) = section.empty_array("listen") {
        let message = "`listen` is empty, so that no request reaches this site";
        section.cx.error_with(
            &span,
            message,
            "name a [[listen]], or take it out: a site without it answers at all",
        );
    }
    section.given("listen").map(|_| named(section, "listen"))
}

/// The listeners that a key names, by their names or their addresses.
pub(super) fn named(section: &Section<'_>, key: &'static str) -> Vec<u16> {
    let mut found: Vec<u16> =
        section.texts(key).iter().flat_map(|text| listeners(section, key, text)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn listeners(section: &Section<'_>, key: &str, text: &At<String>) -> Vec<u16> {
    let (cx, known) = (section.cx, section.cx.listeners.borrow());
    let found = known.named(&text.value);
    // What is wrong with a listener of that name was said there.
    if !found.is_empty() || known.names.contains(&text.value) {
        return found;
    }
    let address = match values::listener(&text.value) {
        Ok(Address::Unix(path)) => Some(Address::Unix(normal(&cx.base(&text.span).join(path)))),
        Ok(address) => Some(address),
        Err(_) => None,
    };
    let found = address.map(|address| known.at(&address)).unwrap_or_default();
    if found.is_empty() {
        let shown = shorten(&text.value);
        let addresses = known.all.iter().map(|listen| listen.address.to_string());
        let all: Vec<String> = known.names.iter().cloned().chain(addresses).collect();
        let hint = match nearest(&text.value, all.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean \"{}\"?", shorten(meant)),
            None => format!(
                "it takes the `name` of a [[listen]], or an address as it stands there: {}",
                quoted(&all)
            ),
        };
        cx.missing(&text.span, format!("`{key}`: there is no [[listen]] \"{shown}\""), hint);
    }
    found
}

/// Some of them, for a hint.
fn quoted(all: &[String]) -> String {
    const SHOWN_MAX: usize = 6;
    let shown: Vec<String> = all.iter().take(SHOWN_MAX).map(|one| format!("\"{}\"", shorten(one))).collect();
    let more = if all.len() > SHOWN_MAX { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Whether sites with these listeners have one in common.
pub(super) fn meet(one: Option<&[u16]>, other: Option<&[u16]>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.iter().any(|index| other.contains(index)),
        _ => true,
    }
}

/// Whether a site behind these would be the first of any of its listeners.
pub(super) fn is_first(cx: &Context<'_>, listens: Option<&[u16]>, before: &[Site]) -> bool {
    let known = cx.listeners.borrow();
    let has = |index: usize| listens.is_none_or(|own| own.iter().any(|own| usize::from(*own) == index));
    let mut own = (0..known.all.len()).filter(|index| has(*index));
    // Where its listeners are not known, what is wrong with them was said.
    listens.is_some_and(<[u16]>::is_empty)
        || own.any(|index| !before.iter().any(|site| site.answers_at(index)))
}

/// Listeners against sites.
pub(super) fn check_together(cx: &Context<'_>, listens: &[(Listen, Spans)], sites: &[Site]) {
    for (index, (listen, spans)) in listens.iter().enumerate() {
        let answered = sites.is_empty() || sites.iter().any(|site| site.answers_at(index));
        if !answered && !listen.redirect_http {
            cx.error_with(
                &spans.address,
                format!("no site answers at {}", listen.address),
                "name it in `listen` of a [[site]], or add a [[site]] without `listen`",
            );
        }
    }
}
