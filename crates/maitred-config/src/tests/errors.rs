use super::*;

#[test]
fn an_unknown_key_is_shown_with_what_was_meant() {
    assert_eq!(
        errors(&format!("{COMPLETE}\n[server]\nthread = 4\n")),
        "\
error: unknown key `thread` in [server]
 --> maitred.toml:5:1
  |
5 | thread = 4
  | ^^^^^^
  = help: did you mean `threads`?

maitred.toml: 1 error
"
    );
}

#[test]
fn a_key_that_resembles_nothing_gets_the_list() {
    assert_eq!(
        brief(&format!("{COMPLETE}\n[[site]]\nroot = \"b\"\nhosts = [\"b\"]\nroute = [{{ colour = 1 }}]\n"))
            .len(),
        1
    );
    assert_eq!(
        brief(&format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nqueue = {{ colour = 1 }}\n")),
        ["5:11 unknown key `colour` in `queue` | the keys here are max, timeout"]
    );
}

#[test]
fn all_errors_are_reported_at_once_and_in_the_order_of_the_file() {
    let text = "[server]\nthreads = \"many\"\ngrace = \"5 weeks\"\n\n[[listen]]\naddress = \":http\"\n\
                \n[[site]]\nroot = \"missing\"\n";
    assert_eq!(
        errors(text),
        "\
error: `threads` does not take \"many\"
 --> maitred.toml:2:11
  |
2 | threads = \"many\"
  |           ^^^^^^
  = help: it takes `\"auto\"` or a whole number, 1 to 256

error: `grace`: \"5 weeks\" is not a time
 --> maitred.toml:3:9
  |
3 | grace = \"5 weeks\"
  |         ^^^^^^^^^
  = help: `weeks` is not a unit of time: \"ms\", \"s\", \"m\" and \"h\" are

error: `address`: \":http\" is not an address to listen on
 --> maitred.toml:6:11
  |
6 | address = \":http\"
  |           ^^^^^^^
  = help: `http` is not a port number

error: `root`: there is no such directory: /etc/maitred/missing
 --> maitred.toml:9:8
  |
9 | root = \"missing\"
  |        ^^^^^^^^^
  = help: a relative path starts at the directory of the configuration file

maitred.toml: 4 errors
"
    );
}

#[test]
fn a_conflict_shows_both_places() {
    let text = format!(
        "{START}[[site]]\nhosts = [\"a.example\"]\nroot = \"a\"\n[[site]]\nhosts = [\"A.example\"]\nroot = \"b\"\n"
    );
    assert_eq!(
        errors(&text),
        "\
error: the host \"A.example\" is named twice
 --> maitred.toml:6:10
  |
6 | hosts = [\"A.example\"]
  |          ^^^^^^^^^^^
  = note: it is first named here
 --> maitred.toml:3:10
  |
3 | hosts = [\"a.example\"]
  |          ^^^^^^^^^^^

maitred.toml: 1 error
"
    );
}

#[test]
fn tabs_long_lines_and_wide_numbers_keep_the_marker_in_place() {
    let filler = "x".repeat(200);
    let text = format!("{COMPLETE}{}[server]\n\tadmin\t= true\nuser = [\"{filler}\", 1]\n", "\n".repeat(10));
    let shown = errors(&text);
    assert!(shown.contains("14 |     admin    = true\n   |                ^^^^\n"), "{shown}");
    let marked: Vec<&str> = shown.lines().filter(|line| line.contains("^^^^^")).collect();
    assert_eq!(marked, [format!("   |        {}", "^".repeat(100))], "{shown}");
}

#[test]
fn wrong_types_are_named_in_plain_words() {
    let text = format!(
        "{COMPLETE}[server]\nthreads = 1.5\nserver_header = \"true\"\nadmin = 9180\ntrusted_proxies = \"::1\"\n\
         grace = [1]\n[limits]\nranges_max = \"16\"\nhead_bytes_max = true\n[log]\naccess = {{}}\n\
         [pool.a]\ncommand = [\"x\", 1]\nenv = {{ A = 1 }}\nqueue = 5\n"
    );
    assert_eq!(
        brief(&text),
        [
            "4:11 `threads`: expected \"auto\" or a whole number, found a number with a fraction | `threads` takes \
             `\"auto\"` or a whole number, 1 to 256",
            "5:17 `server_header`: expected true or false, found a string | write server_header = true, without \
             quotation marks",
            "6:9 `admin`: expected a string, found a whole number | `admin` takes `\"unix:/path\"`, or a loopback \
             address such as `\"127.0.0.1:9180\"`",
            "7:19 `trusted_proxies`: expected an array of strings, found a string | write trusted_proxies = [\"::1\"]",
            "8:9 `grace`: expected a time such as \"5s\", found an array | `grace` takes a time, 0s to 24h",
            "10:14 `ranges_max`: expected a whole number, found a string | write ranges_max = 16, without quotation \
             marks",
            "11:18 `head_bytes_max`: expected a size such as \"16KiB\", found true | `head_bytes_max` takes a size, \
             1KiB to 256KiB",
            "13:10 `access`: expected a string, found a table | `access` takes `\"combined\"`, `\"json\"`, \
             `\"human\"`, `\"off\"`",
            "15:17 `command`: expected strings in this array, found a whole number",
            "16:13 `env`: expected strings as values, found a whole number",
            "17:9 `queue`: expected a table, found a whole number | `queue` takes a table, see `queue`",
        ]
    );
}

#[test]
fn tables_and_lists_of_tables_are_told_apart() {
    assert_eq!(
        brief("[listen]\naddress = \":80\"\n[[site]]\nroot = \"a\"\n"),
        ["1:1 `listen` is a list, and this is a single table | write [[listen]] with two pairs of brackets"]
    );
    assert_eq!(
        brief(&format!("{COMPLETE}[[server]]\nthreads = 1\n")),
        ["3:1 `server`: expected a table, found an array | `server` takes a table, see `[server]`"]
    );
    assert_eq!(
        brief(&format!("{COMPLETE}[pool]\ncommand = \"x\"\n")),
        ["4:11 `pool`: expected a table, found a string | write [pool.NAME], with a name"]
    );
    assert_eq!(brief("listen = [1]\nsite = 2\n").len(), 2);
}

#[test]
fn numbers_out_of_range_say_the_range() {
    let text = format!(
        "{COMPLETE}[server]\nthreads = 0\ngrace = \"25h\"\n[limits]\nhead_bytes_max = \"1GiB\"\nheader_count_max = 129\n\
         ranges_max = -1\nbody_bytes_max = 99999999999999999999999999999999999999999\nhead_timeout = 0\n"
    );
    let brief = brief(&text);
    assert_eq!(brief[0], "4:11 `threads` is out of range | it takes `\"auto\"` or a whole number, 1 to 256");
    assert_eq!(brief[1], "5:9 `grace` is out of range | it takes a time, 0s to 24h");
    assert_eq!(brief[2], "7:18 `head_bytes_max` is out of range | it takes a size, 1KiB to 256KiB");
    assert_eq!(brief[3], "8:20 `header_count_max` is out of range | it takes a whole number, 1 to 128");
    assert_eq!(brief[4], "9:14 `ranges_max` is out of range | it takes a whole number, 1 to 256");
    assert_eq!(brief[6], "11:16 `head_timeout` is out of range | it takes a time, 1ms to 24h");
    assert_eq!(brief.len(), 7, "{brief:#?}");
}

#[test]
fn what_is_missing_is_said_where_it_belongs() {
    assert_eq!(
        brief(""),
        [
            "1:1 there is no [[site]], so that nothing would be served | add [[site]] with root = \"public\"",
            "1:1 there is no [[listen]], so that no client could connect | add [[listen]] with address = \":8080\"",
        ]
    );
    assert_eq!(
        brief("[[listen]]\n[[site]]\n[pool.a]\n"),
        [
            "1:1 [[listen]] has no `address` | `address` takes `\"0.0.0.0:8080\"`, `\"[::1]:8080\"`, `\":8080\"` or `\"unix:/path\"`; or an \
             array of several",
            "2:1 this site has neither `root` nor a route, so that it answers nothing | add root = \"public\", or a \
             [[site.route]]",
            "3:1 [pool.a] has no `command` | `command` takes an array: program and arguments; or set `connect`",
        ]
    );
}

#[test]
fn what_is_no_toml_at_all_is_named_once() {
    assert_eq!(
        brief("server {\n    listen 80;\n}\n"),
        ["1:1 not valid TOML: this is a configuration of nginx | `maitred import nginx FILE` translates it"]
    );
}

#[test]
fn a_misspelt_key_of_another_table_is_found() {
    let found = brief(&format!("{COMPLETE}[limits]\nrequest_timeoot = \"1s\"\n"));
    assert!(
        found[0].starts_with(
            "4:1 unknown key `request_timeoot` in [limits] | did you mean `request_timeout`? It belongs in"
        ),
        "{found:?}"
    );
}

#[test]
fn several_syntax_errors_are_reported_together_and_without_noise() {
    let text = "[server]\nthreads = many\naffinity = 'off\n\n[[listen]]\naddress = \":8080\"\nbaklog = 3\n";
    assert_eq!(
        brief(text),
        [
            "2:11 not valid TOML: string values must be quoted, expected literal string",
            "3:16 not valid TOML: invalid literal string, expected `'`",
            "7:1 unknown key `baklog` in [[listen]] | did you mean `backlog`?",
        ]
    );
    assert_eq!(
        brief("[[listen]]\naddress = [\":8080\"\n[[site]]\nroot = \"a\"\n").len(),
        1,
        "after a bracket that is not closed everything is a guess"
    );
    assert_eq!(
        brief(&format!("{COMPLETE}[server]\nthreads = 1\nthreads = 2\n")),
        ["5:1 not valid TOML: duplicate key"]
    );
}

#[test]
fn single_values_are_checked() {
    let text = format!(
        "{COMPLETE}[server]\naffinity = \"0-\"\nuser = \"nobody-here\"\nadmin = \"0.0.0.0:9180\"\npid_file = \"\"\n\
         trusted_proxies = [\"10.0.0.1/8\"]\n[log]\naccess = \"jsno\"\nlevel = \"debgu\"\n"
    );
    assert_eq!(
        brief(&text),
        [
            "4:12 `affinity` does not take \"0-\" | `` is not a CPU number; it takes \"auto\", \"off\" or a list of \
             CPUs such as \"0-3,8\"",
            "5:8 `user`: there is no account \"nobody-here\" on this machine | `getent passwd` lists the accounts",
            "6:9 `admin` does not take \"0.0.0.0:9180\" | a client of this address controls the server, so that \
             only loopback addresses (127.0.0.1, ::1) are taken",
            "7:12 `pid_file`: this is not a path",
            "8:20 `trusted_proxies`: \"10.0.0.1/8\" is not a network | the network of 8 bits starts at 10.0.0.0: \
             write \"10.0.0.0/8\"",
            "10:10 `access` does not take \"jsno\" | did you mean \"json\"?",
            "11:9 `level`: \"debgu\" is not a level | did you mean \"debug\"?",
        ]
    );
    let long = format!("{COMPLETE}[server]\nadmin = \"unix:/{}\"\n", "x".repeat(107));
    assert!(brief(&long)[0].starts_with("4:9 `admin`: a socket's path has at most 107 bytes"));
}

#[test]
fn pools_are_checked() {
    let text = format!(
        "{COMPLETE}[pool.\"a b\"]\ncommand = []\nworkers = {{ start = 5, min_spare = 6, max = 4 }}\ncwd = \"/file\"\n\
         env = {{ \"A=\" = \"1\" }}\ntransport = \"rely\"\nmount = \"app/\"\n[pool.b]\ncommand = \"python3\"\n\
         workers = 819\ntransport = \"dirct\"\nmount = \"/\"\n"
    );
    assert_eq!(
        brief(&text),
        [
            "3:7 \"a b\" cannot be the name of a pool | it takes 1 to 64 letters, digits, `-` and `_`",
            "4:11 `command` is empty | its first item is the program to start",
            "5:21 `start` = 5 is more than `max` = 4",
            "5:36 `min_spare` = 6 is more than `max` = 4",
            "5:36 `min_spare` = 6 is more than `max_spare` = 4 | `max_spare` is 4 when it is not given",
            "6:7 `cwd`: this is not a directory: /file",
            "7:9 `env`: \"A=\" cannot be a name",
            "8:13 `transport` does not take \"rely\" | did you mean \"relay\"?",
            "9:9 `mount`: \"app/\" is not a path to mount at | it starts with `/` and does not end with it: \"/app\"",
            "11:11 `command`: expected an array of strings, found a string | write command = [\"python3\"]",
            "12:11 the pools have up to 823 processes together, and with a quarter more for those that are being replaced \
             1029; 1024 is the most",
            "13:13 `transport` does not take \"dirct\" | did you mean \"direct\"?",
            "14:9 `mount` does not end with `/` | leave it out for the root",
        ]
    );
}

/// Requests inside of another protocol would not be checked.
#[test]
fn http_is_no_other_protocol() {
    let text = |upgrade: &str| format!("{COMPLETE}[pool.a]\ncommand = [\"a\"]\nupgrade = [{upgrade}]\n");
    for never in ["h2c", "H2C", "h2", "HTTP/2.0", "TLS/1.0", "tls", "http"] {
        let never_passed = format!(
            "5:12 `upgrade`: \"{never}\" is never passed on | requests inside of it would pass the routes and limits of this \
             server"
        );
        assert_eq!(brief(&text(&format!("\"{never}\""))), [never_passed]);
    }
    for bad in ["", "*", "a b", "a,b", "a/", "/1", "a/b/c"] {
        let no_name = format!(
            "5:12 `upgrade`: \"{bad}\" is not the name of a protocol | it takes names such as \"websocket\""
        );
        assert_eq!(brief(&text(&format!("\"{bad}\""))), [no_name]);
    }
}

#[test]
fn fields_that_are_maitreds_own_cannot_be_set_in_requests() {
    let text = "listen = [{ address = \":1\" }]\n[[site]]\nroot = \"www\"\n\
        request_headers = { remove = [\"X_Real.IP\", \"Content_Length\", \"Upgrade\", \"Proxy\", \"Host\", \"Early-Data\", \"Cookie\"] }\n\
        [[site.route]]\npath = \"/a\"\nrespond = { status = 200 }\nrequest_headers = { set = { Host = \"a b\" } }\n";
    let problems = brief(text);
    let starts = [
        "`X_Real.IP` says",
        "`Content_Length` is never",
        "`Upgrade` is written",
        "`Proxy` is never",
        "`Host` is never",
        "`Early-Data` says",
        "`request_headers` goes with `pool`",
        "`Host` cannot be",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.contains(start), "{start}: {problem}");
    }
}

#[test]
fn fields_of_the_connection_cannot_be_kept() {
    let text = format!(
        "{COMPLETE}[pool.a]\ncommand = [\"a\"]\nrequest_headers = {{ keep = [\"a b\", \"x-*\", \"Transfer_Encoding\", \"ok\"] }}\n"
    );
    assert_eq!(
        brief(&text),
        [
            "5:29 `keep`: \"a b\" is not the name of a field",
            "5:36 `keep`: \"x-*\" is not the name of a field",
            "5:43 `keep`: \"Transfer_Encoding\" is never passed on as it was sent | it is about the client's own connection",
        ]
    );
}

#[test]
fn a_route_cannot_lead_to_a_pool_that_listens() {
    let text = "listen = [{ address = \":8080\" }]\n[[site]]\n[[site.route]]\npath = \"/\"\npool = \"a\"\n\n\
                [pool.a]\nlisten = \":1\"\ncommand = [\"x\"]\n";
    let shown = errors(text);
    assert!(
        shown.contains("a route cannot lead to pool \"a\", which accepts connections by itself"),
        "{shown}"
    );
    assert!(shown.contains("`listen` is set here"), "{shown}");
}

#[test]
fn an_address_has_one_owner() {
    let pool = |name: &str| format!("[pool.{name}]\nlisten = \"127.0.0.1:9000\"\ncommand = [\"x\"]\n");
    let shown = brief(&format!("{COMPLETE}{}{}", pool("a"), pool("b")));
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].contains("[pool.b] listens on 127.0.0.1:9000, as [pool.a] does"), "{shown:?}");
}

#[test]
fn files_that_responses_name_are_below_a_path_and_a_directory() {
    let with =
        |entry: &str| brief(&format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nnamed_files = {{ {entry} }}\n"));
    assert_eq!(
        with("\"/p\" = \"/srv/static\""),
        [
            "5:17 `named_files`: \"/p\" is not the beginning of a path | it begins and ends with `/`, as \"/protected/\""
        ]
    );
    assert_eq!(with("\"/p/\" = \"/missing\""), ["5:25 `named_files`: there is no such directory: /missing"]);
}

#[test]
fn the_root_of_files_to_send_is_a_directory_and_absolute() {
    let with = |root: &str| format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nsendfile_root = \"{root}\"\n");
    good(&with("/srv/static"));
    for (root, expected) in [
        ("static", "5:17 `sendfile_root`: \"static\" is not an absolute path | it starts with `/`"),
        ("/missing", "5:17 `sendfile_root`: there is no such directory: /missing"),
    ] {
        assert_eq!(brief(&with(root)), [expected]);
    }
    for root in [format!("/{}", "a".repeat(1024)), "/srv\\n".to_owned()] {
        let expected = "5:17 `sendfile_root`: it takes up to 1024 bytes, without control characters";
        assert_eq!(brief(&with(&root)), [expected], "{root}");
    }
}

/// With the root of files they share the meta part of a frame.
#[test]
fn a_mount_and_the_name_of_a_user_are_short_and_plain() {
    let mount = |mount: &str| format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nmount = \"{mount}\"\n");
    good(&mount(&format!("/{}", "a".repeat(1023))));
    for bad in [format!("/{}", "a".repeat(1024)), "/a\\nuser=root".to_owned()] {
        let expected = "5:9 `mount`: it takes up to 1024 bytes, without control characters";
        assert_eq!(brief(&mount(&bad)), [expected], "{bad}");
    }
    let hash = "$2y$05$rghXMw387UPLDQBml3anFOiGL5e4WhS1Evoq2xew3jrq52ZayqZQ.";
    let site = "listen = [{ address = \":8080\" }]\n[[site]]\nroot = \"www\"\n";
    let users = |name: &str| format!("{site}basic_auth = {{ users = {{ \"{name}\" = \"{hash}\" }} }}\n");
    good(&users(&"a".repeat(1024)));
    for bad in ["a".repeat(1025), "a\\nb".to_owned(), " a".to_owned(), "a:b".to_owned()] {
        let shown = brief(&users(&bad));
        assert!(shown.len() == 1 && shown[0].contains("cannot be the name of a user"), "{bad}: {shown:?}");
    }
}

#[test]
fn what_leads_clients_is_a_cookie_or_an_address() {
    let with = |sticky: &str| format!("{COMPLETE}[pool.a]\ncommand = [\"x\"]\nsticky = {sticky}\n");
    let read = |sticky: &str| good(&with(sticky)).pools[0].sticky.clone();
    assert_eq!(read("\"cookie\""), Some(Sticky::Cookie("maitred-a".into())));
    assert_eq!(read("\"address\""), Some(Sticky::Address));
    for (sticky, expected) in [
        ("\"cookies\"", "5:10 `sticky` does not take \"cookies\" | did you mean \"cookie\"?"),
        ("{}", "5:10 `sticky` has no `cookie` | `cookie` takes the name of a cookie"),
        ("true", "5:10 `sticky`: expected a string or a table, found true"),
        (
            "{ cookie = \"a;b\" }",
            "5:10 `cookie`: \"a;b\" cannot be the name of a cookie | it takes letters, digits, `-`, `_` and `.`",
        ),
    ] {
        let shown = brief(&with(sticky));
        assert!(shown.len() == 1 && shown[0].starts_with(expected), "{sticky}: {shown:?}");
    }
    let proxied =
        |sticky: &str| format!("{COMPLETE}[pool.a]\nconnect = \"http://127.0.0.1:1\"\nsticky = {sticky}\n");
    assert!(brief(&proxied("\"address\""))[0].contains("is for application processes"));
    let short = "{ cookie = \"a\", secret = \"0123456789abcde\" }";
    assert!(brief(&proxied(short))[0].contains("`secret` is too short"));
    let of = |sticky: &str| good(&proxied(sticky)).pools[0].balancing.sticky.clone().unwrap();
    let secret = |text: &str| format!("{{ cookie = \"a\", secret = \"{text}\" }}");
    let (one, two) = (of(&secret("0123456789abcdef")), of(&secret("0123456789abcdeg")));
    assert!(one != two && one == of(&secret("0123456789abcdef")) && !format!("{one:?}").contains("012"));
    assert_eq!((of("\"cookie\"").name.as_str(), one.name.as_str()), ("maitred-a", "a"));
}

#[test]
fn words_of_other_servers_and_of_other_tables_have_their_place() {
    for (text, expected) in [
        (
            "[server]\nworker_processes = 4\n",
            "unknown key `worker_processes` in [server] | `threads` in [server]",
        ),
        ("[limits]\nclient_max_body_size = \"1m\"\n", "| `body_bytes_max` in [limits], such as \"100MiB\""),
        ("[server]\nmount = \"/app\"\n", "unknown key `mount` in [server] | it belongs in [pool.NAME]"),
        ("[pool.a]\ncommand = \"python app.py\"\n", "| write command = [\"python\", \"app.py\"]"),
    ] {
        let shown = brief(&format!("{COMPLETE}{text}"));
        assert!(shown.iter().any(|line| line.contains(expected)), "{text}: {shown:?}");
    }
    let route = |path: &str, more: &str| {
        brief(&format!(
            "listen = [{{ address = \":8080\" }}]\n[[site]]\nroot = \"/srv\"\n[[site.route]]\npath = \"{path}\"\n{more}"
        ))
    };
    let shown = route("@backend", "respond = { status = 404 }\n");
    assert!(shown[0].contains("there are no named locations"), "{shown:?}");
    let shown = route("~ \\\\.php$", "respond = { status = 404 }\n");
    assert!(shown[0].contains("write \"*.php\""), "{shown:?}");
    let shown = route("/*", "root = \"/srv\"\ntry = [\"{path}\", \"@app\"]\n");
    assert!(shown[0].contains("there are no named locations"), "{shown:?}");
}
