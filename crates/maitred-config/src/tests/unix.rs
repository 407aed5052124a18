//! `address = "unix:/path"`.

use super::*;

fn listening(address: &str, keys: &str) -> String {
    format!("[[listen]]\naddress = {address}\n{keys}[[site]]\nroot = \"www\"\n")
}

#[test]
fn a_unix_socket_has_one_queue_and_a_file() {
    let config = good(&listening("[\":80\", \"unix:../x/./y.sock\"]", "buckets = 4\nsteer_by_cpu = true\n"));
    let [inet, unix] = &config.listens[..] else { panic!("{:?}", config.listens) };
    assert_eq!((inet.buckets, inet.steer_by_cpu), (Buckets::Number(4), true));
    assert_eq!((unix.buckets, unix.steer_by_cpu), (Buckets::Number(1), false));
    assert_eq!(unix.address, Address::Unix("/etc/maitred/../x/y.sock".into()));
    assert_eq!(unix.unix_file, UnixFile { mode: 0o660, owner: None, group: None });
    assert!(!config.server.trusted_proxies.trusts(None));
}

#[test]
fn an_address_that_is_none_is_explained() {
    for (address, why) in [
        ("unix:", "write the path of a file after \"unix:\", such as \"unix:/run/maitred/http.sock\""),
        ("unix:/run/", "write the path of a file after \"unix:\", such as \"unix:/run/maitred/http.sock\""),
        (
            "unix:@web",
            "an abstract socket has no permissions, so that every account of the machine could connect: write the path of a file",
        ),
        ("/run/x.sock", "write \"unix:/run/x.sock\" for a socket file"),
        ("unix//run/x.sock", "write \"unix:/run/x.sock\" for a socket file"),
    ] {
        let found = brief(&listening(&format!("\"{address}\""), ""));
        assert_eq!(found, [format!("2:11 `address`: \"{address}\" is not an address to listen on | {why}")]);
    }
    let long = "x".repeat(100);
    assert_eq!(
        brief(&listening(&format!("\"unix:{long}\""), "")),
        [format!(
            "2:11 `address`: the path of a socket has at most 107 bytes, and this one 113 | it is /etc/maitred/{long}: choose \
             another one, such as one in /run"
        )]
    );
    good(&listening(&format!("\"unix:{}\"", &long[..94]), ""));
}

#[test]
fn who_may_connect_is_checked() {
    let keys = "unix_mode = \"rw\"\nunix_user = \"none\"\nunix_group = \"nogroup\"\n";
    assert_eq!(
        brief(&listening("\"unix:x\"", keys)),
        [
            "3:13 `unix_mode` does not take \"rw\" | it takes three octal digits, with or without a 0 before them, such as \"0660\"",
            "4:13 `unix_user`: there is no account \"none\" on this machine | `getent passwd` lists them",
            "5:14 `unix_group`: there is no group \"nogroup\" on this machine | `getent group` lists them",
        ]
    );
    for mode in ["1660", "66", "0668", "+660"] {
        assert!(
            brief(&listening("\"unix:x\"", &format!("unix_mode = \"{mode}\"\n")))[0].contains("`unix_mode`")
        );
    }
}

#[test]
fn an_address_is_listed_once() {
    let twice = brief(&listening("[\"unix:x\", \"unix:./x\"]", ""));
    assert!(twice[0].contains("the address unix:/etc/maitred/x is listed twice"), "{twice:?}");
    let admin = brief(&format!("{}[server]\nadmin = \"unix:x\"\n", listening("\"unix:x\"", "")));
    assert_eq!(admin, ["6:9 `admin` is an address of [[listen]], too | give it a socket of its own"]);
    let pool =
        brief(&format!("{}[pool.a]\ncommand = [\"x\"]\nlisten = \"unix:y\"\n", listening("\":1\"", "")));
    assert!(pool[0].contains("a pool takes an IP address and a port"), "{pool:?}");
}

#[test]
fn keys_without_an_effect_are_named() {
    let warnings = |text: &str| {
        let (_, warnings) = read_as(text, true).unwrap();
        warnings
            .iter()
            .map(|warning| one_line(&warning.0))
            .filter(|line| line.contains("has no effect"))
            .count()
    };
    assert_eq!(
        warnings(&listening("\"unix:x\"", "buckets = 2\ndefer_accept = false\nsteer_by_cpu = true\n")),
        3
    );
    assert_eq!(warnings(&listening("\":1\"", "unix_mode = \"0600\"\nunix_group = \"www-data\"\n")), 2);
    assert_eq!(warnings(&listening("[\":1\", \"unix:x\"]", "buckets = 2\nunix_mode = \"0600\"\n")), 0);
}
