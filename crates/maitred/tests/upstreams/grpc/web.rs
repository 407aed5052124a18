//! `grpc_web` with the client that browsers use: Connect's, over the `fetch` of Node. `MAITRED_GRPC_WEB` names the directory of
//! its packages, and `MAITRED_GRPC_INTEROP` that of the server; without them nothing is tested here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::grpc::interop::{Far, programs};
use crate::support::{Setup, skip_missing};

#[test]
fn calls_of_a_browser_pass() {
    let Some(packages) = std::env::var_os("MAITRED_GRPC_WEB").map(PathBuf::from) else {
        return skip_missing(
            "MAITRED_GRPC_WEB is not set; `cargo xtask test` installs Connect's client and sets it",
        );
    };
    let Some(programs) = programs() else { return };
    let far = Far::start(&programs, &[]);
    let setup = Setup::new();
    let gone = setup.directory.path().join("none").display().to_string();
    let server = setup
        .route("/gone/*", "pool = \"gone\"\ngrpc_web = true")
        .route("/*", "pool = \"app\"\ngrpc_web = true")
        .table(&format!("[pool.app]\nconnect = \"h2://127.0.0.1:{}\"\n", far.port()))
        .table(&format!("[pool.gone]\nconnect = \"h2+unix:{gone}\"\n"))
        .start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/grpc/web.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(packages).arg(format!("http://{}", server.address));
    let output = node.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"done\n", "{said}");
    server.stop();
}
