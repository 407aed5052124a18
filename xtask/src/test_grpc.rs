//! Programs of others for the tests of gRPC: the client and the server of its interop cases, which are written in Go, and
//! Connect's client for browsers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skips::{Kind, skip};
use crate::step::step;
use crate::test_go::Programs;

/// Installs them under the target directory, and returns where; or says why not.
pub fn install(target: &Path) -> Option<PathBuf> {
    let interop = Programs {
        name: "grpc-go",
        tests: "the interop cases of gRPC",
        version: "v1.75.0",
        packages: &["google.golang.org/grpc/interop/client", "google.golang.org/grpc/interop/server"],
    };
    interop.install(&target.join("grpc-go"))
}

/// Packages of Node.js.
const WEB: [&str; 3] =
    ["@connectrpc/connect@2.2.0", "@connectrpc/connect-web@2.2.0", "@bufbuild/protobuf@2.17.0"];

/// Installs the client for browsers under the target directory, and returns where its packages are; or says why not.
pub(crate) fn install_web(target: &Path) -> Option<PathBuf> {
    let directory = std::path::absolute(target.join("grpc-web")).ok()?;
    let (note, wanted) = (directory.join("versions"), WEB.join(" "));
    if std::fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
        return Some(directory);
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&directory).args(WEB);
    let made = std::fs::create_dir_all(&directory).map_err(Into::into);
    let installed = made
        .and_then(|()| step("Connect's client for gRPC-Web", &mut npm))
        .and_then(|()| Ok(std::fs::write(&note, wanted)?));
    match installed {
        Ok(()) => Some(directory),
        Err(why) => {
            skip(Kind::Missing, "gRPC-Web", &format!("Connect's client cannot be installed ({why})"));
            None
        }
    }
}
