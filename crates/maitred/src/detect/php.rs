//! Applications of PHP, which php-fpm runs.

use std::path::{Path, PathBuf};

use super::place::Place;
use super::{Application, Kind};

/// Where Debian's php-fpm has its sockets.
pub const FPM_SOCKETS: &str = "/run/php";
/// Debian's name of the socket that its alternatives keep.
const FPM_SOCKET: &str = "/run/php/php-fpm.sock";

/// The application whose index.php is in the first of these directories that has one.
pub fn application(
    name: &'static str,
    seen: &str,
    place: Place<'_>,
    roots: &[&str],
    socket: Option<&Path>,
) -> Option<Application> {
    let root = roots.iter().copied().find(|root| place.path(root).join("index.php").is_file())?;
    let socket = socket.unwrap_or(Path::new(FPM_SOCKET)).to_owned();
    Some(Application::new(name, seen, Kind::Php { root: root.to_owned(), socket }))
}

/// The sockets of php-fpm in a directory such as `/run/php`; the one without a version first, then the newest.
pub fn fpm_socket(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_fpm = |path: &PathBuf| path.to_string_lossy().ends_with("fpm.sock");
    let mut found: Vec<PathBuf> = entries.filter(is_fpm).collect();
    found.sort();
    let plain = dir.join("php-fpm.sock");
    if found.contains(&plain) { Some(plain) } else { found.pop() }
}
