//! What has to be built for the profiles with dynamic answers: nginx's module, Caddy with its handler; and where Maitred's is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::Bench;
use crate::Result;

/// Maitred's module, which is an example of the crate `maitred-module`. The only place that says so.
pub(super) fn maitred_module(bench: &Bench) -> Result<PathBuf> {
    let library = bench.maitred.with_file_name("examples").join("libarena.so");
    let how = "cargo build --profile dist -p maitred-module --examples makes libarena.so, which is not there";
    if library.exists() { Ok(library) } else { Err(how.into()) }
}

/// Builds nginx's module for the nginx of this system.
pub(super) fn nginx_module(bench: &Bench) -> Result<PathBuf> {
    let scratch = bench.work.join("arena/nginx-module");
    let module = scratch.join("objs/ngx_http_arena_module.so");
    if is_of_this_run(bench, &module) {
        return Ok(module);
    }
    let source = bench.directory.join("arena/nginx");
    let mut command = Command::new(source.join("build.sh"));
    command.arg(&source).arg(&scratch);
    run("nginx's module", &mut command, &bench.work.join("arena/nginx-module.log"))?;
    Ok(module)
}

/// The same for the nginx in another root, and in there: the path is one below that root.
pub(super) fn nginx_module_in(bench: &Bench, root: &Path) -> Result<PathBuf> {
    let module = Path::new("arena/module-build/objs/ngx_http_arena_module.so");
    if !is_of_this_run(bench, &root.join(module)) {
        copy(&bench.directory.join("arena/nginx"), &root.join("arena/module"))?;
        let mut command = Command::new("chroot");
        command.arg(root).args(["/arena/module/build.sh", "/arena/module", "/arena/module-build"]);
        run("nginx's module", &mut command, &bench.work.join("arena/nginx-module-in-root.log"))?;
    }
    Ok(Path::new("/").join(module))
}

/// Builds Caddy with the handler.
pub(in super::super) fn caddy(bench: &Bench) -> Result<PathBuf> {
    let program = bench.work.join("arena/caddy");
    if is_of_this_run(bench, &program) {
        return Ok(program);
    }
    // Go touches nothing that is up to date.
    if program.exists() {
        fs::remove_file(&program)?;
    }
    let mut command = Command::new("go");
    command.arg("build").arg("-o").arg(&program).arg(".").current_dir(bench.directory.join("arena/caddy"));
    run("Caddy (Go 1.26 or newer)", &mut command, &bench.work.join("arena/caddy-build.log"))?;
    Ok(program)
}

fn is_of_this_run(bench: &Bench, file: &Path) -> bool {
    let written = fs::metadata(file).and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| written >= bench.began)
}

/// Runs a build with its output in a file; its last line is the reason if it fails.
pub(in super::super) fn run(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    fs::create_dir_all(log.parent().ok_or("a log without a directory")?)?;
    let output = fs::File::create(log)?;
    command.stdin(std::process::Stdio::null()).stderr(output.try_clone()?).stdout(output);
    let status = command.status().map_err(|error| format!("{what} is not built: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    Err(format!("{what} is not built: {}", text.lines().next_back().unwrap_or_default()).into())
}

/// Copies a directory of files and directories.
pub(in super::super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
