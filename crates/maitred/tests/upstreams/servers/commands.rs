//! `maitred upstream`, and the same by the admin address.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::servers::{Server, listed, says, setup};
use crate::support::eventually;
use crate::support::framed::{self, field};
use crate::support::load::SetOnDrop;
use crate::support::upstream::Upstream;

#[track_caller]
fn done(server: &Server, arguments: &[&str]) -> String {
    let (status, said) = server.command(&[&["upstream", "app"], arguments].concat());
    assert!(status.success(), "{said}");
    said
}

#[test]
fn what_was_commanded_stays_over_a_reload_and_an_upgrade_until_a_reset() {
    let (one, two) = (says("one"), says("two"));
    let (first, second) = (one.address().to_string(), two.address().to_string());
    let server = setup(&format!("connect = \"{}\"", one.name())).start_copy();
    assert_eq!(server.connect().get("/x").text(), "one");
    assert_eq!(listed(&server), [format!("{first} 1 active configuration")]);

    done(&server, &["add", &second, "5", "--backup"]);
    done(&server, &["drain", &first]);
    let changed = [format!("{first} 1 draining configuration"), format!("{second} 5 active command backup")];
    assert_eq!(listed(&server), changed);
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(listed(&server), changed, "after a reload");
    eventually("the executable is replaced", || {
        let (status, said) = server.command(&["upgrade"]);
        assert!(status.success() || said.contains("try again"), "{said}");
        status.success()
    });
    eventually("the new image answers", || server.status()["master"]["upgrades"] == 1);
    assert_eq!(listed(&server), changed, "after an upgrade");

    done(&server, &["weight", &second, "7"]);
    done(&server, &["remove", &first]);
    assert_eq!(listed(&server), [format!("{second} 7 active command backup")]);
    let table = done(&server, &["list"]);
    assert!(table.contains(&format!("{second}  7       backup, active  command")), "{table}");
    assert!(table.contains(&format!("removed by command: {first}")), "{table}");
    done(&server, &["reset"]);
    assert_eq!(listed(&server), [format!("{first} 1 active configuration")]);
    assert_eq!(server.connect().get("/x").text(), "one");
    server.stop();
}

#[test]
fn what_cannot_be_is_said_and_changes_nothing() {
    let one = says("one");
    let server = setup(&format!("connect = \"{}\"", one.name())).start();
    let refused = |arguments: &[&str]| {
        let (status, said) = server.command(&[&["upstream"], arguments].concat());
        assert!(!status.success(), "{said}");
        said
    };
    assert!(refused(&["other", "list"]).contains("there is no pool other; with servers there is: app"));
    assert!(refused(&["app", "drain", "192.0.2.1:80"]).contains("pool app has no server 192.0.2.1:80"));
    assert!(refused(&["app", "weight", "192.0.2.1:80"]).contains("the weight is missing"));
    let ask = |line: &str| server.admin(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let answer = ask("POST /upstreams/app/add?address=example.com:80");
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(ask("DELETE /upstreams/app").status, 405);
    assert_eq!(ask("GET /upstreams/app").need("content-type"), "application/json");
    assert_eq!(listed(&server).len(), 1);
    server.stop();
}

#[test]
fn requests_follow_the_commands_and_none_is_lost() {
    let (one, two) = (says("one"), says("two"));
    let (first, second) = (one.address().to_string(), two.address().to_string());
    let server = setup(&format!("connect = \"{}\"", one.name())).start();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(SeqCst) {
                let answer = server.connect().get("/x");
                assert!(["one", "two"].contains(&answer.text()), "{}: {}", answer.status, answer.text());
                asked += 1;
            }
            asked
        });
        let _ends = SetOnDrop(&over);
        let follows = |text: &str| {
            eventually("requests follow", || (0..8).all(|_| server.connect().get("/x").text() == text));
        };
        done(&server, &["add", &second]);
        done(&server, &["drain", &first]);
        follows("two");
        done(&server, &["add", &first]);
        done(&server, &["remove", &second]);
        follows("one");
        done(&server, &["reset"]);
        over.store(true, SeqCst);
        assert!(clients.join().unwrap() > 0);
    });
    server.stop();
}

/// `host = "server"`: also one that is not of the configuration.
#[test]
fn servers_that_were_added_are_told_their_own_names() {
    let one = || {
        Upstream::start(|peer| {
            loop {
                let asked = peer.request()?;
                peer.answer(asked.field("host").unwrap())?;
            }
        })
    };
    let two = || {
        framed::start(&[], |far| {
            loop {
                let (id, fields, _) = far.request()?;
                far.answer(id, field(&fields, ":authority").unwrap())?;
            }
        })
    };
    for (scheme, first, second) in [("http", one(), one()), ("h2", two(), two())] {
        let (first, second) = (first.address().to_string(), second.address().to_string());
        let server = setup(&format!("connect = \"{scheme}://{first}\"\nhost = \"server\"")).start();
        assert_eq!(server.connect().get("/x").text(), first);
        done(&server, &["add", &second]);
        done(&server, &["remove", &first]);
        eventually("the other one is asked", || {
            let said = server.connect().get("/x").text().to_owned();
            assert!([&first, &second].contains(&&said), "{said}");
            said == second
        });
        server.stop();
    }
}
