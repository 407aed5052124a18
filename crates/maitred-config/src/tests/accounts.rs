//! Which process runs as which account.

use super::*;

const COMPLETE: &str = "[[listen]]\naddress = \":8080\"\n[[site]]\nroot = \"www\"\n";
const SITE: &str =
    "[[site.route]]\npath = \"/w/*\"\npool = \"web\"\n[[site.route]]\npath = \"/b/*\"\npool = \"b\"\n";

fn with(server: &str, web: &str, b: &str) -> String {
    format!(
        "{COMPLETE}{SITE}[pool.web]\ncommand = [\"app\"]\n{web}\n[pool.b]\ncommand = [\"app\"]\n{b}\n[server]\n{server}\n"
    )
}

fn said(text: &str, root: bool) -> String {
    match read_as(text, root) {
        Ok((_, warnings)) => warnings.iter().map(ToString::to_string).collect(),
        Err(errors) => errors.to_string(),
    }
}

/// Both pools by one line each, and nothing else.
#[test]
fn an_ordinary_site_takes_one_line() {
    let (config, warnings) = read_as(&with("", "user = \"www-data\"", "user = \"app\""), true).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.server.user.unwrap().uid, 990);
    assert_eq!(
        config.pools.iter().map(|pool| pool.user.as_ref().unwrap().uid).collect::<Vec<_>>(),
        [33, 1001]
    );
}

#[test]
fn root_without_an_account_for_the_worker_process_is_refused() {
    let refused =
        read(COMPLETE, &origin(), &Machine { root: true, packaged: false }).unwrap_err().to_string();
    assert!(refused.contains("there is no `maitred`") && refused.contains("useradd --system"), "{refused}");
    assert!(refused.contains("share_user = true"), "{refused}");
    let unprivileged = read(COMPLETE, &origin(), &Machine { root: false, packaged: false });
    assert!(unprivileged.is_ok_and(|(config, warnings)| config.server.user.is_none() && warnings.is_empty()));
}

#[test]
fn root_is_an_account_for_those_who_say_so() {
    let (config, warnings) = read_as(&format!("{COMPLETE}[server]\nuser = \"root\"\n"), true).unwrap();
    assert_eq!((config.server.user.unwrap().uid, warnings.len()), (0, 1));
    assert!(warnings[0].to_string().contains("the worker process runs as root"), "{}", warnings[0]);
    let shared = said(&with("share_user = true", "", ""), true);
    assert!(shared.contains("all processes run as root"), "{shared}");
    assert_eq!(said(&with("share_user = true", "", ""), false), "");
}

#[test]
fn a_pool_shares_no_account_unless_told_so() {
    let text = with("", "user = \"app\"", "");
    assert!(said(&text, true).contains("error: [pool.b] has no `user`"), "{}", said(&text, true));
    assert!(said(&text, false).contains("an error when root starts the server"), "{}", said(&text, false));
    let text = with("user = \"app\"", "user = \"app\"", "user = \"www-data\"");
    for root in [true, false] {
        assert!(
            said(&text, root).contains("\"app\" is the account of the worker process"),
            "{}",
            said(&text, root)
        );
    }
    let text = with("user = \"app\"\nshare_user = true", "user = \"app\"", "");
    assert_eq!(said(&text, true), "");
    // No account is named: this configuration is not meant for root.
    assert_eq!(said(&with("", "", ""), false), "");
}

#[test]
fn a_pool_without_processes_of_its_own_needs_no_account() {
    let text = format!(
        "{COMPLETE}[[site.route]]\npath = \"/*\"\npool = \"web\"\n[pool.web]\nconnect = \"http://127.0.0.1:1\"\n"
    );
    assert_eq!(said(&text, true), "");
}

#[test]
fn an_isolated_pool_shares_no_account_at_all() {
    let apart = "user = \"app\"\nisolate = true";
    assert_eq!(said(&with("", apart, "user = \"www-data\""), true), "");
    for (server, web, b) in [
        ("", apart, "user = \"app\""),
        ("user = \"app\"\nshare_user = true", apart, "user = \"www-data\""),
        ("user = \"app\"\nshare_user = true", "isolate = true", "user = \"www-data\""),
    ] {
        for root in [true, false] {
            let said = said(&with(server, web, b), root);
            assert!(said.contains("error: `isolate`: [pool.web] has the account of"), "{said}");
        }
    }
    let root = said(&with("share_user = true", "isolate = true", ""), true);
    assert!(root.contains("error: `isolate`"), "{root}");
    let without = said(&with("", "isolate = true", ""), false);
    assert!(without.contains("warning: `isolate` does not keep [pool.web] from the memory of"), "{without}");
}
