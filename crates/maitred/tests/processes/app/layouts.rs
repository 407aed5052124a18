//! `maitred init`: each layout that it knows, as a directory; what it writes is run, or, where the runtime is not there, checked.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::app::{alike, command, directory, output, refused};
use crate::support::php::Php;
use crate::support::{Client, eventually, skip_missing};

/// Files: name and text.
pub(super) type Files = &'static [(&'static str, &'static str)];

/// A directory, and what becomes of it.
pub(super) struct Case {
    /// What it is called in the message.
    pub(super) name: &'static str,
    pub(super) files: Files,
    /// Parts of the configuration.
    pub(super) writes: &'static [&'static str],
    /// Targets, and what the server answers that runs it; none where the runtime need not be there.
    pub(super) asks: &'static [(&'static str, &'static str)],
}

const FLASK: &str = "from flask import Flask\napp = Flask(__name__)\n";
const FACTORY: &str =
    "import flask\n\n\ndef create_app(config=None):\n    app = flask.Flask(__name__)\n    return app\n";
const FASTAPI: &str = "from fastapi import FastAPI\n\napp = FastAPI()\n";
const DJANGO: &str =
    "from django.core.wsgi import get_wsgi_application\n\napplication = get_wsgi_application()\n";
const PLAIN: &str = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'plain ' + environ['PATH_INFO'].encode()]\n";
const EXPRESS: &str = "const app = require('express')();\napp.listen(process.env.PORT || 3000);\n";
pub(super) const PLAIN_NODE: &str =
    "require('node:http').createServer((q, r) => r.end('node ' + q.url)).listen(3000);\n";
pub(super) const MODULE: &str =
    "import http from 'node:http';\nhttp.createServer((q, r) => r.end('module ' + q.url)).listen(3000);\n";
/// Stands for the environment that a tool has made: the machine's own interpreter.
const PYTHON: &str = "#!/bin/sh\nexec python3 \"$@\"\n";

/// Modules of frameworks that say their name and the path: what is tried here is the command, not the framework.
const STUBS: Files = &[
    (
        "python/flask.py",
        "class Flask:\n    def __init__(self, name):\n        pass\n\n    def __call__(self, environ, start_response):\n        \
         start_response('200 OK', [])\n        return [b'flask ' + environ['PATH_INFO'].encode()]\n",
    ),
    (
        "python/fastapi.py",
        "class FastAPI:\n    async def __call__(self, scope, receive, send):\n        if scope['type'] != 'http':\n            \
         return\n        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n        \
         await send({'type': 'http.response.body', 'body': b'fastapi ' + scope['path'].encode()})\n",
    ),
    (
        "python/django/core/wsgi.py",
        "def get_wsgi_application():\n    def application(environ, start_response):\n        start_response('200 OK', [])\n        \
         return [b'django ' + environ['PATH_INFO'].encode()]\n    return application\n",
    ),
    (
        "node/express/index.js",
        "module.exports = () => ({\n  listen: (...to) => require('node:http').createServer((q, r) => r.end('express ' + q.url))\
         .listen(...to),\n});\n",
    ),
];

const PYTHON_CASES: &[Case] = &[
    Case {
        name: "Django",
        files: &[
            ("manage.py", ""),
            ("shop/settings.py", ""),
            ("shop/wsgi.py", DJANGO),
            ("static/a.txt", "a file"),
        ],
        writes: &["\"shop.wsgi:application\"", "/static/*"],
        asks: &[("/x", "django /x"), ("/static/a.txt", "a file")],
    },
    Case {
        name: "Django",
        files: &[("manage.py", ""), ("config/settings/base.py", ""), ("config/wsgi.py", DJANGO)],
        writes: &["\"config.wsgi:application\""],
        asks: &[("/x", "django /x")],
    },
    Case {
        name: "Django",
        files: &[
            ("backend/manage.py", ""),
            ("backend/shop/wsgi.py", DJANGO),
            ("backend/static/a.txt", "a file"),
        ],
        writes: &["cwd = \"backend\"", "\"backend/static\""],
        asks: &[("/x", "django /x"), ("/static/a.txt", "a file")],
    },
    Case {
        name: "Flask",
        files: &[("hello.py", FLASK)],
        writes: &["\"hello:app\""],
        asks: &[("/x", "flask /x")],
    },
    Case {
        name: "Flask",
        files: &[("shop/__init__.py", FACTORY), ("tests/test_shop.py", FLASK)],
        writes: &["\"shop:create_app()\""],
        asks: &[("/x", "flask /x")],
    },
    Case {
        name: "Python",
        files: &[
            ("shop/__init__.py", FACTORY),
            ("wsgi.py", "from shop import create_app\napp = create_app('x')\n"),
        ],
        writes: &["\"wsgi:app\""],
        asks: &[("/x", "flask /x")],
    },
    Case {
        name: "FastAPI",
        files: &[("app/__init__.py", ""), ("app/main.py", FASTAPI)],
        writes: &["\"app.main:app\""],
        asks: &[("/x", "fastapi /x")],
    },
    Case {
        name: "FastAPI",
        files: &[
            ("app/main.py", "from database import x\nfrom fastapi import FastAPI\napp = FastAPI()\n"),
            ("app/database.py", "x = 1\n"),
        ],
        writes: &["\"main:app\"", "cwd = \"app\""],
        asks: &[("/x", "fastapi /x")],
    },
    Case {
        name: "Flask",
        files: &[
            ("pyproject.toml", "[project]\nname = \"shop\"\n"),
            ("src/shop/__init__.py", ""),
            ("src/shop/web.py", FACTORY),
        ],
        writes: &["\"shop.web:create_app()\"", "cwd = \"src\""],
        asks: &[("/x", "flask /x")],
    },
    Case {
        name: "Flask",
        files: &[
            ("pyproject.toml", "[tool.poetry]\nname = \"my-shop\"\n"),
            ("poetry.lock", ""),
            ("aaa/__init__.py", FASTAPI),
            ("my_shop/__init__.py", FLASK),
            (".venv/bin/python3", PYTHON),
        ],
        writes: &["\".venv/bin/python3\"", "\"my_shop:app\""],
        asks: &[("/x", "flask /x")],
    },
    Case {
        name: "FastAPI",
        files: &[
            ("uv.lock", ""),
            ("src/shop/__init__.py", ""),
            ("src/shop/main.py", FASTAPI),
            (".venv/bin/python3", PYTHON),
        ],
        writes: &["\"../.venv/bin/python3\"", "\"shop.main:app\""],
        asks: &[("/x", "fastapi /x")],
    },
    Case {
        name: "Python",
        files: &[("shop/__init__.py", ""), ("shop/wsgi.py", PLAIN)],
        writes: &["\"shop.wsgi:application\""],
        asks: &[("/x", "plain /x")],
    },
    Case {
        name: "Flask",
        files: &[
            ("backend/app.py", FLASK),
            ("frontend/package.json", "{\"devDependencies\":{\"vite\":\"7\"}}"),
            (
                "frontend/vite.config.js",
                "export default { server: { proxy: { '/api': 'http://127.0.0.1:5000', '/auth': 'x' } } }",
            ),
            ("frontend/dist/index.html", "the page"),
            ("frontend/dist/a.js", "a script"),
        ],
        writes: &["cwd = \"backend\"", "path = \"/auth/*\""],
        asks: &[
            ("/api/x", "flask /api/x"),
            ("/auth/y", "flask /auth/y"),
            ("/", "the page"),
            ("/x/y", "the page"),
            ("/a.js", "a script"),
        ],
    },
];

const NODE_CASES: &[Case] = &[
    Case {
        name: "Express",
        files: &[
            (
                "package.json",
                "{\"dependencies\":{\"express\":\"5\"},\"scripts\":{\"start\":\"node src/index.js\"}}",
            ),
            ("src/index.js", EXPRESS),
            ("public/a.txt", "a file"),
        ],
        writes: &["\"src/index.js\""],
        asks: &[("/x", "express /x"), ("/a.txt", "a file")],
    },
    Case {
        name: "Express",
        files: &[
            ("package.json", "{\"main\":\"bin/www.js\",\"dependencies\":{\"express\":\"5\"}}"),
            ("bin/www.js", EXPRESS),
        ],
        writes: &["\"bin/www.js\""],
        asks: &[("/x", "express /x")],
    },
    Case {
        name: "Fastify",
        files: &[
            (
                "package.json",
                "{\"dependencies\":{\"fastify\":\"5\"},\"scripts\":{\"start\":\"NODE_ENV=production node server.mjs\"}}",
            ),
            ("server.mjs", MODULE),
        ],
        writes: &["\"NODE_ENV\" = \"production\"", "\"server.mjs\""],
        asks: &[("/x", "module /x")],
    },
    Case {
        name: "NestJS",
        files: &[
            ("package.json", "{\"dependencies\":{\"@nestjs/core\":\"11\"}}"),
            ("dist/main.js", PLAIN_NODE),
        ],
        writes: &["\"dist/main.js\""],
        asks: &[("/x", "node /x")],
    },
    Case {
        name: "Next.js",
        files: &[
            ("package.json", "{\"dependencies\":{\"next\":\"16\"}}"),
            (".next/standalone/server.js", PLAIN_NODE),
            (".next/static/a.js", "a script"),
            ("public/a.txt", "a file"),
        ],
        writes: &["\".next/standalone/server.js\""],
        asks: &[("/x", "node /x"), ("/_next/static/a.js", "a script"), ("/a.txt", "a file")],
    },
    Case {
        name: "Nuxt",
        files: &[
            ("package.json", "{\"dependencies\":{\"nuxt\":\"4\"}}"),
            (".output/server/index.mjs", MODULE),
        ],
        writes: &["\".output/server/index.mjs\""],
        asks: &[("/x", "module /x")],
    },
    Case {
        name: "SvelteKit",
        files: &[
            (
                "package.json",
                "{\"type\":\"module\",\"devDependencies\":{\"@sveltejs/kit\":\"2\",\"vite\":\"7\"}}",
            ),
            ("build/index.js", MODULE),
        ],
        writes: &["\"build/index.js\""],
        asks: &[("/x", "module /x")],
    },
    Case {
        name: "Astro",
        files: &[
            ("package.json", "{\"dependencies\":{\"astro\":\"5\",\"@astrojs/node\":\"9\"}}"),
            ("astro.config.mjs", ""),
            ("dist/server/entry.mjs", MODULE),
        ],
        writes: &["\"dist/server/entry.mjs\""],
        asks: &[("/x", "module /x")],
    },
    Case {
        name: "Remix",
        files: &[
            (
                "package.json",
                "{\"dependencies\":{\"@remix-run/serve\":\"2\"},\"scripts\":{\"start\":\"remix-serve ./build/server/index.js\"}}",
            ),
            (
                "node_modules/.bin/remix-serve",
                "#!/usr/bin/env node\nrequire(require('node:path').resolve(process.argv[2]));\n",
            ),
            ("build/server/index.js", PLAIN_NODE),
        ],
        writes: &["\"node_modules/.bin/remix-serve\", \"./build/server/index.js\""],
        asks: &[("/x", "node /x")],
    },
    Case {
        name: "Node.js",
        files: &[
            ("server/package.json", "{\"scripts\":{\"start\":\"node index.js\"}}"),
            ("server/index.js", PLAIN_NODE),
        ],
        writes: &["cwd = \"server\""],
        asks: &[("/x", "node /x")],
    },
];

const FILE_CASES: &[Case] = &[
    Case {
        name: "Vite",
        files: &[
            ("package.json", "{\"devDependencies\":{\"vite\":\"7\"}}"),
            ("index.html", "the source"),
            ("dist/index.html", "the page"),
            ("dist/assets/a.js", "a script"),
        ],
        writes: &["try = [\"{path}\", \"{path}/\", \"/index.html\"]"],
        asks: &[("/", "the page"), ("/orders/7", "the page"), ("/assets/a.js", "a script")],
    },
    Case {
        name: "Create React App",
        files: &[
            ("package.json", "{\"dependencies\":{\"react-scripts\":\"5\"}}"),
            ("build/index.html", "the page"),
        ],
        writes: &["root = \"build\""],
        asks: &[("/orders/7", "the page")],
    },
    Case {
        name: "Angular",
        files: &[
            ("angular.json", "{}"),
            ("package.json", "{}"),
            ("dist/shop/browser/index.html", "the page"),
        ],
        writes: &["root = \"dist/shop/browser\""],
        asks: &[("/orders/7", "the page")],
    },
    Case {
        name: "SvelteKit",
        files: &[
            (
                "package.json",
                "{\"devDependencies\":{\"@sveltejs/kit\":\"2\",\"@sveltejs/adapter-static\":\"3\"}}",
            ),
            ("build/index.html", "the page"),
            ("build/about.html", "about"),
            ("build/200.html", "another"),
        ],
        writes: &["\"/200.html\""],
        asks: &[("/", "the page"), ("/about", "about"), ("/orders/7", "another")],
    },
    Case {
        name: "Astro",
        files: &[
            ("package.json", "{\"dependencies\":{\"astro\":\"5\"}}"),
            ("astro.config.mjs", ""),
            ("dist/about/index.html", "about"),
            ("dist/index.html", ""),
        ],
        writes: &["root = \"dist\""],
        asks: &[("/about/", "about")],
    },
    Case {
        name: "Next.js, exported",
        files: &[
            ("package.json", "{\"dependencies\":{\"next\":\"16\"}}"),
            ("out/index.html", "the page"),
            ("out/about.html", "about"),
        ],
        writes: &["root = \"out\""],
        asks: &[("/", "the page"), ("/about", "about")],
    },
    Case {
        name: "Hugo",
        files: &[("hugo.toml", ""), ("content/a.md", ""), ("public/index.html", "the page")],
        writes: &["root = \"public\""],
        asks: &[("/", "the page")],
    },
    Case {
        name: "Jekyll",
        files: &[("_config.yml", ""), ("_site/index.html", "the page"), ("_site/about.html", "about")],
        writes: &["root = \"_site\""],
        asks: &[("/about", "about")],
    },
    Case {
        name: "MkDocs",
        files: &[("mkdocs.yml", ""), ("site/index.html", "the page")],
        writes: &[],
        asks: &[("/", "the page")],
    },
    Case {
        name: "Vite",
        files: &[
            ("client/package.json", "{\"devDependencies\":{\"vite\":\"7\"}}"),
            ("client/dist/index.html", "the page"),
        ],
        writes: &["root = \"client/dist\""],
        asks: &[("/orders/7", "the page")],
    },
    Case {
        name: "Files",
        files: &[("index.html", "the page")],
        writes: &["root = \".\""],
        asks: &[("/", "the page")],
    },
];

/// What runs nothing here: its runtime is not on every machine, or listens by itself.
const CHECKED: &[Case] = &[
    Case {
        name: "WordPress",
        files: &[("index.php", ""), ("wp-load.php", "")],
        writes: &["php = true"],
        asks: &[],
    },
    Case {
        name: "Laravel",
        files: &[("artisan", ""), ("public/index.php", ""), ("package.json", "{}")],
        writes: &["root = \"public\""],
        asks: &[],
    },
    Case {
        name: "Symfony",
        files: &[("bin/console", ""), ("public/index.php", "")],
        writes: &["root = \"public\""],
        asks: &[],
    },
    Case {
        name: "Drupal",
        files: &[("web/core/lib/Drupal.php", ""), ("web/index.php", "")],
        writes: &["root = \"web\""],
        asks: &[],
    },
    Case { name: "PHP", files: &[("index.php", "")], writes: &["root = \".\""], asks: &[] },
    Case { name: "PHP", files: &[("public/index.php", "")], writes: &["root = \"public\""], asks: &[] },
    Case {
        name: "Rails",
        files: &[("Gemfile", ""), ("config/application.rb", ""), ("config.ru", "")],
        writes: &["puma"],
        asks: &[],
    },
    Case {
        name: "Rack",
        files: &[("config.ru", "")],
        writes: &["bundle exec puma", "http://127.0.0.1:3000"],
        asks: &[],
    },
    Case { name: "Phoenix", files: &[("mix.exs", "")], writes: &["http://127.0.0.1:4000"], asks: &[] },
    Case { name: ".NET", files: &[("Shop.csproj", "")], writes: &["dotnet run"], asks: &[] },
    Case {
        name: "Spring Boot",
        files: &[("pom.xml", "<artifactId>spring-boot-starter</artifactId>"), ("target/shop-1.jar", "")],
        writes: &[
            "java -jar target/shop-1.jar --server.address=127.0.0.1 --server.port=9000",
            "http://127.0.0.1:9000",
        ],
        asks: &[],
    },
    Case {
        name: "Spring Boot",
        files: &[("build.gradle.kts", "org.springframework.boot")],
        writes: &["./gradlew bootJar"],
        asks: &[],
    },
    Case {
        name: "Go",
        files: &[("go.mod", "module shop\n"), ("main.go", "package main\n\n// \":8080\"\n")],
        writes: &["go build -o app .", "http://127.0.0.1:8080", "address = \"127.0.0.1:8000\""],
        asks: &[],
    },
    Case {
        name: "Go",
        files: &[
            ("go.mod", "module shop\n\nrequire maitred v0.0.0\n"),
            ("cmd/shop/main.go", "package main\n"),
        ],
        writes: &["command = [\"./app\"]"],
        asks: &[],
    },
    Case {
        name: "Rust",
        files: &[("Cargo.toml", "[package]\nname = \"shop\"\n"), ("src/main.rs", "bind(\"0.0.0.0:3000\")")],
        writes: &["target/release/shop", "http://127.0.0.1:3000"],
        asks: &[],
    },
    Case {
        name: "Next.js",
        files: &[("package.json", "{\"dependencies\":{\"next\":\"16\"}}")],
        writes: &["npx next start"],
        asks: &[],
    },
    Case {
        name: "Deno",
        files: &[("deno.json", "{}")],
        writes: &["deno task start", "http://127.0.0.1:8000"],
        asks: &[],
    },
    Case {
        name: "Bun",
        files: &[("bun.lock", ""), ("package.json", "{\"scripts\":{\"start\":\"bun run a.ts\"}}")],
        writes: &["bun run a.ts"],
        asks: &[],
    },
    Case { name: "Bun", files: &[("bun.lock", ""), ("index.ts", "")], writes: &["bun run start"], asks: &[] },
    Case {
        name: "Executable",
        files: &[("shop", "\x7fELF, which reads MAITRED_CHANNEL"), ("README", "")],
        writes: &["command = [\"./shop\"]"],
        asks: &[],
    },
    Case {
        name: "FastAPI",
        files: &[("uv.lock", ""), ("main.py", FASTAPI)],
        writes: &["\".venv/bin/python3\""],
        asks: &[],
    },
];

/// Directories that cannot be served as they are: a part of why, and of what to do.
const REFUSED: &[(Files, &str, &str)] = &[
    (
        &[("package.json", "{\"devDependencies\":{\"vite\":\"7\"}}"), ("index.html", "")],
        "Vite, because of `vite` in package.json, is not built",
        "npm run build",
    ),
    (
        &[("package.json", "{\"dependencies\":{\"nuxt\":\"4\"}}")],
        "there is no .output/server/index.mjs",
        "npm run build",
    ),
    (&[("hugo.toml", "")], "Hugo, because of hugo.toml, is not built", "hugo, and then"),
    (
        &[("app.py", "def create_app(config):\n    pass\n")],
        "create_app in app.py has to be given something",
        "from app import create_app",
    ),
    (&[("manage.py", "")], "no package with a wsgi.py or asgi.py", "module:application"),
    (
        &[("package.json", "{\"scripts\":{\"start\":\"concurrently a b && c\"}}")],
        "cannot be started by Maitred",
        "maitred/register",
    ),
    (
        &[("go.mod", "module a"), ("cmd/a/a.go", "package main"), ("cmd/b/b.go", "package main")],
        "several programs: cmd/a, cmd/b",
        "go build",
    ),
    (&[("shop", "\x7fELF")], "./shop has no adapter for Maitred", "connect = "),
    (
        &[("backend/app.py", FLASK), ("frontend/package.json", "{\"dependencies\":{\"next\":\"16\"}}")],
        "there are two applications here: Flask",
        "docs/routing.md",
    ),
    (&[("README", "")], "nothing in this directory is known", "docs/one-line.md"),
];

/// Modules and packages that stand for frameworks, and the adapter for Node.js.
fn stubs() -> tempfile::TempDir {
    let stubs = directory(STUBS);
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/node").canonicalize().unwrap();
    std::os::unix::fs::symlink(adapter, stubs.path().join("node/maitred")).unwrap();
    stubs
}

/// The directory of a case; programs in it may be executed.
fn made(files: Files) -> tempfile::TempDir {
    let dir = directory(files);
    for (name, text) in files {
        if text.starts_with("#!") || text.starts_with("\x7fELF") {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(dir.path().join(name), mode).unwrap();
        }
    }
    dir
}

/// A server that runs the file that was written.
struct Served {
    child: Child,
    address: SocketAddr,
    said: Arc<Mutex<String>>,
}

impl Served {
    fn start(dir: &Path, stubs: &Path) -> Served {
        let file = dir.join("maitred.toml");
        let text = std::fs::read_to_string(&file).unwrap().replace("127.0.0.1:8080", "127.0.0.1:0");
        std::fs::write(&file, text).unwrap();
        let mut run = command(dir, &["run"]);
        let modules = |name: &str| stubs.join(name).display().to_string();
        let python = run.get_envs().find_map(|(name, value)| value.filter(|_| name == "PYTHONPATH"));
        let python = format!("{}:{}", python.unwrap().to_str().unwrap(), modules("python"));
        run.env("PYTHONPATH", python).env("NODE_PATH", modules("node"));
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&said);
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| into.lock().unwrap().push_str(&(line + "\n")));
        });
        let mut address = None;
        eventually("it has an address", || {
            let said = said.lock().unwrap();
            let at = said.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
            address = at.filter(|_| said.ends_with('\n')).and_then(|at| at.parse().ok());
            assert!(address.is_some() || child.try_wait().unwrap().is_none(), "{said}");
            address.is_some()
        });
        Served { child, address: address.unwrap(), said }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.said.lock().unwrap());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has `init` write the configuration of a case, and `check` look at it.
fn written(case: &Case) -> tempfile::TempDir {
    let dir = made(case.files);
    let written = output(dir.path(), &["init"]);
    let said = String::from_utf8_lossy(&[written.stdout, written.stderr].concat()).into_owned();
    assert!(said.starts_with(&format!("{}, because of ", case.name)), "{}: {said}", case.name);
    let text = std::fs::read_to_string(dir.path().join("maitred.toml")).unwrap();
    for part in case.writes {
        assert!(text.contains(part), "{}: {part} is not in this:\n{text}", case.name);
    }
    for part in text.split("\n\n").filter(|part| part.lines().any(|line| line.starts_with('['))) {
        assert!(part.lines().any(|line| line.starts_with("# ")), "{}: no comment: {part}", case.name);
    }
    let checked = output(dir.path(), &["check"]);
    assert!(checked.status.success(), "{}: {}\n{text}", case.name, String::from_utf8_lossy(&checked.stderr));
    dir
}

fn run(cases: &[Case]) {
    let stubs = stubs();
    for case in cases {
        let dir = written(case);
        let server = Served::start(dir.path(), stubs.path());
        for (target, answer) in case.asks {
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let response = Client::connect(server.address).ask(&request);
            assert_eq!((response.status, response.text()), (200, *answer), "{}: {target}", case.name);
        }
    }
}

#[test]
fn what_init_writes_for_python_runs() {
    run(PYTHON_CASES);
}

#[test]
fn what_init_writes_for_node_runs() {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip_missing("no node (Debian: nodejs)");
    }
    run(NODE_CASES);
    run(alike::NODE);
}

#[test]
fn what_init_writes_for_files_runs() {
    run(FILE_CASES);
    run(alike::FILES);
}

#[test]
fn what_init_writes_for_go_runs_when_it_is_built_as_it_says() {
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/go").canonicalize().unwrap();
    let module = format!(
        "module shop\n\ngo 1.19\n\nrequire maitred v0.0.0\n\nreplace maitred => {}\n",
        adapter.display()
    );
    let main = "package main\n\nimport (\n\t\"io\"\n\t\"maitred\"\n\t\"net/http\"\n)\n\nfunc main() {\n\t\
                answer := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, \"go \"+r.URL.Path) }\n\t\
                maitred.ListenAndServe(\":0\", http.HandlerFunc(answer))\n}\n";
    let dir = directory(&[("go.mod", &module), ("main.go", main)]);
    let said = String::from_utf8(output(dir.path(), &["init"]).stdout).unwrap();
    let step = said.lines().find_map(|line| line.strip_prefix("next: ")).unwrap();
    assert_eq!(step, "go build -o app .");
    let mut words = step.split(' ');
    let mut build = Command::new(words.next().unwrap());
    match build.args(words).current_dir(dir.path()).env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").status()
    {
        Ok(status) => assert!(status.success()),
        Err(error) => return skip_missing(format_args!("go cannot be run: {error}")),
    }
    let server = Served::start(dir.path(), dir.path());
    assert_eq!(Client::connect(server.address).get("/x").text(), "go /x");
}

#[test]
fn what_init_writes_for_php_runs() {
    let Some(php) = Php::fpm(2) else { return };
    let dir =
        directory(&[("public/index.php", "<?php echo 'php ', $_SERVER['REQUEST_URI'];"), ("artisan", "")]);
    for path in [dir.path().to_owned(), dir.path().join("public")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(output(dir.path(), &["init"]).status.success());
    let file = dir.path().join("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("connect = \"fastcgi+unix:")).unwrap();
    std::fs::write(&file, text.replace(line, &format!("connect = \"{}\"", php.url()))).unwrap();
    let server = Served::start(dir.path(), dir.path());
    assert_eq!(Client::connect(server.address).get("/x").text(), "php /x");
}

#[test]
fn what_init_writes_for_other_runtimes_passes_the_check() {
    for case in CHECKED {
        written(case);
    }
}

#[test]
fn what_cannot_be_served_is_told_what_to_write() {
    for (files, why, help) in REFUSED {
        let dir = made(files);
        refused(dir.path(), &["init"], why);
        refused(dir.path(), &["init"], help);
        assert!(!dir.path().join("maitred.toml").exists(), "{why}");
    }
}

#[test]
fn init_overwrites_nothing_and_says_what_is_to_be_done_first() {
    let dir = made(&[("uv.lock", ""), ("main.py", FASTAPI)]);
    let said = String::from_utf8(output(dir.path(), &["init"]).stdout).unwrap();
    let steps: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("next: ")).collect();
    assert_eq!((steps[0], steps[2]), ("uv sync", "maitred check && maitred run"), "{said}");
    assert!(steps[1].starts_with("install the adapter into .venv: the wheel"), "{said}");
    let before = std::fs::read(dir.path().join("maitred.toml")).unwrap();
    refused(dir.path(), &["init"], "is not overwritten");
    assert_eq!(std::fs::read(dir.path().join("maitred.toml")).unwrap(), before);
    let dir = made(&[("Gemfile", ""), ("config/application.rb", "")]);
    let said = String::from_utf8(output(dir.path(), &["init"]).stdout).unwrap();
    assert!(said.contains("next: start the application: bundle exec puma"), "{said}");
}

#[test]
fn each_layout_of_the_table_has_a_directory() {
    let cases = [PYTHON_CASES, NODE_CASES, FILE_CASES, CHECKED, alike::NODE, alike::FILES];
    for layout in maitred::detect::layouts::LAYOUTS {
        let is_tried = cases.iter().copied().flatten().any(|case| case.name == layout.name);
        assert!(is_tried, "{}", layout.name);
    }
}
