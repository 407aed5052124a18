//! What a site has from `[defaults]`.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

use super::defaults::DEFAULTS;
use super::finding::Context;

/// Gives each site what it does not say itself.
pub(super) fn into_sites(cx: &Context<'_>, all: &mut DeTable<'_>) {
    let Some(DeValue::Table(defaults)) = all.get("defaults").map(|value| value.get_ref().clone()) else {
        return;
    };
    let Some(DeValue::Array(sites)) = all.get_mut("site").map(|value| value.get_mut()) else { return };
    let mut inherited = BTreeSet::new();
    for site in sites.iter_mut() {
        let DeValue::Table(site) = site.get_mut() else { continue };
        for (key, value) in &defaults {
            if DEFAULTS.key(key.get_ref()).is_none() {
                continue;
            }
            match (site.get_mut(key.get_ref().as_ref()).map(|own| own.get_mut()), value.get_ref()) {
                (None, _) => {
                    inherited.insert(key.span().start);
                    site.insert(key.clone(), value.clone());
                }
                (Some(DeValue::Table(own)), DeValue::Table(defaults)) => fill(own, defaults),
                _ => {}
            }
        }
    }
    cx.inherited.replace(inherited);
}

/// Gives a table what it does not have.
fn fill<'s>(own: &mut DeTable<'s>, defaults: &DeTable<'s>) {
    for (key, value) in defaults {
        match (own.get_mut(key.get_ref().as_ref()).map(|own| own.get_mut()), value.get_ref()) {
            (None, _) => drop(own.insert(key.clone(), value.clone())),
            (Some(DeValue::Table(own)), DeValue::Table(defaults)) => fill(own, defaults),
            _ => {}
        }
    }
}
