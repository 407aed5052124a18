//! The main job on real input: the 10,000 requests of a real site's access log are replayed against `maitred run`,
//! a third of them to a Python application, and every status and length is checked against what the site implies
//! (see [`site`]). Skipped where the log is absent.

mod access_log;
mod client;
mod site;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use crate::support::{Client, End, Server, Setup};
use access_log::Entry;
use client::{Answer, exchange};
use site::{APPLICATION, Expected, Site};

/// Clients at the same time; each takes whole sessions, in the order of the log.
const CLIENTS: usize = 8;
/// Open sessions of a client; the one that was used the longest time ago is closed for another.
const SESSIONS_MAX: usize = 32;

#[test]
fn ten_thousand_logged_requests_get_what_the_site_implies() {
    let _machine = crate::the_machine();
    let path = access_log::path();
    let Ok(text) = std::fs::read(&path) else {
        crate::support::skip_here(format_args!(
            "there is no access log at {}; MAITRED_ACCESS_LOG names another",
            path.display()
        ));
        return;
    };
    let text = String::from_utf8_lossy(&text);
    let entries: Vec<Entry> = text.lines().map(|line| access_log::parse(line).expect(line)).collect();
    let site = Site::from_log(&entries);
    let server = start(&site);
    let outcome = replay(server.address, &entries, &site);
    let stopped = server.stop();

    println!(
        "{} requests, {} files, {} pages of the application, {} collisions, {} of unknown length; answers {:?}, {} MB",
        entries.len(),
        site.file_count(),
        site.page_count(),
        site.collisions,
        site.unknown,
        outcome.statuses,
        outcome.body_bytes >> 20
    );
    let shown = outcome.differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        outcome.differences.is_empty(),
        "{} differences, the first:\n{shown}\n\nthe server said:\n{}",
        outcome.differences.len(),
        stopped.said.join("\n")
    );
    assert_eq!(statuses_of_log(&stopped.access), outcome.statuses, "the access log has each request once");
}

/// Makes the site, and serves it with two threads; the pages of the application come from two processes.
fn start(site: &Site) -> Server {
    // A session may rest for as long as all others take.
    let setup = Setup::new().server("threads = 2").limit("keep_alive_timeout = \"10m\"");
    let mut setup = setup.outside("pages.py", include_bytes!("pages.py"));
    let directory = setup.directory.path();
    site.make(&directory.join("root"), &directory.join("pages")).unwrap();
    for prefix in APPLICATION {
        setup = setup.route(&format!("{prefix}*"), "pool = \"pages\"");
    }
    setup.python("pages", "pages:application", "PAGES = \"pages\"", "workers = 2").start()
}

/// What came of a replay.
#[derive(Default)]
struct Outcome {
    statuses: BTreeMap<u16, usize>,
    body_bytes: u64,
    differences: Vec<String>,
}

fn replay(address: SocketAddr, entries: &[Entry], site: &Site) -> Outcome {
    let mut shares: Vec<Vec<&Entry>> = vec![Vec::new(); CLIENTS];
    for entry in entries {
        let mut hasher = DefaultHasher::new();
        entry.client.hash(&mut hasher);
        shares[hasher.finish() as usize % CLIENTS].push(entry);
    }
    let mut sum = Outcome::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            shares.iter().map(|share| scope.spawn(move || replay_share(address, share, site))).collect();
        for client in clients {
            let outcome = client.join().unwrap();
            for (status, count) in outcome.statuses {
                *sum.statuses.entry(status).or_default() += count;
            }
            sum.body_bytes += outcome.body_bytes;
            sum.differences.extend(outcome.differences);
        }
    });
    sum
}

/// Replays the sessions of some clients, one request at a time.
fn replay_share(address: SocketAddr, entries: &[&Entry], site: &Site) -> Outcome {
    let mut outcome = Outcome::default();
    // The session that was used last is at the back.
    let mut sessions: VecDeque<(&str, Client)> = VecDeque::new();
    for entry in entries {
        let expected = site.expect(entry);
        let open = sessions.iter().position(|(client, _)| *client == entry.client);
        let mut connection = match open.and_then(|at| sessions.remove(at)) {
            Some((_, connection)) => connection,
            None => Client::connect(address),
        };
        let differs = |what: &str| format!("{} {}: {what}", entry.method, entry.target);
        let answer = match exchange(&mut connection, entry, &expected) {
            Ok(answer) => answer,
            Err(error) => {
                outcome.differences.push(differs(&error.to_string()));
                continue;
            }
        };
        *outcome.statuses.entry(answer.response.status).or_default() += 1;
        outcome.body_bytes += answer.response.body.len() as u64;
        outcome.differences.extend(compare(entry, &expected, &answer).map(|what| differs(&what)));
        if !answer.keeps {
            if connection.end() != End::Closed {
                outcome.differences.push(differs("the connection was reset"));
            }
            continue;
        }
        if !connection.is_quiet() {
            outcome.differences.push(differs("something came that was not asked for"));
            continue;
        }
        sessions.push_back((&entry.client, connection));
        if sessions.len() > SESSIONS_MAX {
            sessions.pop_front();
        }
    }
    outcome
}

/// In what an answer differs from what it must be.
fn compare(entry: &Entry, expected: &Expected, answer: &Answer) -> Option<String> {
    let status = answer.response.status;
    if status != expected.status {
        return Some(format!("{status} instead of {}", expected.status));
    }
    if expected.length.is_some() && answer.length() != expected.length {
        return Some(format!("length {:?} instead of {:?}", answer.length(), expected.length));
    }
    if !answer.right_body {
        return Some("another body".to_owned());
    }
    if answer.response.field("transfer-encoding").is_some() {
        return Some("a coding that nothing here asks for".to_owned());
    }
    let location = answer.response.field("location");
    let path = |location: &str| location.split('?').next().is_some_and(|path| path.ends_with('/'));
    if expected.status == 301 && !location.is_some_and(path) {
        return Some(format!("Location {location:?}"));
    }
    // Only a 400 ends a connection of HTTP/1.1 that did not ask for it.
    if entry.version == "HTTP/1.1" && !answer.keeps && status != 400 {
        return Some("the connection is not kept".to_owned());
    }
    None
}

fn statuses_of_log(log: &[String]) -> BTreeMap<u16, usize> {
    let mut statuses = BTreeMap::new();
    for line in log {
        let entry = access_log::parse(line).unwrap_or_else(|| panic!("{line:?} in the access log"));
        *statuses.entry(entry.status).or_default() += 1;
    }
    statuses
}
