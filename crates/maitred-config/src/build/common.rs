//! Values that several tables have: paths, accounts, networks, times.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::finding::{At, Context};
use super::super::identity::Identity;
use super::super::meaning::Network;
use super::super::networks;
use super::super::reader::{Section, shorten};

/// A time that has no default.
pub(super) fn given_time(section: &Section<'_>, name: &str) -> Option<Duration> {
    section.given(name).map(|_| section.time(name))
}

/// IP networks, and lists of them.
pub(super) fn networks(section: &Section<'_>, name: &str) -> Vec<Network> {
    section.texts(name).iter().flat_map(|item| networks::resolve(section.cx, name, item)).collect()
}

/// A path that may not exist yet; a relative one starts at the configuration file.
pub(super) fn path(section: &Section<'_>, name: &str) -> Option<PathBuf> {
    let text = section.text(name)?;
    check_path(section.cx, name, &text).then(|| section.cx.base(&text.span).join(&text.value))
}

/// A directory that exists.
pub(super) fn directory(section: &Section<'_>, name: &str) -> Option<At<PathBuf>> {
    let text = section.text(name)?;
    let value = directory_at(section, name, &text)?;
    Some(At { value, span: text.span })
}

/// A directory that exists, as a value of a table.
pub(super) fn directory_at(section: &Section<'_>, name: &str, text: &At<String>) -> Option<PathBuf> {
    if !check_path(section.cx, name, text) {
        return None;
    }
    let resolved = normal(&section.cx.base(&text.span).join(&text.value));
    if let Err(error) = section.cx.lookup.directory(&resolved) {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such directory".into(),
            io::ErrorKind::NotADirectory => "this is not a directory".into(),
            io::ErrorKind::PermissionDenied => "it may not be read: permission denied".into(),
            _ => error.to_string(),
        };
        let message = format!("`{name}`: {why}: {}", shorten_path(&resolved));
        match Path::new(&text.value).is_absolute() {
            true => section.cx.error(&text.span, message),
            false => section.cx.error_with(
                &text.span,
                message,
                "a relative path starts at the directory of the configuration file",
            ),
        }
    }
    Some(resolved)
}

fn shorten_path(path: &Path) -> String {
    path.display().to_string().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Without `.` components; `..` stays, because what it leads to depends on symbolic links.
pub(super) fn normal(path: &Path) -> PathBuf {
    path.components().collect()
}

fn check_path(cx: &Context<'_>, name: &str, text: &At<String>) -> bool {
    let usable = !text.value.is_empty() && !text.value.contains('\0');
    if !usable {
        cx.error(&text.span, format!("`{name}`: this is not a path"));
    }
    usable
}

/// The account that a key names.
pub(super) fn user(section: &Section<'_>) -> Option<Identity> {
    let name = section.text("user")?;
    let cx = section.cx;
    let found = match cx.lookup.user(&name.value) {
        Ok(found) => found,
        Err(error) => {
            cx.error(&name.span, format!("`user`: account \"{}\": {error}", shorten(&name.value)));
            return None;
        }
    };
    if found.is_none() {
        let message = format!("`user`: there is no account \"{}\" on this machine", shorten(&name.value));
        cx.error_with(&name.span, message, "`getent passwd` lists the accounts");
    } else if !cx.lookup.is_root() {
        cx.warn(
            &name.span,
            "`user` has no effect",
            "only root can change to another user, and this is not root",
        );
    }
    found
}

/// A limit that cannot be above another. Said at the one that is given; a smaller bound alone pulls the default of the
/// other down with it, so that only what was written can be wrong.
pub(super) fn not_above(section: &Section<'_>, (small, value): (&str, u64), (large, bound): (&str, u64)) {
    if value <= bound {
        return;
    }
    let (Some(span), Some(other)) = (
        section.given(small).or_else(|| section.given(large)),
        section.given(large).or_else(|| section.given(small)),
    ) else {
        return;
    };
    let message = format!("`{small}` is above `{large}`");
    match span == other {
        true => section.cx.error_with(&span, message, format!("set `{small}` and `{large}` together")),
        false => section.cx.conflict(&span, message, &format!("`{large}` is set here"), &other),
    }
}
