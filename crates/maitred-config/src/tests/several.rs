//! Several files, placeholders, defaults and lists of networks: on a disk, with an environment of their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;

/// The machine of the test, with other variables in its environment.
struct Disk(BTreeMap<&'static str, &'static str>);

impl Lookup for Disk {
    fn user(&self, name: &str) -> io::Result<Option<Identity>> {
        System.user(name)
    }

    fn is_root(&self) -> bool {
        false
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        // What examples name is not on this machine.
        if path.starts_with("/srv") { Ok(()) } else { System.directory(path) }
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        System.text(path)
    }

    fn matching(&self, base: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        System.matching(base, pattern)
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        System.real_path(path)
    }

    fn secret(&self, path: &Path) -> io::Result<Vec<u8>> {
        System.secret(path)
    }

    fn variable(&self, name: &str) -> Option<Result<String, ()>> {
        match name {
            "BROKEN" => Some(Err(())),
            _ => self.0.get(name).map(|value| Ok((*value).to_owned())),
        }
    }
}

struct Tree(tempfile::TempDir);

impl Tree {
    /// A directory with these files; one that ends with `/` is a directory.
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = tree.0.path().join(name);
            if name.ends_with('/') {
                std::fs::create_dir_all(path).unwrap();
                continue;
            }
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        tree
    }

    fn read(&self) -> Result<(Config, Vec<Warning>), Errors> {
        let variables =
            [("WORKERS", "3"), ("EMPTY", ""), ("WORD", "word"), ("NAME", "shop"), ("YES", "true")];
        let text = std::fs::read_to_string(self.0.path().join("main.toml")).unwrap();
        let origin = Origin { name: "etc/main.toml".into(), base: self.0.path().to_owned() };
        read(&text, &origin, &Disk(BTreeMap::from(variables)))
    }

    #[track_caller]
    fn good(&self) -> Config {
        self.read().unwrap_or_else(|errors| panic!("{errors}")).0
    }

    /// `file:line:column message | hint` of each error, and of the other place `@ file:line:column`.
    #[track_caller]
    fn brief(&self) -> Vec<String> {
        let errors = self.read().expect_err("no error").0;
        let place = |place: &Place| format!("{}:{}:{}", place.file, place.line, place.column);
        let here = self.0.path().display().to_string();
        let line = |problem: &Problem| {
            let mut line = format!("{} {}", place(&problem.place), problem.message);
            if let Some((_, other)) = &problem.related {
                let _ = write!(line, " @ {}", place(other));
            }
            if let Some(hint) = &problem.hint {
                let _ = write!(line, " | {hint}");
            }
            line.replace(&here, "HERE")
        };
        errors.iter().map(line).collect()
    }
}

const MAIN: &str = "import = [\"conf.d/*.toml\"]\nlisten = [{ address = \":1\" }]\n[server]\nthreads = 2\n";

#[test]
fn each_imported_file_is_a_whole_piece() {
    let tree = Tree::new(&[
        ("main.toml", MAIN),
        (
            "conf.d/20.toml",
            "[[site]]\nhosts = [\"b\"]\nroot = \"www\"\n[server]\ngrace = 5\n[log]\naccess = \"off\"\n",
        ),
        (
            "conf.d/10.toml",
            "import = \"../apps/app.toml\"\n[[listen]]\naddress = \":2\"\n[[site]]\nhosts = [\"a\"]\n\
             route = [{ path = \"/*\", pool = \"app\" }]\n",
        ),
        (
            "apps/app.toml",
            "[pool.app]\ncommand = [\"sh\"]\nsendfile_root = \"/\"\n[limits]\nranges_max = 3\n",
        ),
        ("conf.d/.hidden.toml", "nonsense"),
        ("conf.d/other.txt", "nonsense"),
        ("conf.d/www/", ""),
    ]);
    let config = tree.good();
    let hosts: Vec<_> = config.sites.iter().map(|site| site.hosts.clone()).collect();
    assert_eq!(hosts, [[HostPattern::Exact("a".into())], [HostPattern::Exact("b".into())]], "sorted by name");
    assert_eq!(
        (config.server.threads, config.server.grace.as_secs()),
        (Some(2), 5),
        "one table of two files"
    );
    assert_eq!((config.listens.len(), config.limits.ranges_max), (2, 3));
    assert_eq!(config.log.access, AccessFormat::Off);
    let base = tree.0.path();
    assert_eq!(
        config.sites[1].files.as_ref().unwrap().root,
        base.join("conf.d/www"),
        "relative to its own file"
    );
    assert_eq!(config.pools[0].cwd, base.join("conf.d/../apps"));
}

#[test]
fn what_is_wrong_is_shown_in_its_file() {
    let tree = Tree::new(&[
        ("main.toml", &format!("{MAIN}[[site]]\nroot = \"missing\"\n")),
        (
            "conf.d/a.toml",
            "[pool.app]\ncommand = []\n\n[server]\nthread = 1\nthreads = 3\n[site]\nroot = \"x\"\n",
        ),
        (
            "conf.d/b.toml",
            "# é\n[pool.app]\ncommand = [\"sh\"]\n[[site]]\nhosts = [\"b\"]\nroot = \"/\"\ncolour = 1\n[servers]\n",
        ),
    ]);
    assert_eq!(
        tree.brief(),
        [
            "etc/main.toml:6:8 `root`: there is no such directory: HERE/missing | a relative path starts at the directory of the \
             configuration file",
            "etc/conf.d/a.toml:2:11 `command` is empty | its first item is the program to start",
            "etc/conf.d/a.toml:5:1 unknown key `thread` in [server] | did you mean `threads`?",
            "etc/conf.d/a.toml:6:1 `threads` of [server] is set in two files @ etc/main.toml:4:1",
            "etc/conf.d/a.toml:7:1 `site` is a list, and this is a single table | write [[site]] with two pairs of brackets",
            "etc/conf.d/b.toml:2:7 [pool.app] is defined in two files @ etc/conf.d/a.toml:1:7",
            "etc/conf.d/b.toml:7:1 unknown key `colour` in [[site]] | the keys here are ".to_owned().as_str(),
            "etc/conf.d/b.toml:8:2 unknown key `servers` in the file | did you mean `server`?",
        ]
        .map(|line| tree.brief().into_iter().find(|found| found.starts_with(line)).unwrap_or(line.to_owned()))
    );
    let shown = tree.read().unwrap_err().to_string();
    assert!(
        shown.contains(
            "error: [pool.app] is defined in two files\n --> etc/conf.d/b.toml:2:7\n  |\n2 | [pool.app]\n  |       ^^^\n  = note: it \
             is first set here\n --> etc/conf.d/a.toml:1:7\n  |\n1 | [pool.app]\n  |       ^^^\n"
        ),
        "{shown}"
    );
    assert!(shown.ends_with("\n8 errors in 3 files\n"), "{shown}");
}

#[test]
fn imports_that_lead_nowhere_are_refused() {
    let with = |import: &str| {
        format!("import = {import}\nlisten = [{{ address = \":1\" }}]\nsite = [{{ root = \"/\" }}]\n")
    };
    Tree::new(&[("main.toml", &with("[\"none.d/*.toml\", \"a*\"]"))]).good();
    for (import, expected) in [
        (
            "\"none.toml\"",
            "etc/main.toml:1:10 `import`: etc/none.toml: there is no such file | it starts at the directory of the file that imports \
             it; a pattern with `*` may match nothing",
        ),
        ("[\"/none.toml\"]", "etc/main.toml:1:11 `import`: /none.toml: there is no such file"),
        ("[\"none?.toml\"]", "etc/main.toml:1:11 `import`: \"none?.toml\": it matches no file"),
        ("[\"a[\"]", "etc/main.toml:1:11 `import`: \"a[\": invalid range pattern"),
        (
            "[\"**/a.toml\"]",
            "etc/main.toml:1:11 `import` does not take \"**/a.toml\" | `*` stands for a part of a name; name each directory",
        ),
        ("[\"\"]", "etc/main.toml:1:11 `import`: this is not a path"),
        ("[\"www\"]", "etc/main.toml:1:11 `import`: etc/www: this is a directory"),
        ("[\"latin1\"]", "etc/main.toml:1:11 `import`: etc/latin1: line 2 is not UTF-8"),
        ("[\"main.toml\"]", "etc/main.toml:1:11 etc/main.toml imports itself"),
        ("[1]", "etc/main.toml:1:11 `import`: expected strings in this array, found a whole number"),
        (
            "[\"good.toml\", \"./good.toml\"]",
            "etc/main.toml:1:24 etc/good.toml is imported twice @ etc/main.toml:1:11",
        ),
        (
            "[\"circle.toml\"]",
            "etc/further.toml:1:10 etc/circle.toml imports itself, by way of this file @ etc/main.toml:1:11",
        ),
        ("\"back.toml\"", "etc/back.toml:1:10 etc/main.toml imports itself, by way of this file"),
        (
            "\"${file:good.toml}\"",
            "etc/main.toml:1:11 `import` takes no secret | it can be seen in logs, in the status, or by other accounts; `${file:…}` \
             goes into `env`, `params`, the fields of `request_headers` and `response_headers`, and conditions of `match`",
        ),
    ] {
        let tree = Tree::new(&[
            ("main.toml", &with(import)),
            ("www/", ""),
            ("good.toml", ""),
            ("circle.toml", "import = \"further.toml\""),
            ("further.toml", "import = \"circle.toml\""),
            ("back.toml", "import = \"main.toml\""),
        ]);
        std::fs::write(tree.0.path().join("latin1"), b"# a\n# \xe9\n").unwrap();
        assert_eq!(tree.brief(), [expected], "{import}");
    }
}

#[test]
fn what_a_file_lacks_that_cannot_be_read_is_not_called_missing() {
    let tree = Tree::new(&[("main.toml", "import = [\"a.toml\", \"b.toml\"]\n"), ("b.toml", "[[site]\n")]);
    let found = tree.brief();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("there is no such file") && found[1].starts_with("etc/b.toml:1:8 not valid TOML"),
        "{found:?}"
    );
}

#[test]
fn imports_are_bounded() {
    let names: Vec<_> = (0..12).map(|number| format!("{number}.toml")).collect();
    let texts: Vec<_> = (1..13).map(|number| format!("import = \"{number}.toml\"\n")).collect();
    let mut files: Vec<_> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    files.push(("main.toml", "import = \"0.toml\"\n[[listen]]\naddress = \":1\"\n[[site]]\nroot = \"/\"\n"));
    let tree = Tree::new(&files);
    assert_eq!(tree.brief(), ["etc/6.toml:1:10 imports are nested more than 8 levels deep"]);

    let tree = Tree::new(&[("main.toml", MAIN), ("conf.d/", "")]);
    for number in 0..super::super::disk::FILES_MAX {
        std::fs::write(tree.0.path().join(format!("conf.d/{number}.toml")), "").unwrap();
    }
    assert_eq!(tree.brief().last().unwrap(), "etc/main.toml:1:11 a configuration has at most 1024 files");
}

#[test]
fn placeholders_stand_for_the_environment() {
    let tree = Tree::new(&[(
        "main.toml",
        "[[listen]]\naddress = \":${PORT:-81}\"\nhttp2 = \"${NO:-false}\"\n[[site]]\nhosts = [\"${NAME}.example\"]\nroot = \"${R:-/}\"\n\
         listing = \"${YES}\"\n[limits]\nhead_timeout = \"${T:-7}\"\nbody_timeout = \"${T:-7m}\"\nbody_bytes_max = \"${S:-1m}\"\n\
         [pool.${NAME}]\n[pool.web]\ncommand = [\"sh\", \"-c\", \"echo $${HOME} ${WORD}${EMPTY}s ${EMPTY:-${NONE:-x}}\"]\n\
         workers = \"${WORKERS}\"\n[server]\nthreads = \"${WORKERS:-auto}\"\n"
            .replace("[pool.${NAME}]\n", "")
            .as_str(),
    )]);
    let config = tree.good();
    assert_eq!((config.listens[0].address.port(), config.listens[0].http2), (Some(81), false));
    assert_eq!(config.sites[0].hosts, [HostPattern::Exact("shop.example".into())]);
    assert!(config.sites[0].files.as_ref().unwrap().listing);
    assert_eq!((config.limits.head_timeout.as_secs(), config.limits.body_timeout.as_secs()), (7, 420));
    assert_eq!(config.limits.body_bytes_max, 1 << 20);
    assert_eq!(
        config.pools[0].source,
        Source::Command(vec!["sh".into(), "-c".into(), "echo ${HOME} words x".into()])
    );
    assert_eq!((config.pools[0].workers.max, config.server.threads), (3, Some(3)));
}

#[test]
fn placeholders_that_stand_for_nothing_are_shown() {
    let main = "[server]\nthreads = \"${WORD}\"\nuser = \"a${NONE}b\"\nseccomp = \"${WORKERS}\"\ngrace = \"${WORD}\"\nadmin = \"${BROKEN}\"\n\
                [[listen]]\naddress = \"${PORT:80}\"\n[[site]]\nroot = \"/\"\nhosts = [\"${NAME\", \"${}\", \"${1}\", \"${NONE:-${OTHER}}\"]\n\
                [pool.x]\ncommand = [\"${A:-${A:-${A:-${A:-${A:-}}}}}\"]\nworkers = \"${WORD}\"\nenv = { A = \"${file:none}\", B = \"${file:${NONE}/b}\" }\n";
    let forms = "it takes `${NAME}`, `${NAME:-default}` or `${file:/path}`; `$${` stands for `${` itself";
    assert_eq!(
        Tree::new(&[("main.toml", main)]).brief(),
        [
            "etc/main.toml:2:11 `threads` does not take \"word\" | it takes `\"auto\"` or a whole number, 1 to 256".to_owned(),
            "etc/main.toml:3:10 there is no environment variable `NONE` | set it for the server, or write `${NONE:-default}`".to_owned(),
            "etc/main.toml:4:11 `seccomp`: expected true or false, found \"3\" | `seccomp` takes `true`, `false`".to_owned(),
            "etc/main.toml:5:9 `grace`: \"word\" is not a time | this does not start with a whole number".to_owned(),
            "etc/main.toml:6:10 the environment variable `BROKEN` is not UTF-8".to_owned(),
            format!("etc/main.toml:8:12 `${{PORT:80}}` is not a placeholder | {forms}"),
            format!("etc/main.toml:11:11 `${{` is not closed | {forms}"),
            format!("etc/main.toml:11:21 `${{}}` is not a placeholder | {forms}"),
            format!("etc/main.toml:11:28 `${{1}}` is not a placeholder | {forms}"),
            "etc/main.toml:11:44 there is no environment variable `OTHER` | set it for the server, or write `${OTHER:-default}`".to_owned(),
            format!("etc/main.toml:13:13 placeholders are nested too deeply | {forms}"),
            "etc/main.toml:14:11 `workers`: expected a whole number or a table, found \"word\" | `workers` takes a whole number, 1 to \
             819, or a table, see `workers`"
                .to_owned(),
            "etc/main.toml:15:14 `${file:none}`: there is no such file: HERE/none".to_owned(),
            "etc/main.toml:15:41 there is no environment variable `NONE` | set it for the server, or write `${NONE:-default}`".to_owned(),
        ]
    );
}

#[test]
fn secrets_are_read_and_not_shown() {
    let pool = "listen = [{ address = \":1\" }]\nsite = [{ root = \"/\" }]\n[pool.x]\ncommand = [\"sh\"]\n";
    let env = |text: &str| format!("{pool}env = {{ KEY = \"{text}\" }}\n");
    let secret = "hunter2${WORD}";
    let files = |main: &str, contents: &str| {
        let tree = Tree::new(&[("main.toml", main), ("run/key", contents), ("run/dir/", "")]);
        std::fs::write(tree.0.path().join("run/latin1"), b"\xe9").unwrap();
        tree
    };
    for (contents, expected) in
        [("hunter2${WORD}\n", secret), (secret, secret), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a ")]
    {
        let config = files(&env("${file:run/key}"), contents).good();
        assert_eq!(config.pools[0].env, [("KEY".to_owned(), expected.to_owned())]);
    }
    let config = files(&env("a ${file:${DIR:-run}/key}!"), "b\n").good();
    assert_eq!(config.pools[0].env[0].1, "a b!");

    for (text, contents, why) in [
        ("run/key", "", "the file is empty: HERE/run/key"),
        ("run/key", &"x".repeat(65537), "a secret has at most 64 KiB: HERE/run/key"),
        ("run/dir", "", "this is a directory: HERE/run/dir"),
        ("run/latin1", "", "the file is not UTF-8: HERE/run/latin1"),
        ("/dev/null", "", "this is not a regular file: /dev/null"),
    ] {
        let found = files(&env(&format!("${{file:{text}}}")), contents).brief();
        let shown: Vec<_> =
            found.iter().map(|line| line.replace(&format!("`${{file:{text}}}`"), "IT")).collect();
        assert_eq!(shown, [format!("etc/main.toml:5:16 IT: {why}")]);
    }
    files(&env("${file:run/key}"), &"x".repeat(65536)).good();

    let commands = files(&pool.replace("\"sh\"", "\"${file:run/key}\""), "x").brief();
    assert!(
        commands[0].starts_with("etc/main.toml:4:13 `command` takes no secret | it can be seen"),
        "{commands:?}"
    );

    let header = format!(
        "{pool}[[site]]\nhosts = [\"a\"]\nroot = \"/\"\nresponse_headers = {{ set = {{ A = \"${{file:run/key}}\" }} }}\n"
    );
    let header = header.replace("site = [{ root = \"/\" }]\n", "");
    let tree = files(&header, "two\nlines");
    let shown = tree.read().unwrap_err().to_string();
    assert!(
        shown.contains("cannot be the value of `A`") && !shown.contains("two") && !shown.contains("lines"),
        "{shown}"
    );
}

/// What parsers say of a value repeats parts of it.
#[test]
fn no_part_of_a_secret_is_in_a_message() {
    let tree =
        Tree::new(&[("main.toml", "[pool.x]\nenv = { \"A=\" = \"${file:key}\" }\n"), ("key", "Hunter2\n")]);
    let cx = Context::new(&System);
    import::find(
        &cx,
        &std::fs::read_to_string(tree.0.path().join("main.toml")).unwrap(),
        &Origin { name: "main.toml".into(), base: tree.0.path().to_owned() },
    );
    let sources = cx.sources.borrow();
    drop(import::join(&cx, &sources, &mut Noise::default()));
    let at = 24..36;
    assert!(cx.expanded.borrow().is_secret(&at), "{:?}", cx.expanded);
    let redacted = "this value cannot be used here";
    for (span, message, hint, expected) in [
        (at.clone(), "`env`: \"Hunter2\" is no name", "", redacted),
        (at.clone(), "`env` is wrong", "`hunt` is not a port number", redacted),
        (at.clone(), "`env` is wrong", "it takes `UNTER`", redacted),
        (at.clone(), "`env` is wrong", "it takes \"x\"", "`env` is wrong"),
        (0..1, "this names Hunter2, which is no pool", "", redacted),
        (0..1, "there is no `hunt`", "", "there is no `hunt`"),
    ] {
        cx.findings.borrow_mut().clear();
        cx.error_with(&span, message, hint);
        assert_eq!(cx.findings.borrow()[0].message, expected, "{message} {hint}");
    }
    cx.findings.borrow_mut().clear();
    cx.conflict(&(0..1), "\"hunter2\" is named twice", "it is first named here", &at);
    assert_eq!(cx.findings.borrow()[0].message, redacted);
}

#[test]
fn what_placeholders_stand_for_is_bounded() {
    let items = "\"${file:key}\", ".repeat(65);
    let item = |number: usize| format!("K{number} = \"${{file:key}}\", ");
    let env: String = (0..65).map(item).collect();
    let main = format!(
        "listen = [{{ address = \":1\" }}]\nsite = [{{ root = \"/\" }}]\n[pool.x]\ncommand = [\"sh\"]\nenv = {{ {env} }}\n"
    );
    let tree = Tree::new(&[("main.toml", &main), ("key", &"x".repeat(65536))]);
    let found = tree.brief();
    assert!(
        found.len() == 1 && found[0].ends_with("the placeholders stand for more than 4 MiB together"),
        "{found:?} {items}"
    );
}

#[test]
fn sites_have_in_common_what_the_defaults_say() {
    let tree = Tree::new(&[
        (
            "main.toml",
            "import = \"sites.toml\"\n[[listen]]\naddress = \":1\"\n[defaults]\nlisting = true\nindex = [\"a\"]\n\
            error_pages = { 404 = \"/404\", 500 = \"/500\" }\nresponse_headers = { set = { A = \"1\", B = \"1\" } }\n",
        ),
        (
            "sites.toml",
            "[[site]]\nroot = \"/\"\nindex = [\"b\"]\nerror_pages = { 404 = \"/none\" }\n\
            response_headers = { set = { B = \"2\" }, remove = [\"C\"] }\n[[site]]\nhosts = [\"b\"]\nlisting = false\nroot = \"/\"\n\
            [[site]]\nhosts = [\"c\"]\nroute = [{ path = \"/\", redirect = \"/x\" }]\n",
        ),
    ]);
    let config = tree.good();
    let [first, second, third] = &config.sites[..] else { panic!("{:?}", config.sites) };
    let files = |site: &Site| site.files.clone().map(|files| (files.listing, files.index));
    assert_eq!(files(first), Some((true, vec!["b".to_owned()])));
    assert_eq!(files(second), Some((false, vec!["a".to_owned()])));
    assert_eq!(files(third), None, "a site without files is not told that it has none");
    assert_eq!(first.error_pages, [(404, "/none".into()), (500, "/500".into())]);
    let mut set = first.response_headers.set.clone();
    set.sort();
    assert_eq!(set, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]);
    assert_eq!(first.response_headers.remove, ["c"]);
    assert_eq!(second.response_headers.set.len(), 2);

    let tree = Tree::new(&[(
        "main.toml",
        "[[listen]]\naddress = \":1\"\n[defaults]\nlistings = true\nroot = \"/\"\nindex = [\"a/b\"]\n[[site]]\nroot = \"/\"\n[[site]]\nroot = \"/\"\n\
         hosts = [\"b\"]\n",
    )]);
    let found = tree.brief();
    assert_eq!(found.len(), 3, "each once: {found:?}");
    assert!(
        found[0]
            .starts_with("etc/main.toml:4:1 unknown key `listings` in [defaults] | did you mean `listing`?"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("etc/main.toml:5:1 unknown key `root` in [defaults] | it belongs in [[site]]"),
        "{found:?}"
    );
    assert!(found[2].starts_with("etc/main.toml:6:10 `index`: \"a/b\" is not a file name"), "{found:?}");
}

#[test]
fn lists_of_networks_have_names() {
    let start = "listen = [{ address = \":1\" }]\nsite = [{ root = \"/\" }]\n";
    let trusted = |networks: &str, used: &str| {
        Tree::new(&[(
            "main.toml",
            &format!("{start}[networks]\n{networks}[server]\ntrusted_proxies = [{used}]\n"),
        )])
    };
    let config = trusted(
        "every = [\"@office\", \"192.0.2.9\"]\noffice = [\"198.51.100.0/24\"]\n",
        "\"@every\", \"@private\", \"@loopback\"",
    )
    .good();
    let shown: Vec<_> = config
        .server
        .trusted_proxies
        .networks
        .iter()
        .map(|(address, bits)| format!("{address}/{bits}"))
        .collect();
    assert_eq!(
        shown,
        [
            "198.51.100.0/24",
            "192.0.2.9/32",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",
            "127.0.0.0/8",
            "::1/128"
        ]
    );
    let wrong = trusted(
        "office = [\"10.0.0.1/8\", 1]\nprivate = []\n\"a b\" = []\nc = \"x\"\nd = [\"@e\"]\ne = [\"@d\", \"@none\"]\n",
        "\"@ofice\", \"@none\", \"@e\", \"office\"",
    );
    assert_eq!(
        wrong.brief(),
        [
            "etc/main.toml:4:11 `networks`: \"10.0.0.1/8\" is not a network | the network of 8 bits starts at 10.0.0.0: write \
             \"10.0.0.0/8\"",
            "etc/main.toml:4:25 `networks`: expected strings in this array, found a whole number",
            "etc/main.toml:5:1 `networks`: \"@private\" is always there and cannot be changed",
            "etc/main.toml:6:1 `networks`: \"a b\" cannot be the name of a list",
            "etc/main.toml:7:5 `networks`: expected arrays of strings, found a string",
            "etc/main.toml:8:6 `networks`: the list \"e\" contains itself",
            "etc/main.toml:9:6 `networks`: the list \"d\" contains itself",
            "etc/main.toml:9:12 `networks`: there is no list \"@none\" | the lists are \"@all\", \"@loopback\", \"@office\", \"@private\"; \
             others are defined in [networks]",
            "etc/main.toml:11:20 `trusted_proxies`: there is no list \"@ofice\" | did you mean \"@office\"?",
            "etc/main.toml:11:30 `trusted_proxies`: there is no list \"@none\" | the lists are \"@all\", \"@d\", \"@e\", \"@loopback\", \
             \"@office\", \"@private\"; others are defined in [networks]",
            "etc/main.toml:11:45 `trusted_proxies`: \"office\" is not a network | `office` is not an IP address",
        ]
        .map(|line| if line.contains("\"a b\"") { format!("{line} | it takes letters, digits, `-` and `_`") } else { line.to_owned() })
    );
    let name = |number: usize| format!("n{number} = [{}]\n", format!("\"@n{}\", ", number + 1).repeat(40));
    let many: String = (0..4).map(name).collect::<String>() + "n4 = [\"10.0.0.0/8\"]\n";
    let found = trusted(&many, "\"@n0\"").brief();
    assert!(found[0].contains("[networks] has more than 100000 networks"), "{found:?}");
}

/// The files that the page names, in one directory; the secret is there, too.
#[test]
fn the_files_of_the_manual_are_one_configuration() {
    let manual = include_str!("../../../../docs/configuration-files.md");
    let mut files = Vec::new();
    for block in manual.split("```toml\n# /etc/maitred/").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let text = rest.split("```").next().unwrap().replace("/run/secrets/shop-db", "../secret");
        let name = if name == "maitred.toml" { "main.toml" } else { name };
        files.push((name, text.replace("user = \"maitred\"\n", "")));
    }
    assert_eq!(files.len(), 3);
    files.push(("secret", "hunter2\n".to_owned()));
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let config = Tree::new(&files).good();
    assert_eq!((config.sites.len(), config.pools[0].workers.max), (2, 4));
    assert_eq!(config.pools[0].env[0].1, "hunter2");
    assert!(config.sites.iter().all(|site| site.hsts.is_some() && site.response_headers.set.len() == 1));
}
