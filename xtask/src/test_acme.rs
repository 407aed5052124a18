//! Pebble, an authority of ACME for tests that is written in Go.

use std::path::{Path, PathBuf};

use crate::test_go::Programs;

/// Installs Pebble under the target directory, and returns where; or says why not.
pub(crate) fn install(target: &Path) -> Option<PathBuf> {
    let pebble = Programs {
        name: "Pebble",
        tests: "ACME with Pebble",
        version: "v2.10.1",
        packages: &[
            "github.com/letsencrypt/pebble/v2/cmd/pebble",
            "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
        ],
    };
    pebble.install(&target.join("go"))
}
