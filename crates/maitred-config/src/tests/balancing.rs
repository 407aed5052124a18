//! Several servers of a pool.

use std::time::Duration;

use super::meaning::EVERYTHING;
use super::*;

fn pool(lines: &str) -> String {
    format!("{START}[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"app\"\n[pool.app]\n{lines}\n")
}

#[test]
fn a_table_in_connect_says_more_of_a_server() {
    let old = good(EVERYTHING).pools.into_iter().find(|pool| pool.name == "old").unwrap().balancing;
    let settings = ServerSettings { weight: 3, backup: true, max_connections: Some(9) };
    let outliers = Outliers { errors: 4, time: Duration::from_secs(10), time_max: Duration::from_secs(60) };
    let expected = Balancing {
        balance: Balance::Hash,
        hash_key: HashKey::Cookie("client".into()),
        slow_start: Duration::from_secs(30),
        panic_percent: 40,
        outliers: Some(outliers),
        sticky: old.sticky.clone(),
        servers: vec![ServerSettings::default(), settings],
    };
    assert_eq!(old.sticky.as_ref().map(|sticky| sticky.name.as_str()), Some("old-server"));
    assert_eq!(old, expected);
    let plain = good(&pool("connect = [\"http://127.0.0.1:1\", { url = \"http://127.0.0.1:2\" }]"));
    let expected = Balancing { servers: vec![ServerSettings::default(); 2], ..Balancing::default() };
    assert_eq!(plain.pools[0].balancing, expected);
    assert_eq!(plain.pools[0].source.servers().map(<[_]>::len), Some(2));
}

#[test]
fn checks_have_a_question_and_rules() {
    let pools = good(EVERYTHING).pools;
    let of = |name: &str| pools.iter().find(|pool| pool.name == name).unwrap().health.clone().unwrap();
    let expected = Health {
        question: Question::Http {
            method: "OPTIONS".into(),
            path: "/up?a".into(),
            host: Some("up.internal".into()),
            statuses: vec![(200, 200), (300, 302)],
            contains: "fine".into(),
        },
        port: Some(9001),
        interval: Duration::from_secs(7),
        timeout: Duration::from_secs(1),
        healthy_after: 4,
        unhealthy_after: 5,
    };
    assert_eq!(of("old"), expected);
    assert_eq!(of("secure").question, Question::Grpc { service: "shop".into() });
    let plain = |url: &str| {
        good(&pool(&format!("connect = \"{url}\"\nhealth = {{}}"))).pools[0].health.clone().unwrap()
    };
    let http = plain("http://127.0.0.1:1");
    assert_eq!((http.interval, http.timeout), (Duration::from_secs(5), Duration::from_secs(2)));
    assert_eq!((http.healthy_after, http.unhealthy_after), (2, 3));
    let question = Question::Http {
        method: "GET".into(),
        path: "/".into(),
        host: None,
        statuses: vec![(200, 399)],
        contains: String::new(),
    };
    assert_eq!((http.question, plain("fastcgi://127.0.0.1:1").question), (question, Question::Tcp));
}

#[test]
fn what_is_wrong_about_checks_is_said_where_it_stands() {
    let one = |url: &str, health: &str| {
        brief(&pool(&format!("connect = \"{url}\"\nhealth = {{ {health} }}")))[0].clone()
    };
    let http = "http://127.0.0.1:1";
    assert!(one("fastcgi://127.0.0.1:1", "kind = \"http\"").contains("FastCGI applications are checked"));
    assert!(one("http+unix:/run/a.sock", "port = 1").contains("have Unix sockets, and no ports"));
    assert!(one(http, "method = \"HEAD\", body_contains = \"x\"").contains("a response to HEAD has no body"));
    let long = format!("body_contains = \"{}\"", "a".repeat(Health::CONTAINS_BYTES_MAX + 1));
    assert!(one(http, &long).contains("more than 1024 bytes"));
    assert!(one(http, "kind = \"grpc\"").contains("do not speak HTTP/2"));
    assert!(one(http, "path = \"up\"").contains("nothing to ask for"));
    assert!(one(http, "path = \"/a b\"").contains("nothing to ask for"));
    assert!(one(http, "host = \"a b\"").contains("not a host"));
    for wrong in ["ok", "99", "600", "300-200", "2xx", ""] {
        assert!(one(http, &format!("statuses = \"{wrong}\"")).contains("is no status"), "{wrong}");
    }
    let grpc = format!("kind = \"grpc\", service = \"{}\"", "s".repeat(256));
    assert!(one("h2://127.0.0.1:1", &grpc).contains("not the name of a service"));
    let warns = |lines: &str| {
        let (_, warnings) = read_as(&pool(lines), false).unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        one_line(&warnings[0].0)
    };
    assert!(warns("command = [\"sh\"]\nhealth = {}").contains("`health` has no effect"));
    let tcp = "connect = \"http://127.0.0.1:1\"\nhealth = { kind = \"tcp\", path = \"/up\" }";
    assert!(warns(tcp).contains("`path` has no effect"));
}

#[test]
fn what_a_request_is_hashed_by() {
    let key = |key: &str| {
        let text =
            pool(&format!("connect = \"http://127.0.0.1:1\"\nbalance = \"hash\"\nhash_key = \"{key}\""));
        good(&text).pools[0].balancing.hash_key.clone()
    };
    assert_eq!([key("client"), key("uri")], [HashKey::Client, HashKey::Uri]);
    assert_eq!(key("header:X-User"), HashKey::Header("x-user".into()));
    assert_eq!(key("query:id"), HashKey::Query("id".into()));
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    let one = |lines: &str| brief(&pool(lines))[0].clone();
    assert!(one("connect = [{ weight = 3 }]").contains("`url`"));
    assert!(one("connect = [{ url = \"http://127.0.0.1:1\", weight = 0 }]").contains("`weight`"));
    assert!(one("connect = [{ url = \"http://127.0.0.1:1\", wait = 0 }]").contains("unknown key `wait`"));
    assert!(one("connect = [7]").contains("expected strings and tables"));
    assert!(one("connect = [{ url = \"ftp://127.0.0.1:1\" }]").contains("no address of a server"));
    let hash = "connect = \"http://127.0.0.1:1\"\nbalance = \"hash\"\n";
    assert!(one(&format!("{hash}hash_key = \"host\"")).contains("nothing to hash"));
    assert!(one(&format!("{hash}hash_key = \"cookie:\"")).contains("nothing to hash"));
    let warns = |lines: &str| {
        let (_, warnings) = read_as(&pool(lines), false).unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        one_line(&warnings[0].0)
    };
    assert!(warns("command = [\"sh\"]\nbalance = \"hash\"").contains("`balance` has no effect"));
    assert!(
        warns("connect = \"http://127.0.0.1:1\"\nhash_key = \"uri\"").contains("`hash_key` has no effect")
    );
    let backups = "connect = [{ url = \"http://127.0.0.1:1\", backup = true }]";
    assert!(warns(backups).contains("all servers are backups"));
    let named = "connect = [{ url = \"http://localhost:1\", weight = 3 }]\nresolve = true";
    assert!(warns(named).contains("what is said of http://localhost:1 has no effect"));
}

#[test]
fn the_examples_of_the_page_are_good() {
    let manual = include_str!("../../../../docs/balancing.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 7);
    let mut read: Vec<Config> = examples.into_iter().map(good).collect();
    let queue = &read.remove(1).pools[0];
    assert_eq!((queue.queue_max, queue.queue_timeout), (200, Duration::from_secs(10)));
    assert_eq!(read[0].pools[0].balancing.servers[0].weight, 3);
    assert_eq!(read[1].pools[0].balancing.balance, Balance::Hash);
    assert!(read[2].pools[0].health.is_some());
    assert!(read[3].pools[0].balancing.sticky.is_some());
    assert_eq!(read[4].pools[0].balancing.outliers.as_ref().map(|rule| rule.errors), Some(5));
    assert_eq!(read[5].pools[0].external.retry.statuses, [502, 503]);
}
