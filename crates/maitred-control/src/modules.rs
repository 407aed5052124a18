//! In-process modules, as a process has them: loaded once, called by all of its threads. Which there are, and their numbers, is
//! in [`Config::modules`]; what they may ask of the server is in `maitred_worker::modules`.
//!
//! Loading a library runs what is in it. So every process that loads one first gives up whatever a worker process has not
//! ([`Confined`]): that one itself, and the ones in which `maitred check` and an upgrade try modules out.
//!
//! `init` of a library runs with these rights, while the process may open all files of its account, has no keys yet, and has no
//! other thread; a library whose `init` starts one is refused. `start` runs when the process has given the files up as well.

use std::io;
use std::path::Path;

use landlock::{Access as _, AccessFs};
use maitred_sys::module::host::Module;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use serde::{Deserialize, Serialize};

use super::servers::{ServerList, ports};
use super::{RunAs, account};
use maitred_base::sandbox::{self, Connections, seccomp};
use maitred_base::trusted::{self, Distrust};
use maitred_config::{Config, ModuleSpec};

/// What a worker process may do, for a process that is to load modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// The account that it changes to; `None` if it has that already.
    account: Option<RunAs>,
    /// The account that starts the server: besides root, the only one that may write libraries.
    owner: u32,
    /// `server.seccomp`
    seccomp: bool,
    /// The ports that it may connect to.
    ports: Vec<u16>,
}

impl Rights {
    /// The rights of a worker process that this process would start.
    ///
    /// # Errors
    /// What looking the account up says.
    pub fn of_worker(config: &Config) -> io::Result<Rights> {
        let account = account(config.server.user.as_ref())?;
        let owner = rustix::process::geteuid().as_raw();
        Ok(Rights { account: account.as_ref().map(RunAs::from), ..Rights::own(config, &[], owner) })
    }

    /// The rights of this process, which is a worker process and has its account; `owner` has started the server.
    pub fn own(config: &Config, servers: &[ServerList], owner: u32) -> Rights {
        let ports = ports(config, servers).into_iter().collect();
        Rights { account: None, owner, seccomp: config.server.seccomp, ports }
    }
}

/// A process that has no more rights than a worker process.
#[derive(Debug)]
pub struct Confined {
    owner: u32,
}

impl Confined {
    /// Gives up all other rights, for good: account, capabilities, system calls, programs, ports, other processes. Of files, it
    /// has those of its account, because a module opens its files when it begins; a worker process gives these up after that.
    /// Call it before the process has other threads, which would not be confined.
    ///
    /// Also says what the kernel does not have, as a worker process does without it as well.
    ///
    /// # Errors
    /// When the account or the capabilities cannot be changed.
    pub fn enter(rights: Rights) -> io::Result<(Confined, Vec<String>)> {
        if let Some(account) = rights.account {
            account.assume()?;
        }
        set_no_new_privs(true)?;
        if !rustix::process::geteuid().is_root() {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        }
        let mut missing = Vec::new();
        let everything: &[&Path] = &[Path::new("/")];
        let rules = [(everything, AccessFs::from_all(sandbox::WANTED) & !AccessFs::Execute)];
        if let Err(error) = sandbox::restrict(&rules, Connections::Ports(&rights.ports)) {
            missing.push(format!("Landlock: {error}"));
        }
        if rights.seccomp
            && let Err(error) = seccomp::confine(seccomp::Process::Worker)
        {
            missing.push(format!("seccomp: {error}"));
        }
        Ok((Confined { owner: rights.owner }, missing))
    }
}

/// All modules of a configuration, by their numbers.
#[derive(Debug, Default)]
pub struct Modules {
    all: Box<[Entry]>,
}

#[derive(Debug)]
struct Entry {
    /// The name of its file.
    name: String,
    /// `None` for one that is turned off.
    module: Option<Module>,
}

impl Modules {
    /// Loads them, but for those that are turned off. Call before the process has other threads, and before it may no longer open
    /// files: a module opens its own when it begins.
    ///
    /// `note` gets the number of each before it begins, and `None` after the last one: whatever one of them does to the process,
    /// it was noted before.
    ///
    /// # Errors
    /// Which module cannot be used, and why.
    pub fn load(
        confined: &Confined,
        config: &Config,
        off: &[usize],
        note: impl Fn(Option<u16>),
    ) -> Result<Modules, String> {
        let of = |(number, spec): (usize, &ModuleSpec)| {
            let module = match off.contains(&number) {
                true => None,
                false => {
                    note(Some(number as u16));
                    Some(load(confined, spec, number as u16)?)
                }
            };
            Ok(Entry { name: spec.name(), module })
        };
        let all = config.modules().into_iter().enumerate().map(of).collect::<Result<_, String>>()?;
        note(None);
        Ok(Modules { all })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has them start what they want to have in a confined process. `note` as for [`Modules::load`].
    ///
    /// # Errors
    /// Which module cannot, and why.
    pub fn start(&self, note: impl Fn(Option<u16>)) -> Result<(), String> {
        for (number, entry) in self.all.iter().enumerate() {
            let Some(module) = &entry.module else { continue };
            note(Some(number as u16));
            module.start().map_err(|why| format!("module {}: {why}", entry.name))?;
        }
        note(None);
        Ok(())
    }

    /// The module of this number; `None` if it is turned off.
    #[inline]
    pub fn get(&self, number: u16) -> Option<&Module> {
        self.all.get(usize::from(number))?.module.as_ref()
    }

    /// How messages call it.
    pub fn name(&self, number: u16) -> &str {
        self.all.get(usize::from(number)).map_or("?", |entry| &entry.name)
    }
}

/// Loads one, if root and the account that starts the server alone can decide what it is.
///
/// # Errors
/// Why it cannot be used, with its name.
pub fn load(confined: &Confined, spec: &ModuleSpec, number: u16) -> Result<Module, String> {
    let path = spec.path.display().to_string();
    // dlopen(3) names the library itself in what it says.
    let named = |why: String| {
        let rest = why.strip_prefix(&path).and_then(|rest| rest.strip_prefix(": "));
        format!("module {path}: {}", rest.unwrap_or(&why))
    };
    trusted::check(&spec.path, confined.owner).map_err(|why| match why {
        Distrust::Unseen(at, error) if at == spec.path => {
            named(format!("cannot open shared object file: {error}"))
        }
        why => named(why.to_string()),
    })?;
    let before = threads();
    let module = Module::open(&spec.path, &spec.config, number).map_err(named)?;
    if threads() > before {
        // Landlock and seccomp bind the thread that asks for them, and those that it starts.
        return Err(named(
            "its `init` has started a thread, which would not be confined: `start` is for that".into(),
        ));
    }
    Ok(module)
}

/// Threads of this process; 0 where that cannot be read.
fn threads() -> usize {
    std::fs::read_dir(Path::new("/proc/self/task")).map_or(0, Iterator::count)
}
