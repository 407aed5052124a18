//! The table of what a directory can hold. The first layout whose marks are all there, and that can be served, is the one.

use super::place::Place;

/// What a directory has to have for a layout.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// Files, of which one has to be there.
    File(&'static [&'static str]),
    /// A file whose name ends so.
    End(&'static str),
    /// A directory.
    Directory(&'static str),
    /// Packages of package.json, of which one has to be there: those that it runs with.
    Depends(&'static [&'static str]),
    /// Packages of package.json, of which one has to be there: those that it is built with, too.
    BuiltWith(&'static [&'static str]),
    /// A file with this text.
    Text(&'static str, &'static str),
}

/// How what a layout has is served.
#[derive(Debug, Clone, Copy)]
pub enum Serve {
    /// A project of Django.
    Django,
    /// An application, or what makes one, in a module or a package of Python.
    Python,
    /// The first of these programs, by the adapter for Node.js; they are there after this command.
    Node(&'static [&'static str], &'static str),
    /// What `scripts.start` or `main` of package.json name, or the first of these programs, by the adapter for Node.js.
    Package(&'static [&'static str]),
    /// php-fpm, which has one of these directories; the first in which there is an index.php.
    Php(&'static [&'static str]),
    /// A server that listens by itself, at this port, started by this command.
    Listens(u16, &'static str),
    /// A program of Go.
    Go,
    /// A program of Rust.
    Cargo,
    /// A jar below this directory, which this command builds.
    Jar(&'static str, &'static str),
    /// Files that this command has made, in the first of these directories (`*` is any one), and what is tried besides the path.
    Built(&'static [&'static str], &'static [&'static str], &'static str),
    /// Files as they are, in the first of these directories that has an index.html.
    Files(&'static [&'static str]),
    /// The one program in the directory.
    Executable,
}

/// A layout.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The layout's name, for people; layouts of Python are called by the framework that is found.
    pub name: &'static str,
    /// What has to be there, all of it.
    pub marks: &'static [Mark],
    /// How it is served.
    pub serve: Serve,
    /// Directories of files beside it, with the paths that clients know them by.
    pub assets: &'static [(&'static str, &'static str)],
}

/// Directories of files beside an application of Python, by convention, with the paths that clients know them by.
pub const PYTHON_ASSETS: &[(&str, &str)] = &[("/static/", "static"), ("/public/", "public")];
/// The same for Node.js, whose frameworks have the files of `public` at the root of the site.
pub const NODE_ASSETS: &[(&str, &str)] = &[("/static/", "static"), ("/", "public")];
/// The directories of Next.js, whose server does not have them where it is built to stand alone.
const NEXT_ASSETS: &[(&str, &str)] = &[("/_next/static/", ".next/static"), ("/", "public")];

/// Programs that frameworks of Node.js are started by, where package.json names none.
const PROGRAMS: &[&str] = &[
    "server.js",
    "app.js",
    "index.js",
    "main.js",
    "src/server.js",
    "src/app.js",
    "src/index.js",
    "src/main.js",
];
/// Where a program of NestJS is, when it is built.
const NEST: &[&str] = &["dist/main.js", "dist/src/main.js"];
/// What a single-page application shows at every path of its own.
const SINGLE_PAGE: &[&str] = &["/index.html"];
const NPM: &str = "npm run build";
const ASTRO: &[&str] = &["astro.config.mjs", "astro.config.ts", "astro.config.js"];
const HUGO: &[&str] = &["hugo.toml", "hugo.yaml", "hugo.yml", "hugo.json"];
const GRADLE: &[&str] = &["build.gradle", "build.gradle.kts"];
const DENO: &[&str] = &["deno.json", "deno.jsonc"];
const BUN: &[&str] = &["bun.lock", "bun.lockb", "bunfig.toml"];

const fn row(name: &'static str, marks: &'static [Mark], serve: Serve) -> Layout {
    Layout { name, marks, serve, assets: &[] }
}

const fn with(layout: Layout, assets: &'static [(&'static str, &'static str)]) -> Layout {
    Layout { assets, ..layout }
}

use Mark::{BuiltWith, Depends, Directory, End, File, Text};

/// In the order in which they are looked for: what is more particular comes first.
#[rustfmt::skip]
pub const LAYOUTS: &[Layout] = &[
    with(row("Django", &[File(&["manage.py"])], Serve::Django), PYTHON_ASSETS),
    row("WordPress", &[File(&["wp-load.php"])], Serve::Php(&["."])),
    row("Laravel", &[File(&["artisan"])], Serve::Php(&["public"])),
    row("Symfony", &[File(&["bin/console"]), File(&["public/index.php"])], Serve::Php(&["public"])),
    row("Drupal", &[File(&["web/core/lib/Drupal.php"])], Serve::Php(&["web"])),
    row("PHP", &[File(&["public/index.php"])], Serve::Php(&["public"])),
    row("Rails", &[File(&["config/application.rb"])], Serve::Listens(3000, "bundle exec puma -b tcp://127.0.0.1:3000")),
    row("Rack", &[File(&["config.ru"])], Serve::Listens(3000, "bundle exec puma -b tcp://127.0.0.1:3000")),
    row("Phoenix", &[File(&["mix.exs"])], Serve::Listens(4000, "PHX_SERVER=true MIX_ENV=prod mix phx.server")),
    row("Spring Boot", &[Text("pom.xml", "spring-boot")], Serve::Jar("target", "mvn package")),
    row("Spring Boot", &[File(GRADLE), Text("build.gradle", "spring")], Serve::Jar("build/libs", "./gradlew bootJar")),
    row("Spring Boot", &[Text("build.gradle.kts", "spring")], Serve::Jar("build/libs", "./gradlew bootJar")),
    row(".NET", &[End(".csproj")], Serve::Listens(5000, "dotnet run --configuration Release --urls http://127.0.0.1:5000")),
    row("Go", &[File(&["go.mod"])], Serve::Go),
    row("Rust", &[File(&["Cargo.toml"]), File(&["src/main.rs"])], Serve::Cargo),
    with(row("Python", &[], Serve::Python), PYTHON_ASSETS),
    with(row("Next.js", &[Depends(&["next"]), File(&[".next/standalone/server.js"])],
             Serve::Node(&[".next/standalone/server.js"], NPM)), NEXT_ASSETS),
    row("Next.js, exported", &[Depends(&["next"]), File(&["out/index.html"])],
        Serve::Built(&["out"], &["{path}.html"], NPM)),
    row("Next.js", &[Depends(&["next"])], Serve::Listens(3000, "npx next start -p 3000 -H 127.0.0.1")),
    row("Nuxt, generated", &[BuiltWith(&["nuxt"]), File(&[".output/public/200.html"])],
        Serve::Built(&[".output/public"], &["/200.html"], "npx nuxi generate")),
    row("Nuxt", &[BuiltWith(&["nuxt"])], Serve::Node(&[".output/server/index.mjs"], NPM)),
    row("React Router", &[Depends(&["@react-router/serve"])], Serve::Package(&[])),
    row("Remix", &[Depends(&["@remix-run/serve"])], Serve::Package(&[])),
    row("SvelteKit", &[BuiltWith(&["@sveltejs/adapter-static"])], Serve::Built(&["build"], &["{path}.html", "/200.html"], NPM)),
    row("SvelteKit", &[BuiltWith(&["@sveltejs/kit"])], Serve::Node(&["build/index.js"], NPM)),
    row("Astro", &[File(ASTRO), BuiltWith(&["@astrojs/node"])], Serve::Node(&["dist/server/entry.mjs"], NPM)),
    row("Astro", &[File(ASTRO)], Serve::Built(&["dist"], &[], NPM)),
    with(row("NestJS", &[Depends(&["@nestjs/core"])], Serve::Node(NEST, NPM)), NODE_ASSETS),
    with(row("Express", &[Depends(&["express"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    with(row("Fastify", &[Depends(&["fastify"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    with(row("Koa", &[Depends(&["koa"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    with(row("Hono", &[Depends(&["@hono/node-server"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    with(row("hapi", &[Depends(&["@hapi/hapi"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    row("Angular", &[File(&["angular.json"])], Serve::Built(&["dist/*/browser", "dist/*", "dist"], SINGLE_PAGE, NPM)),
    row("Create React App", &[BuiltWith(&["react-scripts"])], Serve::Built(&["build"], SINGLE_PAGE, NPM)),
    row("Gatsby", &[BuiltWith(&["gatsby"])], Serve::Built(&["public"], &[], NPM)),
    row("Docusaurus", &[BuiltWith(&["@docusaurus/core"])], Serve::Built(&["build"], &[], NPM)),
    row("Eleventy", &[BuiltWith(&["@11ty/eleventy"])], Serve::Built(&["_site"], &[], "npx @11ty/eleventy")),
    row("Vue CLI", &[BuiltWith(&["@vue/cli-service"])], Serve::Built(&["dist"], SINGLE_PAGE, NPM)),
    row("Vite", &[BuiltWith(&["vite"])], Serve::Built(&["dist"], SINGLE_PAGE, NPM)),
    row("Deno", &[File(DENO)], Serve::Listens(8000, "deno task start")),
    with(row("Node.js", &[File(&["package.json"])], Serve::Package(PROGRAMS)), NODE_ASSETS),
    row("Bun", &[File(BUN)], Serve::Listens(3000, "bun run start")),
    row("PHP", &[File(&["index.php", "htdocs/index.php", "web/index.php", "www/index.php"])],
        Serve::Php(&[".", "htdocs", "web", "www"])),
    row("Hugo", &[File(HUGO)], Serve::Built(&["public"], &[], "hugo")),
    row("Hugo", &[File(&["config.toml", "config.yaml"]), Directory("content")], Serve::Built(&["public"], &[], "hugo")),
    row("Hexo", &[File(&["_config.yml"]), Directory("scaffolds")], Serve::Built(&["public"], &[], "npx hexo generate")),
    row("Jekyll", &[File(&["_config.yml", "_config.yaml"])], Serve::Built(&["_site"], &["{path}.html"], "bundle exec jekyll build")),
    row("MkDocs", &[File(&["mkdocs.yml", "mkdocs.yaml"])], Serve::Built(&["site"], &[], "mkdocs build")),
    row("mdBook", &[File(&["book.toml"])], Serve::Built(&["book", "book/html"], &["{path}.html"], "mdbook build")),
    row("Files", &[], Serve::Files(&["dist", "build", "public", "_site", "out", "site", "."])),
    row("Executable", &[], Serve::Executable),
];

/// Directories of what is split into an application and a browser's program, in a repository of both.
pub const BACKENDS: &[&str] =
    &["backend", "server", "api", "apps/api", "apps/backend", "apps/server", "packages/server"];
/// The other half.
pub const FRONTENDS: &[&str] = &[
    "frontend",
    "client",
    "web",
    "ui",
    "front",
    "apps/web",
    "apps/frontend",
    "apps/client",
    "packages/client",
];
/// Where modules of Python are, if they are not at the top.
pub const SOURCES: &[&str] = &["src", "lib"];

impl Layout {
    /// What it is known by in this directory, for people; `None` if something of it is missing.
    pub fn seen(&self, place: Place<'_>, package: Option<&serde_json::Value>) -> Option<Vec<String>> {
        self.marks.iter().map(|mark| mark.seen(place, package)).collect()
    }
}

impl Mark {
    fn seen(&self, place: Place<'_>, package: Option<&serde_json::Value>) -> Option<String> {
        match *self {
            File(names) => place.first(names).map(str::to_owned),
            End(end) => place.files(end).into_iter().next(),
            Directory(name) => place.has_directory(name).then(|| format!("{name}/")),
            Depends(names) => depends(package, &["dependencies"], names),
            BuiltWith(names) => depends(package, &["dependencies", "devDependencies"], names),
            Text(file, text) => place.text(file)?.contains(text).then(|| format!("`{text}` in {file}")),
        }
    }
}

fn depends(package: Option<&serde_json::Value>, tables: &[&str], names: &[&str]) -> Option<String> {
    let has =
        |name: &str| tables.iter().any(|table| package.and_then(|all| all.get(table)?.get(name)).is_some());
    names.iter().find(|name| has(name)).map(|name| format!("`{name}` in package.json"))
}
