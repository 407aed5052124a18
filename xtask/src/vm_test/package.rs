//! Two packages of one executable: `first.deb`, and `second.deb` with a higher version. They are made from `pkg/`, or are a
//! package that was made elsewhere, of which the second one differs in its version only.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::test_vm::kernels::run;

const CONTROL: &str = "Package: maitred\nArchitecture: amd64\nMaintainer: Maitred <root@localhost>\n\
                       Description: web server\nVersion: ";
const CONFIGURATION: &str = "[server]\nadmin = \"unix:/run/maitred/admin.sock\"\n\n[[listen]]\naddress = \"127.0.0.1:80\"\n\n\
                             [[site]]\nroot = \"/srv/site\"\n";
/// A running server goes over to the new executable by itself; another failure of that leaves the old one at work.
const POSTINST: &str = "#!/bin/sh\nset -e\nsystemd-sysusers maitred.conf\nsystemd-tmpfiles --create maitred.conf\n\
                        systemctl daemon-reload\nif systemctl --quiet is-active maitred.service; then\n\
                        \tmaitred upgrade -c /etc/maitred/maitred.toml\nfi\n";
const PRERM: &str =
    "#!/bin/sh\nset -e\nif [ \"$1\" = remove ]; then systemctl disable --now maitred.service; fi\n";
/// Debian's policy lets accounts stay: files of theirs may be left elsewhere.
const POSTRM: &str = "#!/bin/sh\nset -e\nif [ \"$1\" = purge ]; then rm -rf /var/lib/maitred /var/log/maitred /etc/maitred; fi\n\
                      systemctl daemon-reload\n";

/// Returns both.
pub(crate) fn make(target: &Path, programs: &[PathBuf], deb: Option<&Path>) -> Result<Vec<PathBuf>> {
    let directory = target.join("vm/debs");
    let _ = fs::remove_dir_all(&directory);
    let tree = directory.join("tree");
    fs::create_dir_all(&directory)?;
    match deb {
        Some(deb) => {
            run("dpkg-deb", Command::new("dpkg-deb").arg("-R").arg(deb).arg(&tree))?;
        }
        None => stage(&tree, programs)?,
    }
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let version =
        text.lines().find_map(|line| line.strip_prefix("Version: ")).ok_or("a package without a version")?;
    let mut made = Vec::new();
    for (name, version) in [("first.deb", version.to_owned()), ("second.deb", format!("{version}+later"))] {
        let lines = text.lines().map(|line| match line.starts_with("Version: ") {
            true => format!("Version: {version}\n"),
            false => format!("{line}\n"),
        });
        fs::write(&control, lines.collect::<String>())?;
        let path = directory.join(name);
        let mut build = Command::new("dpkg-deb");
        build.args(["--build", "--root-owner-group", "-Zgzip", "-z1"]).arg(&tree).arg(&path);
        run("dpkg-deb", &mut build)?;
        made.push(path);
    }
    fs::remove_dir_all(&tree)?;
    Ok(made)
}

fn stage(tree: &Path, programs: &[PathBuf]) -> Result<()> {
    let version = format!("{CONTROL}{}\n", env!("CARGO_PKG_VERSION"));
    let texts = [
        ("DEBIAN/control", version.as_str(), 0o644),
        ("DEBIAN/conffiles", "/etc/maitred/maitred.toml\n", 0o644),
        ("DEBIAN/postinst", POSTINST, 0o755),
        ("DEBIAN/prerm", PRERM, 0o755),
        ("DEBIAN/postrm", POSTRM, 0o755),
        ("etc/maitred/maitred.toml", CONFIGURATION, 0o644),
        ("usr/lib/systemd/system/maitred.service", include_str!("../../../pkg/maitred.service"), 0o644),
        ("usr/lib/sysusers.d/maitred.conf", include_str!("../../../pkg/maitred.sysusers"), 0o644),
        ("usr/lib/tmpfiles.d/maitred.conf", include_str!("../../../pkg/maitred.tmpfiles"), 0o644),
    ];
    for (name, text, mode) in texts {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap_or(tree))?;
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    let server =
        programs.iter().find(|program| program.ends_with("maitred")).ok_or("the server was not built")?;
    fs::create_dir_all(tree.join("usr/bin"))?;
    fs::copy(server, tree.join("usr/bin/maitred"))?;
    Ok(())
}
