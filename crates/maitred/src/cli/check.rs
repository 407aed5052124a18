//! `maitred check`: says whether a start with a configuration would succeed, and binds nothing. Modules are loaded, each in a
//! process of its own.

use std::path::Path;
use std::process::ExitCode;

use super::exit::{Error, Exit};
use super::load_module;
use maitred_config::{Config, load};
use maitred_control::affinity::steering;
use maitred_control::affinity::topology::{self, Topology};
use maitred_master::judge::{Addresses, judge};

/// Checks a file: the summary goes to standard output, errors and warnings to standard error.
pub fn run(path: &Path) -> ExitCode {
    match load(path) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                eprintln!("{warning}");
            }
            // A machine that does not describe its CPUs has nothing to compare with.
            if let Ok(topology) = Topology::read() {
                for complaint in steering::complaints(&loaded.config, &topology, &topology::online()) {
                    eprintln!("warning: {complaint}");
                }
            }
            let mut wrong = judge(&loaded.config, Addresses::Judge);
            wrong.extend(load_module::check(&loaded.config).err());
            if !wrong.is_empty() {
                wrong.iter().flat_map(|text| text.lines()).for_each(|line| eprintln!("error: {line}"));
                return Exit::Usage.into();
            }
            println!("{}", summary(path, &loaded.config));
            Exit::Done.into()
        }
        Err(failure) => Error::from(failure).report(),
    }
}

/// `maitred.toml: ok: 1 address, 2 sites, 1 pool`
pub fn summary(path: &Path, config: &Config) -> String {
    format!(
        "{}: ok: {}, {}, {}",
        path.display(),
        counted(config.listens.len(), "address", "addresses"),
        counted(config.sites.len(), "site", "sites"),
        counted(config.pools.len(), "pool", "pools"),
    )
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
