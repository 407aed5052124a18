//! Artefacts are the same each time, and other programs can read them.

use std::path::Path;
use std::process::Command;

use super::{Artefacts, Release, pack, write};

fn artefacts() -> Artefacts {
    // Tests run in the directory of their package; what is packed is named from the root.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let release = Release { version: "1.2.3".into(), architecture: "x86_64".into(), time: 1_700_000_000 };
    pack(&release, b"#!/bin/sh\nexit 0\n").unwrap()
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let (first, second) = (artefacts(), artefacts());
    assert_eq!(first.len(), 4);
    for ((name, one), (_, other)) in first.iter().zip(&second) {
        assert!(one == other, "{name} differs");
    }
}

#[test]
fn sums_and_archives_are_read_by_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &artefacts()).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    run("sha256sum", &["--check", "SHA256SUMS"]);
    let listed = run("tar", &["-tvzf", "maitred-1.2.3-x86_64-linux.tar.gz"]);
    assert!(listed.contains("-rwxr-xr-x root/root"), "{listed}");
    assert!(listed.contains("maitred-1.2.3-x86_64-linux/usr/bin/maitred"), "{listed}");
    assert_eq!(
        run("tar", &["-xOf", "maitred-1.2.3-amd64.oci.tar", "oci-layout"]),
        r#"{"imageLayoutVersion":"1.0.0"}"#
    );
}
