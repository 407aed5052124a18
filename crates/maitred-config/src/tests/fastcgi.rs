//! `connect = "fastcgi://…"`

use super::*;

const POOL: &str = "[pool.php]\nconnect = \"fastcgi://127.0.0.1:9000\"\n";

fn with(keys: &str) -> String {
    format!("{COMPLETE}{POOL}{keys}\n")
}

fn fastcgi(config: &Config) -> &FastCgi {
    config.pools[0].source.fastcgi().expect("a pool of FastCGI")
}

#[test]
fn addresses_of_fastcgi_are_known() {
    let text =
        "connect = [\"fastcgi://127.0.0.1:9000/\", \"fastcgi://[::1]:9001\", \"fastcgi+unix:run/php.sock\"]";
    let config = good(&format!("{COMPLETE}[pool.php]\n{text}\n"));
    let tcp = |name: &str| Upstream::Tcp { name: name.into(), address: name.parse().unwrap() };
    let unix = Upstream::Unix("/etc/maitred/run/php.sock".into());
    let expected = FastCgi {
        servers: vec![tcp("127.0.0.1:9000"), tcp("[::1]:9001"), unix],
        root: None,
        script_root: None,
        index: "index.php".into(),
        php: false,
        script_filename: None,
        params: Vec::new(),
        uri_as_sent: false,
    };
    assert_eq!(config.pools[0].source, Source::FastCgi(expected));
    assert_eq!(config.pools[0].source.servers().map(<[_]>::len), Some(3));
    assert_eq!(config.pools[0].upgrade, [""; 0], "it has no protocols to switch to");
    assert_eq!(config.pools[0].workers.slots(), 0);
}

#[test]
fn the_scripts_have_a_directory() {
    let config = good(&with("root = \"www/.\"\nindex = \"app.php\"\nphp = true"));
    let root = Some(PathBuf::from("/etc/maitred/www"));
    let found = fastcgi(&config);
    assert_eq!((&found.root, &found.script_root), (&root, &root));
    assert_eq!((found.index.as_str(), found.php), ("app.php", true));
    let config = good(&with("root = \"/srv/www/\"\nscript_root = \"/missing/app/\""));
    let found = fastcgi(&config);
    assert_eq!(found.root, Some("/srv/www".into()));
    assert_eq!(found.script_root, Some("/missing/app".into()), "it need not be there");
    assert_eq!(found.script_root.as_ref().unwrap().as_os_str(), "/missing/app");
}

#[test]
fn addresses_that_are_none_say_why() {
    const HINT: &str = "it takes \"unix:/path\", \"http://host:port\", \"https://host:port\", \"h2://host:port\", \"http+unix:/path\", \"fastcgi://host:port\" or \
                        \"fastcgi+unix:/path\"";
    for (address, why) in [
        ("fastcgi://127.0.0.1", "it has no port (php-fpm has 9000)"),
        ("fastcgi://[::1]", "it has no port (php-fpm has 9000)"),
        ("fastcgi://", "there is more in it than host and port"),
        ("fastcgi://127.0.0.1:9000/app.php", "there is more in it than host and port"),
        ("fastcgi+unix:", "there is no path in it"),
        ("fastcgi:/run/php.sock", "this is no address of a server"),
        ("127.0.0.1:9000", "this is no address of a server"),
    ] {
        let text = format!("{COMPLETE}[pool.php]\nconnect = \"{address}\"\nroot = \"www\"\n");
        assert_eq!(brief(&text), [format!("4:11 `connect`: \"{address}\": {why} | {HINT}")], "{address}");
    }
}

#[test]
fn one_list_has_one_kind_of_servers() {
    for (list, column) in [
        ("\"http://127.0.0.1:1\", \"fastcgi://127.0.0.1:2\"", 34),
        ("\"fastcgi://127.0.0.1:2\", \"http://127.0.0.1:1\", \"fastcgi+unix:/a\"", 37),
    ] {
        assert_eq!(
            brief(&format!("{COMPLETE}[pool.php]\nconnect = [{list}]\n")),
            [format!(
                "4:{column} `connect` names servers of different kinds in one list | give each kind a pool of its own"
            )]
        );
    }
    let text = format!("{COMPLETE}[pool.php]\nconnect = [\"unix:/a\", \"fastcgi://127.0.0.1:2\"]\n");
    assert_eq!(brief(&text), ["4:12 `connect`: a socket of the handoff protocol stands alone"]);
}

#[test]
fn scripts_need_a_directory_that_exists() {
    let needs =
        |line: &str| vec![format!("5:{line} needs `root` | add root = \"…\", the directory of the scripts")];
    assert_eq!(brief(&with("php = true")), needs("7 [pool.php]: `php`"));
    assert_eq!(brief(&with("script_root = \"/srv\"")), needs("15 [pool.php]: `script_root`"));
    assert_eq!(brief(&with("index = \"a.php\"")), needs("9 [pool.php]: `index`"));
    assert!(!fastcgi(&good(&with("php = false"))).php);
    assert_eq!(
        brief(&with("root = \"missing\"\nphp = true")),
        [
            "5:8 `root`: there is no such directory: /etc/maitred/missing | a relative path starts at the directory of the \
          configuration file"
        ]
    );
    assert_eq!(
        brief(&with("root = \"www\"\nscript_root = \"srv\"")),
        [
            "6:15 `script_root`: \"srv\" is not an absolute path | it starts with `/`, and Maitred need not have the directory"
        ]
    );
    for index in ["index.html", "a/b.php", ".php", "index.PHP", ""] {
        assert_eq!(
            brief(&with(&format!("root = \"www\"\nindex = \"{index}\""))),
            [format!(
                "6:9 `index`: \"{index}\" is not the name of a script | it takes a name that ends in `.php`, without `/`"
            )]
        );
    }
}

#[test]
fn a_program_is_run_for_all_requests_instead_of_scripts() {
    let config = good(&with("script_filename = \"/usr/lib/cgi-bin/a b\""));
    assert_eq!(fastcgi(&config).script_filename, Some("/usr/lib/cgi-bin/a b".into()));
    assert_eq!(
        brief(&with("script_filename = \"cgi-bin/a\"")),
        [
            "5:19 `script_filename`: \"cgi-bin/a\" is not an absolute path | it starts with `/`, and Maitred need not have the \
             program"
        ]
    );
    assert_eq!(
        brief(&with("root = \"www\"\nscript_filename = \"/a\"")),
        [
            "6:19 [pool.php]: `script_filename` is one program for all requests, and `root` a directory of scripts | take one of \
             the two out"
        ]
    );
}

#[test]
fn variables_have_names_and_values_of_the_operator() {
    let config = good(&with(
        "params = { GIT_HTTP_EXPORT_ALL = \"\", user_2 = \"<{user}> {{\", PHP_VALUE = \"a=1\\nb=2\" }",
    ));
    let user = Template::parse_value("<{user}> {{").unwrap();
    let of = |name: &str| {
        let params = &fastcgi(&config).params;
        params.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    };
    assert_eq!(of("user_2"), Some(user));
    assert_eq!(of("GIT_HTTP_EXPORT_ALL"), Some(Template::default()));
    assert_eq!(of("PHP_VALUE"), Some(Template::plain("a=1\nb=2")));
    for (param, why) in [
        ("SCRIPT_FILENAME = \"/a\"", "`SCRIPT_FILENAME` is written by Maitred | `script_filename` names"),
        ("script_name = \"/a\"", "`script_name` is written by Maitred | `mount` says"),
        ("HTTP_PROXY = \"\"", "`HTTP_PROXY` is written by Maitred | fields of the request"),
        ("REMOTE_USER = \"{user}\"", "`REMOTE_USER` is written by Maitred | it is there where"),
        ("HTTPS = \"on\"", "`HTTPS` is written by Maitred | `trusted_proxies`"),
        ("GATEWAY_INTERFACE = \"\"", "`GATEWAY_INTERFACE` is written by Maitred | applications rely"),
        ("\"A-B\" = \"\"", "\"A-B\" is not the name of a variable"),
        ("1A = \"\"", "\"1A\" is not the name of a variable"),
        ("A = \"{path}\"", "this cannot be the value of `A` | the placeholders are {client}"),
        ("A = \"a\\u0000b\"", "this cannot be the value of `A` | it has a NUL byte"),
        ("PHP_ADMIN_VALUE = \"a={user}\"", "`PHP_ADMIN_VALUE` | settings of PHP have no placeholders"),
    ] {
        let found = brief(&with(&format!("params = {{ {param} }}")));
        assert!(found.len() == 1 && found[0].contains(why), "{param}: {found:?}");
    }
}

#[test]
fn a_front_controller_is_a_script_of_the_pool() {
    let route = |pool: &str, keys: &str| {
        format!(
            "listen = [{{ address = \":8080\" }}]\n{POOL}{pool}\n[[site]]\n[[site.route]]\npath = \"/wiki/*\"\n{keys}\n"
        )
    };
    let of =
        |name: &str| route("root = \"www\"\n", &format!("pool = \"php\"\nfront_controller = \"{name}\""));
    for name in ["index.php", "w/index.php"] {
        let text = of(name);
        let config = good(&text);
        let site = config.sites.last().unwrap();
        assert_eq!(site.routes[0].front_controller.as_deref(), Some(&*format!("/{name}")));
    }
    for name in [
        "",
        "/index.php",
        "index.html",
        "../index.php",
        ".php",
        "a.php/b.php",
        "w/.x/a.php",
        "a.PHP",
        "a.php/",
    ] {
        let found = brief(&of(name));
        assert!(found.len() == 1 && found[0].contains("is not the path of a script"), "{name}: {found:?}");
    }
    let found = brief(&route("", "pool = \"php\"\nfront_controller = \"index.php\""));
    assert!(found[0].contains("needs a pool with"), "{found:?}");
    let found =
        brief(&route("root = \"www\"\n", "respond = { status = 200 }\nfront_controller = \"index.php\""));
    assert!(found[0].contains("`front_controller` goes with `pool`"), "{found:?}");
    let found = brief(&route("root = \"www\"\n", "root = \"www\"\nfront_controller = \"index.php\""));
    assert!(found.iter().any(|one| one.contains("`front_controller` needs a pool with")), "{found:?}");
}

#[test]
fn keys_of_fastcgi_are_errors_in_other_pools() {
    for source in
        ["command = [\"app\"]", "connect = \"http://127.0.0.1:1\"", "connect = \"unix:/run/a.sock\""]
    {
        let text = format!("{COMPLETE}[pool.web]\n{source}\nroot = \"www\"\nphp = true\n");
        assert_eq!(
            brief(&text),
            [
                "5:1 [pool.web]: `root` is for a pool with `connect = \"fastcgi://…\"` | files of a site are served by `root` and \
                 `index` of [[site]], or of a route",
                "6:1 [pool.web]: `php` is for a pool with `connect = \"fastcgi://…\"` | take it out, or set `connect` to the \
                 address of php-fpm",
            ]
        );
    }
}

#[test]
fn fastcgi_applications_are_external_servers() {
    let route = "[[site.route]]\npath = \"/*\"\npool = \"php\"\n";
    let text = format!("{START}[[site]]\n{route}{POOL}root = \"www\"\nconnect_timeout = \"250ms\"\n");
    let (config, warnings) = read_as(&text, false).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.pools[0].connect_timeout, std::time::Duration::from_millis(250));
    for (key, message) in [
        ("queue = { max = 5 }", "`queue` has no effect"),
        ("sendfile_root = \"/srv\"", "`sendfile_root` has no effect"),
        ("upgrade = [\"websocket\"]", "`upgrade` has no effect"),
        ("early_hints = \"always\"", "`early_hints` has no effect"),
    ] {
        let (config, warnings) = read_as(&format!("{text}{key}\n"), false).unwrap();
        assert!(warnings.len() == 1 && one_line(&warnings[0].0).contains(message), "{key}: {warnings:?}");
        assert!(config.pools[0].upgrade.is_empty());
    }
    assert!(brief(&format!("{text}workers = 2\n"))[0].contains("`workers` is for application processes"));
    assert!(brief(&format!("{text}sticky = \"address\"\n"))[0].contains("is for application processes"));
}
