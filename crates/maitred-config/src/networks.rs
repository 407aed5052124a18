//! `[networks]`: lists of networks with names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::finding::{At, Context};
use super::meaning::Network;
use super::reader::{Section, shorten};
use super::suggest::nearest;
use super::values;

/// Loopback addresses.
pub(super) const LOOPBACK: [Network; 2] =
    [(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8), (IpAddr::V6(Ipv6Addr::LOCALHOST), 128)];

/// Private addresses: RFC 1918, and RFC 4193 for IPv6.
const PRIVATE: [Network; 4] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
];

/// Every address.
const ALL: [Network; 2] = [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)];

/// Lists that are always there.
const KNOWN: [(&str, &[Network]); 3] = [("all", &ALL), ("loopback", &LOOPBACK), ("private", &PRIVATE)];

/// Networks that the lists may have together, those of lists in lists counted each time.
const NETWORKS_MAX: usize = 100_000;

/// Reads the lists, so that [`resolve`] knows them.
pub(super) fn read(root: &Section<'_>) {
    let cx = root.cx;
    let mut lists = root.lists("networks");
    lists.retain(|(name, _)| is_usable(cx, name));
    let known = KNOWN.iter().map(|(name, networks)| ((*name).to_owned(), networks.to_vec()));
    cx.networks.replace(known.collect());
    let mut left = NETWORKS_MAX;
    // A list is resolved once those are that it names: what remains in the end names itself, or nothing.
    loop {
        let is_known = |item: &At<String>| {
            item.value.strip_prefix('@').is_none_or(|name| cx.networks.borrow().contains_key(name))
        };
        let Some(at) = lists.iter().position(|(_, items)| items.iter().all(is_known)) else { break };
        let (name, items) = lists.remove(at);
        let networks = items.iter().flat_map(|item| resolve(cx, "networks", item));
        let networks: Vec<_> = networks.take(left + 1).collect();
        let Some(after) = left.checked_sub(networks.len()) else {
            return cx.error(&name.span, format!("[networks] has more than {NETWORKS_MAX} networks"));
        };
        left = after;
        cx.networks.borrow_mut().insert(name.value, networks);
    }
    let left: Vec<_> = lists.iter().map(|(name, _)| name.value.clone()).collect();
    for item in lists.iter().flat_map(|(_, items)| items) {
        match item.value.strip_prefix('@') {
            Some(name) if left.iter().any(|other| other == name) => {
                cx.error(&item.span, format!("`networks`: the list \"{}\" contains itself", shorten(name)));
            }
            _ => drop(resolve(cx, "networks", item)),
        }
    }
    // What names them is not wrong by itself.
    cx.networks.borrow_mut().extend(left.into_iter().map(|name| (name, Vec::new())));
}

fn is_usable(cx: &Context<'_>, name: &At<String>) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let shown = shorten(&name.value);
    if KNOWN.iter().any(|(known, _)| *known == name.value) {
        cx.error(&name.span, format!("`networks`: \"@{shown}\" is always there and cannot be changed"));
        return false;
    }
    if name.value.is_empty() || !name.value.bytes().all(plain) {
        let message = format!("`networks`: \"{shown}\" cannot be the name of a list");
        cx.error_with(&name.span, message, "it takes letters, digits, `-` and `_`");
        return false;
    }
    true
}

/// The networks of an item: `"10.0.0.0/8"`, an address, or `"@name"`. `key` is what the item stands in.
pub(super) fn resolve(cx: &Context<'_>, key: &str, item: &At<String>) -> Vec<Network> {
    let Some(name) = item.value.strip_prefix('@') else {
        let what = format!("`{key}`: \"{}\" is not a network", shorten(&item.value));
        return cx.accept(&item.span, &what, values::network(&item.value)).into_iter().collect();
    };
    let lists = cx.networks.borrow();
    if let Some(networks) = lists.get(name) {
        return networks.clone();
    }
    let hint = match nearest(name, lists.keys().map(String::as_str)) {
        Some(meant) => format!("did you mean \"@{meant}\"?"),
        None => {
            let names: Vec<_> = lists.keys().map(|name| format!("\"@{name}\"")).collect();
            format!("the lists are {}; others are defined in [networks]", names.join(", "))
        }
    };
    cx.missing(&item.span, format!("`{key}`: there is no list \"@{}\"", shorten(name)), hint);
    Vec::new()
}
