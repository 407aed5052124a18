use proptest::prelude::*;

use super::*;
use maitred_config::{self as config, Identity, Lookup, Origin};

/// No accounts, and every directory.
struct Machine;

impl Lookup for Machine {
    fn user(&self, _: &str) -> std::io::Result<Option<Identity>> {
        Ok(None)
    }

    fn is_root(&self) -> bool {
        false
    }

    fn directory(&self, _: &std::path::Path) -> std::io::Result<()> {
        Ok(())
    }
}

fn config(text: &str) -> Config {
    let origin = Origin { name: "test.toml".into(), base: "/".into() };
    config::read(text, &origin, &Machine).unwrap().0
}

fn pool(servers: &str) -> Pool {
    let text = format!(
        "[[listen]]\naddress = \":8080\"\n[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"a\"\n[pool.a]\nconnect = [{servers}]\n"
    );
    config(&text).pools.remove(0)
}

fn address(number: u8) -> Address {
    format!("192.0.2.{number}:80").parse().unwrap()
}

fn shown(endpoints: &Endpoints, pool: &Pool) -> Vec<String> {
    let show = |(server, from): (ServerEntry, From)| {
        let state = if server.state == ServerState::Draining { " drains" } else { "" };
        let last = server.address.to_string();
        format!("{} ×{} {from:?}{state}", last.trim_start_matches("192.0.2."), server.weight)
    };
    endpoints.servers(pool).unwrap().into_iter().map(show).collect()
}

fn add(number: u8) -> UpstreamCommand {
    UpstreamCommand::Add { address: address(number), weight: None, backup: false }
}

#[test]
fn commands_change_what_the_configuration_says_until_a_reset() {
    let pool = pool("\"http://192.0.2.1\", \"http://192.0.2.2\"");
    let mut endpoints = Endpoints::default();
    let at_first = ["1:80 ×1 Configuration", "2:80 ×1 Configuration"];
    assert_eq!(shown(&endpoints, &pool), at_first);
    endpoints.command(&pool, add(3)).unwrap();
    endpoints.command(&pool, UpstreamCommand::Drain(address(1))).unwrap();
    endpoints.command(&pool, UpstreamCommand::Weight(address(3), 9)).unwrap();
    endpoints.command(&pool, UpstreamCommand::Remove(address(2))).unwrap();
    assert_eq!(shown(&endpoints, &pool), ["1:80 ×1 Configuration drains", "3:80 ×9 Command"]);
    // What was drained or removed comes back as it was.
    endpoints.command(&pool, add(1)).unwrap();
    endpoints.command(&pool, add(2)).unwrap();
    endpoints.command(&pool, add(2)).unwrap();
    endpoints.command(&pool, UpstreamCommand::Remove(address(3))).unwrap();
    assert_eq!(shown(&endpoints, &pool), at_first);
    endpoints.command(&pool, UpstreamCommand::Drain(address(1))).unwrap();
    endpoints.command(&pool, UpstreamCommand::Reset).unwrap();
    assert_eq!(shown(&endpoints, &pool), at_first);
    assert_eq!(endpoints, Endpoints::default(), "nothing is left");
    for unknown in [
        UpstreamCommand::Drain(address(9)),
        UpstreamCommand::Remove(address(9)),
        UpstreamCommand::Weight(address(9), 1),
    ] {
        assert_eq!(endpoints.command(&pool, unknown).unwrap_err(), "pool a has no server 192.0.2.9:80");
    }
}

#[test]
fn commands_are_kept_for_the_pools_of_a_configuration_and_for_the_next_image() {
    let pool = pool("\"http://192.0.2.1\"");
    let mut endpoints = Endpoints::default();
    endpoints.command(&pool, add(3)).unwrap();
    let next: Endpoints = serde_json::from_value(serde_json::to_value(&endpoints).unwrap()).unwrap();
    assert_eq!(next, endpoints);
    let text = "[[listen]]\naddress = \":8080\"\n[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"NAME\"\n[pool.NAME]\nconnect = \"http://192.0.2.1\"\n";
    let config = |name: &str| config(&text.replace("NAME", name));
    endpoints.retain([config("a"), config("b")].iter());
    assert_eq!(shown(&endpoints, &pool).len(), 2);
    endpoints.retain([config("b")].iter());
    assert_eq!(shown(&endpoints, &pool).len(), 1);
}

#[test]
fn a_pool_has_no_more_servers_than_the_bound() {
    let pool = pool("\"http://192.0.2.1\"");
    let mut endpoints = Endpoints::default();
    let address =
        |number: usize| -> Address { format!("10.0.{}.{}:80", number / 256, number % 256).parse().unwrap() };
    let add = |number| UpstreamCommand::Add { address: address(number), weight: None, backup: false };
    for number in 1..SERVERS_MAX {
        endpoints.command(&pool, add(number)).unwrap();
    }
    assert!(endpoints.command(&pool, add(SERVERS_MAX)).unwrap_err().contains("256 servers"));
    assert!(endpoints.command(&pool, add(1)).is_ok(), "it is there");
    assert_eq!(endpoints.list(&pool).unwrap().servers.len(), SERVERS_MAX);
}

fn command() -> impl Strategy<Value = UpstreamCommand> {
    let one = || (1_u8..6).prop_map(address);
    prop_oneof![
        (one(), proptest::option::of(1_u16..1000), any::<bool>())
            .prop_map(|(address, weight, backup)| UpstreamCommand::Add { address, weight, backup }),
        one().prop_map(UpstreamCommand::Drain),
        one().prop_map(UpstreamCommand::Remove),
        (one(), 1_u16..1000).prop_map(|(address, weight)| UpstreamCommand::Weight(address, weight)),
    ]
}

proptest! {
    #[test]
    fn after_any_commands_a_list_is_sound_and_a_reset_undoes_them(commands in prop::collection::vec(command(), 0..40)) {
        let pool = pool("\"http://192.0.2.1\", \"http://192.0.2.2\"");
        let mut endpoints = Endpoints::default();
        let (at_first, mut revision) = (endpoints.servers(&pool), 0);
        for command in commands {
            let (before, done) = (endpoints.clone(), endpoints.command(&pool, command.clone()));
            if done.is_err() {
                prop_assert_eq!(&before, &endpoints);
            }
            let list = endpoints.list(&pool).unwrap();
            prop_assert!(list.revision > revision);
            revision = list.revision;
            let mut addresses: Vec<String> = list.servers.iter().map(|one| one.address.to_string()).collect();
            addresses.sort();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), list.servers.len(), "each address once");
            let find = |address: &Address| list.servers.iter().find(|one| one.address == *address);
            match command {
                UpstreamCommand::Add { address, .. } => {
                    prop_assert_eq!(find(&address).map(|one| one.state), Some(ServerState::Active));
                }
                UpstreamCommand::Drain(address) => {
                    prop_assert!(find(&address).is_none_or(|one| one.state == ServerState::Draining));
                }
                UpstreamCommand::Remove(address) => prop_assert!(find(&address).is_none()),
                UpstreamCommand::Weight(address, weight) => {
                    prop_assert!(find(&address).is_none_or(|one| one.weight == weight));
                }
                _ => {}
            }
            prop_assert!(serde_json::to_string(&list).is_ok());
        }
        endpoints.command(&pool, UpstreamCommand::Reset).unwrap();
        prop_assert_eq!(endpoints.servers(&pool), at_first);
    }
}

fn discovering() -> Pool {
    let mut pool = pool("\"http://192.0.2.1\", \"http+srv://_http._tcp.app.test\"");
    let query = Query { host: "app.test".to_owned(), srv: false };
    let first = vec![Found::plain("192.0.2.4".parse().unwrap())];
    pool.discovery.names.push(Name { query, port: 80, authority: "app.test".to_owned(), first });
    pool.discovery.file = Some("/servers.json".into());
    pool
}

#[test]
fn all_sources_are_one_list_and_each_is_kept_until_it_says_something_else() {
    let pool = discovering();
    let mut endpoints = Endpoints::default();
    assert_eq!(
        shown(&endpoints, &pool),
        ["1:80 ×1 Configuration", "4:80 ×1 Name"],
        "what was found at the load"
    );
    let [service, name] = pool.discovery.names.as_slice() else { panic!("two names") };
    let found = |ip: &str, port, target: &str| Found {
        port,
        target: target.to_owned(),
        weight: 5,
        ..Found::plain(ip.parse().unwrap())
    };
    let services = vec![found("192.0.2.5", 81, "five.test"), found("192.0.2.1", 80, "one.test")];
    assert!(endpoints.resolved(&service.query, services.clone()));
    assert!(!endpoints.resolved(&service.query, services), "no news");
    assert!(endpoints.resolved(&name.query, vec![found("192.0.2.6", 0, "")]));
    let plain = ServerEntry::plain(address(7), "seven.test".to_owned());
    assert!(endpoints.read(Path::new("/servers.json"), vec![plain.clone()]));
    assert!(!endpoints.read(Path::new("/servers.json"), vec![plain]), "no news");
    assert!(endpoints.read(Path::new("/others.json"), vec![ServerEntry::plain(address(8), String::new())]));
    let all = ["1:80 ×1 Configuration", "5:81 ×5 Name", "6:80 ×5 Name", "7:80 ×1 File"];
    assert_eq!(shown(&endpoints, &pool), all);
    let names: Vec<String> = endpoints.list(&pool).unwrap().servers.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["192.0.2.1", "five.test:81", "app.test", "seven.test"]);
    // Nothing, and what is out of bounds, take nothing away.
    assert!(!endpoints.resolved(&name.query, Vec::new()));
    assert!(!endpoints.resolved(&name.query, vec![Found { weight: 0, ..found("192.0.2.9", 0, "") }]));
    assert_eq!(shown(&endpoints, &pool), all);
    // Commands are about servers of all sources.
    endpoints.command(&pool, UpstreamCommand::Drain(address(6))).unwrap();
    endpoints.command(&pool, UpstreamCommand::Remove(address(7))).unwrap();
    assert_eq!(shown(&endpoints, &pool)[2..], ["6:80 ×5 Name drains"]);
}

#[test]
fn what_checks_find_is_in_the_list_while_the_server_is() {
    let plain = pool("\"http://192.0.2.1\", \"http://192.0.2.2\"");
    let pool = Pool { health: plain_health(), ..plain.clone() };
    let mut endpoints = Endpoints::default();
    let unwell = |endpoints: &Endpoints, pool: &Pool| -> Vec<bool> {
        endpoints.servers(pool).unwrap().into_iter().map(|(server, _)| server.unwell).collect()
    };
    let why = || Some("it answers with 500".to_owned());
    assert!(!endpoints.checked(&pool, &address(1), None), "no news");
    assert!(endpoints.checked(&pool, &address(2), why()) && !endpoints.checked(&pool, &address(2), why()));
    assert!(!endpoints.checked(&pool, &address(9), why()), "it has gone");
    assert_eq!(unwell(&endpoints, &pool), [false, true]);
    assert_eq!(
        unwell(&endpoints, &plain),
        [false, false],
        "a configuration without checks does not believe them"
    );
    let shown = endpoints.shown(&pool).unwrap();
    assert_eq!(
        (&shown["servers"][1]["health"], &shown["servers"][1]["why"]),
        (&json!("unwell"), &json!("it answers with 500"))
    );
    assert_eq!(
        (&shown["servers"][0]["health"], &shown["servers"][0]["unwell"]),
        (&json!("well"), &Value::Null)
    );
    // An upgrade keeps it.
    let text = serde_json::to_vec(&endpoints).unwrap();
    assert_eq!(serde_json::from_slice::<Endpoints>(&text).unwrap(), endpoints);
    // A server that goes and comes back is as if it were new.
    endpoints.command(&pool, UpstreamCommand::Remove(address(2))).unwrap();
    endpoints.forget_gone(&pool);
    endpoints.command(&pool, add(2)).unwrap();
    assert_eq!(unwell(&endpoints, &pool), [false, false]);
    assert!(endpoints.checked(&pool, &address(1), why()) && endpoints.checked(&pool, &address(1), None));
    assert_eq!(unwell(&endpoints, &pool), [false, false]);
}

fn plain_health() -> Option<maitred_config::Health> {
    let text = "[[listen]]\naddress = \":8080\"\n[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"a\"\n\
                [pool.a]\nconnect = \"http://192.0.2.1\"\nhealth = {}\n";
    config(text).pools.remove(0).health
}
