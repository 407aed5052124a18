//! `env_inherit`

use super::super::reader::{Section, shorten};

/// What the server sets by itself, or keeps to itself: the words of a service manager, and its own to its processes.
const OWN: [&str; 9] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "MAITRED_CHANNEL",
    "MAITRED_RECOVERY",
    "MAITRED_UPGRADE",
];

/// `env_inherit`
pub(in super::super) fn env_inherit(section: &Section<'_>) -> Vec<String> {
    let texts = section.texts("env_inherit");
    for text in &texts {
        let name = text.value.strip_suffix('*').unwrap_or(&text.value);
        let message = |why: &str| format!("`env_inherit`: \"{}\" {why}", shorten(&text.value));
        if text.value.is_empty() || name.contains(['=', '\0', '*']) {
            let hint =
                "write a name, or the beginning of names and a star at the end: \"DATABASE_URL\", \"AWS_*\"";
            section.cx.error_with(&text.span, message("is no name of variables"), hint);
        } else if OWN.contains(&text.value.as_str()) {
            let hint = "it is for the server alone; what an application is to have of it stands in `env`";
            section.cx.error_with(&text.span, message("is not passed on"), hint);
        }
    }
    texts.into_iter().map(|text| text.value).collect()
}
