//! Artefacts are the same each time, and other programs can read them.

use std::path::Path;
use std::process::Command;

use super::elf::Libc;
use super::{Artefacts, Contents, Release, compare, components, container, oci, pack, write};
use xtask::root;
use xtask::skips::{Kind, skip};
use xtask::test_packages::has_program;

const BINARY: &[u8] = b"#!/bin/sh\nexit 0\n";

fn release() -> Release {
    Release { version: "1.2.3".into(), architecture: "x86_64".into(), time: 1_700_000_000 }
}

/// With an image that has no real certificates, since this machine need not have any.
fn artefacts() -> Artefacts {
    let linked = components::linked(root(), "x86_64").unwrap();
    let contents = Contents { libc: Libc::Glibc(34), bytes: BINARY.to_vec() };
    let mut artefacts = pack(root(), &release(), &linked, [&contents, &contents]).unwrap();
    let container = container(root(), BINARY, "MIT", &root().join("LICENSE-MIT")).unwrap();
    artefacts.push(oci::pack(&release(), &container).unwrap());
    artefacts
}

/// Whether these programs are there; if one is not, that is said.
fn can(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !has_program(program));
    if let Some(program) = missing {
        skip(Kind::Missing, test, &format!("there is no {program} (Debian: rpm, skopeo)"));
    }
    missing.is_none()
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    if !can("packing twice", &["rpmbuild"]) {
        return;
    }
    let mut first = artefacts();
    assert_eq!(first.len(), 5);
    compare(&first, &artefacts()).unwrap();
    first[1].1.push(0);
    assert!(compare(&first, &artefacts()).unwrap_err().to_string().contains("_amd64.deb: "));
    first.pop();
    assert!(compare(&first, &artefacts()).is_err());
}

#[test]
fn an_image_needs_certificates() {
    let error = container(root(), BINARY, "MIT", Path::new("/no such file")).unwrap_err().to_string();
    assert!(error.contains("/no such file") && error.contains("ca-certificates"), "{error}");
}

#[test]
fn sums_and_archives_are_read_by_other_programs() {
    if !can("artefacts and other programs", &["rpmbuild", "rpm", "skopeo"]) {
        return;
    }
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
    assert!(listed.contains("maitred-1.2.3-x86_64-linux/LICENSE-MIT"), "{listed}");
    assert!(listed.contains("usr/share/doc/maitred/THIRD-PARTY-LICENSES"), "{listed}");
    let listed = run("rpm", &["-qplv", "maitred-1.2.3-1.x86_64.rpm"]);
    for text in ["THIRD-PARTY-LICENSES", "LICENSE-MIT", "LICENSE-APACHE"] {
        assert!(listed.contains(&format!("/usr/share/doc/maitred/{text}")), "{listed}");
    }
    let configuration = run("rpm", &["-qpc", "maitred-1.2.3-1.x86_64.rpm"]);
    assert!(configuration.contains("/etc/maitred/maitred.toml"), "{configuration}");
    let image = run("skopeo", &["inspect", "--config", "oci-archive:maitred-1.2.3-amd64.oci.tar"]);
    assert!(image.contains("65532:65532") && image.contains("/usr/bin/maitred"), "{image}");
    assert_eq!(
        run("tar", &["-xOf", "maitred-1.2.3-amd64.oci.tar", "oci-layout"]),
        r#"{"imageLayoutVersion":"1.0.0"}"#
    );
}
