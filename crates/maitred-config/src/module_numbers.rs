//! The modules of a configuration, and the numbers by which the processes name them.

use super::meaning::{Config, Site};
use super::modules::{MODULES_MAX, ModuleSpec};

impl Config {
    /// The modules that are loaded: each library once with each of its configurations, in the order of the file. The modules'
    /// places are the numbers by which both processes name them.
    pub fn modules(&self) -> Vec<&ModuleSpec> {
        modules_of(&self.sites)
    }
}

/// The modules of some sites; of too many, not all.
pub(super) fn modules_of(sites: &[Site]) -> Vec<&ModuleSpec> {
    let mut all: Vec<&ModuleSpec> = Vec::new();
    for site in sites {
        for used in site.modules.iter().chain(site.routes.iter().flat_map(|route| &route.modules)) {
            if all.len() <= MODULES_MAX && !all.contains(&&used.module) {
                all.push(&used.module);
            }
        }
    }
    all
}
