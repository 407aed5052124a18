//! Debian's package. The format is three members of an `ar` archive (deb(5)), so that no tool of Debian is needed to write it,
//! and nothing of this machine gets into it.

use std::fmt::Write as _;

use md5::{Digest as _, Md5};

use crate::Result;
use crate::dist::calendar::rfc5322;
use crate::dist::elf::Libc;
use crate::dist::tree::{Release, Tree, gzip};

/// Revision of the package for one version of Maitred.
const REVISION: u32 = 1;
/// A publisher of packages has to put an address here at which mail is read. The domain `invalid` has no owner (RFC 2606).
const MAINTAINER: &str = "Maitred developers <maitred@maitred.invalid>";
/// What an operator may change, and an update keeps.
const CONFFILES: &str = "/etc/logrotate.d/maitred\n/etc/maitred/maitred.toml\n";

/// The file's name and content. `tree` has what every package installs.
pub(crate) fn pack(release: &Release, tree: &Tree, libc: Libc) -> Result<(String, Vec<u8>)> {
    let architecture = match release.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("{other}: Debian's name of this architecture is not known here").into()),
    };
    let version = format!("{}-{REVISION}", release.version);
    let mut tree = tree.clone();
    let changelog = include_str!("../../../../pkg/debian/changelog").replace("@VERSION@", &version);
    let changelog = changelog.replace("@DATE@", &rfc5322(release.time));
    let changelog = changelog.replace("@MAINTAINER@", MAINTAINER);
    tree.file("usr/share/doc/maitred/changelog.Debian.gz", 0o644, gzip(changelog.as_bytes())?);
    tree.file("usr/share/doc/maitred/copyright", 0o644, include_str!("../../../../pkg/debian/copyright"));
    let mut overrides = include_str!("../../../../pkg/debian/lintian-overrides").to_owned();
    let libraries = match libc {
        Libc::Static => {
            overrides += include_str!("../../../../pkg/debian/lintian-overrides.static");
            String::new()
        }
        Libc::Glibc(minor) => format!("libc6 (>= 2.{minor}), libgcc-s1, "),
    };
    tree.file("usr/share/lintian/overrides/maitred", 0o644, overrides);
    let control = control(&version, architecture, &libraries, &tree).tar(release, "./")?;
    let data = tree.tar(release, "./")?;
    let mut package = b"!<arch>\n".to_vec();
    member(&mut package, release, "debian-binary", b"2.0\n");
    member(&mut package, release, "control.tar.gz", &gzip(&control)?);
    member(&mut package, release, "data.tar.gz", &gzip(&data)?);
    Ok((format!("maitred_{version}_{architecture}.deb"), package))
}

fn control(version: &str, architecture: &str, libraries: &str, tree: &Tree) -> Tree {
    let (mut sums, mut kilobytes) = (String::new(), 0);
    for (path, _, content) in tree.files() {
        let sum: String = Md5::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        _ = writeln!(sums, "{sum}  {path}");
        kilobytes += content.len().div_ceil(1024);
    }
    let text = include_str!("../../../../pkg/debian/control")
        .replace("@VERSION@", version)
        .replace("@MAINTAINER@", MAINTAINER)
        .replace("@LIBRARIES@", libraries)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@KILOBYTES@", &kilobytes.to_string());
    let mut control = Tree::default();
    control.file("control", 0o644, text);
    control.file("conffiles", 0o644, CONFFILES);
    control.file("md5sums", 0o644, sums);
    control.file("postinst", 0o755, include_str!("../../../../pkg/debian/postinst"));
    control.file("prerm", 0o755, include_str!("../../../../pkg/debian/prerm"));
    control.file("postrm", 0o755, include_str!("../../../../pkg/debian/postrm"));
    control
}

/// One member of an `ar` archive; its content begins at even offsets.
fn member(archive: &mut Vec<u8>, release: &Release, name: &str, content: &[u8]) {
    let header =
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", release.time, 0, 0, "100644", content.len());
    archive.extend(header.as_bytes());
    archive.extend(content);
    if content.len() % 2 == 1 {
        archive.push(b'\n');
    }
}
