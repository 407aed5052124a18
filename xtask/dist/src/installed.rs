//! The packages of languages, installed from what this build makes, and used as their users do: `installed.py` beside `src`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dist::{crates, npm, wheel};
use xtask::Result;
use xtask::step::step;

/// Which executable, and where its packages go.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The executable in the packages, as it is; otherwise the debug build, without its symbols
    #[arg(long, value_name = "FILE")]
    executable: Option<PathBuf>,
    /// Where the packages are written
    #[arg(long, value_name = "DIR", default_value = "target/packages")]
    output: PathBuf,
}

/// Makes them, and uses them.
pub(crate) fn run(target: &Path, arguments: &Arguments) -> Result<()> {
    let output = &arguments.output;
    std::fs::create_dir_all(output)?;
    let executable = match &arguments.executable {
        Some(executable) => executable.clone(),
        None => {
            xtask::test::built()?;
            stripped(&target.join("debug/maitred"), &output.join("maitred"))?
        }
    };
    let licenses = crate::dist::licenses()?;
    let library = xtask::test_python::native()?;
    let wheel = wheel::build(&executable, Some(&library), &licenses, output)?;
    println!("{}", wheel.display());
    let packages = npm::build(&executable, &licenses, output)?;
    packages.iter().for_each(|package| println!("{}", package.display()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("installed.py");
    let mut python = Command::new("python3");
    python.arg(script).env("MAITRED_WHEEL", std::path::absolute(wheel)?);
    python.env("MAITRED_NPM", std::env::join_paths(packages)?);
    step("installed packages of Python and Node.js", &mut python)?;
    crates::check()
}

fn stripped(from: &Path, to: &Path) -> Result<PathBuf> {
    let mut strip = Command::new("strip");
    step("strip", strip.arg("-o").arg(to).arg(from))?;
    Ok(to.to_owned())
}
