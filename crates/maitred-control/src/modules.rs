//! In-process modules, as a process has them: loaded once, called by all of its threads. Which there are, and their numbers, is
//! in [`Config::modules`]; what they may ask of the server is in `worker::modules`.

use std::path::Path;

use maitred_sys::module::host::Module;

use maitred_config::{Config, ModuleSpec};

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
    /// Loads them, but for those that are turned off. Call before the process has other threads, and before it is confined: a
    /// module opens its files when it begins.
    ///
    /// `note` gets the number of each before it begins, and `None` after the last one: whatever one of them does to the process,
    /// it was noted before.
    ///
    /// # Errors
    /// Which module cannot be used, and why.
    pub fn load(config: &Config, off: &[usize], note: impl Fn(Option<u16>)) -> Result<Modules, String> {
        let of = |(number, spec): (usize, &ModuleSpec)| {
            let module = match off.contains(&number) {
                true => None,
                false => {
                    note(Some(number as u16));
                    Some(load(spec, number as u16)?)
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

    /// One of them; `None` if it is turned off.
    #[inline]
    pub fn get(&self, number: u16) -> Option<&Module> {
        self.all.get(usize::from(number))?.module.as_ref()
    }

    /// How messages call it.
    pub fn name(&self, number: u16) -> &str {
        self.all.get(usize::from(number)).map_or("?", |entry| &entry.name)
    }
}

/// Loads one.
///
/// # Errors
/// Why it cannot be used, with its name.
pub fn load(spec: &ModuleSpec, number: u16) -> Result<Module, String> {
    let path = spec.path.display().to_string();
    // dlopen(3) names the library itself in what it says.
    let named = |why: String| {
        let rest = why.strip_prefix(&path).and_then(|rest| rest.strip_prefix(": "));
        format!("module {path}: {}", rest.unwrap_or(&why))
    };
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
