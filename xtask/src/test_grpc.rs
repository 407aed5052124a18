//! The client and the server of gRPC's interop cases, which are written in Go.

use std::path::{Path, PathBuf};

use crate::test_go::Programs;

/// Installs them under the target directory, and returns where; or says why not.
pub(crate) fn install(target: &Path) -> Option<PathBuf> {
    let interop = Programs {
        name: "grpc-go",
        tests: "the interop cases of gRPC",
        version: "v1.75.0",
        packages: &["google.golang.org/grpc/interop/client", "google.golang.org/grpc/interop/server"],
    };
    interop.install(&target.join("grpc-go"))
}
