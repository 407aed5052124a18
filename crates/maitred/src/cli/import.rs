//! `maitred import`: the configuration goes to standard output, the table to standard error.

use std::io::Write as _;
use std::process::ExitCode;

use super::beside;
use super::exit::{Error, Exit};
use super::{Foreign, Import};
use maitred_import as import;

/// Imports the files.
pub fn run(arguments: &Import) -> ExitCode {
    let root = arguments.root.as_deref();
    let imported = match arguments.server {
        Foreign::Nginx => import::nginx(&arguments.files, root),
        Foreign::Unit => import::unit(&arguments.files),
        Foreign::Caddy => import::caddy(&arguments.files, root),
        Foreign::Apache => {
            import::apache(&arguments.files, root, &arguments.defined, arguments.php_fpm.as_deref())
        }
    };
    match imported {
        Ok(imported) => {
            let _ = std::io::stdout().write_all(imported.text.as_bytes());
            let _ = std::io::stderr().write_all(imported.report.table().as_bytes());
            let compared = arguments.compare.then(|| beside_nginx(arguments)).transpose();
            let text = compared.as_ref().ok().and_then(Option::as_ref).map(|found| found.text.as_str());
            if let Some(path) = &arguments.report
                && let Err(why) = std::fs::write(path, imported.page(text))
            {
                let why = format!("cannot write {}: {why}", path.display());
                return Error::failed(why, "name a file in a directory that is there").report();
            }
            let found = match compared {
                Ok(found) => found,
                Err(error) => return error.report(),
            };
            let _ = found.iter().try_for_each(|found| std::io::stderr().write_all(found.text.as_bytes()));
            let exit = match imported.report.verdict() {
                import::Verdict::Same if found.is_some_and(|found| found.differs) => Exit::Worse,
                import::Verdict::Same => Exit::Done,
                import::Verdict::Worse => Exit::Worse,
                import::Verdict::Incomplete => Exit::Usage,
            };
            exit.into()
        }
        Err(why) => Error::failed(why, "name a file of that server, or a part of one").report(),
    }
}

fn beside_nginx(arguments: &Import) -> Result<beside::Found, Error> {
    match arguments.server {
        Foreign::Nginx => beside::compare(&arguments.files, arguments.root.as_deref()),
        _ => Err(Error::usage(
            "--compare is for configurations of nginx",
            "run `maitred-load compare` on both servers",
        )),
    }
}
