//! Which accounts the processes have, and which they share.

use super::super::acme::Acme;
use super::super::finding::{At, Span};
use super::super::identity::Identity;
use super::super::meaning::{Pool, Server, Source};
use super::super::reader::Section;

/// The account of the worker process where none is named, and the master is root.
pub(in super::super) const DEFAULT_USER: &str = "maitred";

/// The account of the process for certificates, if there is such an account.
const AGENT_USER: &str = "maitred-acme";

/// Processes that Maitred starts, and their account.
struct Group<'a> {
    /// How messages call it.
    label: &'a str,
    span: Span,
    /// `None` is that of the master.
    user: Option<&'a Identity>,
}

impl Group<'_> {
    fn shares(&self, other: &Group<'_>) -> bool {
        self.user.map(|user| user.uid) == other.user.map(|user| user.uid)
    }
}

/// Fills in what was not named, and judges the whole. Without root all processes have one account, whatever the file says; what
/// would be an error for root is a warning then, in a file that names accounts.
pub(super) fn assign(
    root: &Section<'_>,
    section: &Section<'_>,
    named: &[(At<String>, Section<'_>)],
    server: &mut Server,
    pools: &[Pool],
) {
    of_server(root, section, server);
    let own = |pool: &Pool| matches!(pool.source, Source::Command(_) | Source::Listen { .. });
    let all: Vec<_> = named.iter().zip(pools).filter(|(_, pool)| own(pool)).collect();
    let names_accounts = section.given("user").is_some() || pools.iter().any(|pool| pool.user.is_some());
    for ((name, section), pool) in &all {
        if !server.share_user {
            separate_from_server(name, section, pool, server, names_accounts);
        }
    }
    let mut groups = vec![Group {
        label: "the worker process",
        span: section.given("user").unwrap_or_else(|| section.span.clone()),
        user: server.user.as_ref(),
    }];
    groups.extend(all.iter().map(|((name, section), pool)| Group {
        label: section.label.as_str(),
        span: section.given("user").unwrap_or_else(|| name.span.clone()),
        user: pool.user.as_ref().or(server.user.as_ref()),
    }));
    for (number, ((_, section), _)) in (1..).zip(&all).filter(|(_, (_, pool))| pool.isolate) {
        isolated(section, number, &groups);
    }
}

/// The account of the process for certificates.
pub(super) fn of_agent(root: &Section<'_>, acme: &mut Acme, server: &Server, pools: &[Pool]) {
    let (cx, span) = (root.cx, root.key_span("acme").unwrap_or(0..0));
    if acme.user.is_none() && cx.lookup.is_root() && !server.share_user {
        acme.user = cx.lookup.user(AGENT_USER).unwrap_or_default();
        if acme.user.is_none() {
            let message = "the process for certificates stays root, without capabilities";
            let hint = format!(
                "make the account {AGENT_USER} (useradd --system --no-create-home --shell /usr/sbin/nologin {AGENT_USER}), or \
                 set `user` in [acme]"
            );
            cx.warn(&span, message, hint);
        }
    }
    let others = pools.iter().filter_map(|pool| pool.user.as_ref()).chain(&server.user);
    let Some(user) = acme.user.as_ref().filter(|_| !server.share_user) else { return };
    if others.into_iter().any(|other| other.uid == user.uid) {
        let message =
            format!("`user` of [acme]: \"{}\" is the account of the worker process or of a pool", user.name);
        cx.error_with(&span, message, "give it one of its own, or set share_user = true in [server]");
    }
}

/// The account of the worker process.
fn of_server(root: &Section<'_>, section: &Section<'_>, server: &mut Server) {
    let cx = section.cx;
    if !cx.lookup.is_root() {
        return;
    }
    match (&server.user, section.given("user")) {
        (Some(user), Some(span)) if user.uid == 0 => {
            cx.warn(&span, "the worker process runs as root", "name an account without privileges");
        }
        (Some(_), _) | (None, Some(_)) => {}
        (None, None) if server.share_user => {
            if let Some(span) = section.given("share_user") {
                let hint = "name an account without privileges: user = \"…\"";
                cx.warn(&span, "all processes run as root, who starts this server", hint);
            }
        }
        (None, None) => {
            server.user = cx.lookup.user(DEFAULT_USER).unwrap_or_default();
            if server.user.is_none() {
                let span = root.key_span("server").unwrap_or(0..0);
                cx.missing(
                    &span,
                    format!("started as root, the worker process needs an account: there is no `{DEFAULT_USER}`"),
                    format!(
                        "make it (useradd --system --no-create-home --shell /usr/sbin/nologin {DEFAULT_USER}), or set `user` in \
                         [server]; share_user = true has everything run as root"
                    ),
                );
            }
        }
    }
}

/// The processes of a pool have another account than the worker process.
fn separate_from_server(
    name: &At<String>,
    section: &Section<'_>,
    pool: &Pool,
    server: &Server,
    names_accounts: bool,
) {
    let cx = section.cx;
    match (&pool.user, section.given("user")) {
        (None, Some(_)) => {}
        (None, None) => {
            let message = format!(
                "{} has no `user`, and the worker process shares its account with no pool",
                section.label
            );
            let hint = "add user = \"…\" to it, or share_user = true to [server]";
            if cx.lookup.is_root() {
                cx.missing(&name.span, message, hint);
            } else if names_accounts {
                cx.warn(&name.span, format!("{message}: an error when root starts the server"), hint);
            }
        }
        (Some(user), span) => {
            if server.user.as_ref().is_some_and(|other| other.uid == user.uid) {
                let span = span.unwrap_or_else(|| name.span.clone());
                let message = format!("`user`: \"{}\" is the account of the worker process", user.name);
                let hint = "give them two accounts, or set share_user = true in [server]";
                cx.error_with(&span, message, hint);
            }
        }
    }
}

/// A pool that is not trusted has an account of its own.
fn isolated(section: &Section<'_>, number: usize, groups: &[Group<'_>]) {
    let (cx, Some(own)) = (section.cx, groups.get(number)) else { return };
    let mut others = groups.iter().enumerate().filter(|(other, _)| *other != number);
    let Some((_, shared)) = others.find(|(_, other)| own.shares(other)) else { return };
    let span = section.given("isolate").unwrap_or_else(|| own.span.clone());
    if cx.lookup.is_root() || own.user.is_some() {
        let message = format!(
            "`isolate`: {} has the account of {}, whose memory it could reach",
            own.label, shared.label
        );
        return cx.conflict(&span, message, "that account is named here", &shared.span);
    }
    cx.warn(
        &span,
        format!("`isolate` does not keep {} from the memory of {}", own.label, shared.label),
        "without root, all processes have one account; start the server as root, and name a `user`",
    );
}
