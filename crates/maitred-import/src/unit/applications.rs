//! Applications, upstreams and proxies of Unit: pools.

use serde_json::Value as Json;

use super::context::Context;
use crate::model::{Block, Value};
use crate::report::Kind;
use crate::write;
use maitred_config::{Lookup as _, System};

/// The pool of an application, or of one of its targets.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn pool(cx: &Context<'_>, name: &str, target: Option<&str>) -> Result<String, String> {
    let path = format!("/applications/{}", name.replace('/', "~1"));
    let member =
        cx.root.get("applications").and_then(|all| all.get(name)).ok_or("there is no such application")?;
    // Nothing leads to an application with targets but by one of them.
    let targets = member.get("targets").and_then(Json::as_object);
    let target = target.or_else(|| targets?.keys().next().map(String::as_str));
    let part = format!("{path}/{}", target.unwrap_or_default());
    if let Some(known) = cx.known(&part) {
        return Ok(known);
    }
    let spot = Spot { cx, path: &path, member, target: target.and_then(|target| targets?.get(target)) };
    let mut block = Block::new("").from(&cx.place(&path), &path);
    let kind = spot.text("type").unwrap_or_default().to_ascii_lowercase();
    let kind = kind
        .split([' ', '-'])
        .next()
        .unwrap_or_default()
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match kind {
        "python" => spot.python(&mut block)?,
        "external" | "node" | "nodejs" | "go" => spot.external(&mut block)?,
        "php" => spot.php(&mut block),
        "ruby" | "perl" | "java" | "wasm" => {
            let why = format!(
                "there is no adapter for {kind}: run a server of its own (Puma, Starman, Tomcat) at the address of the pool"
            );
            cx.not_possible(&format!("{path}/type"), why);
            block.push("connect", format!("http+unix:/run/{}.sock", name.replace(['/', ' '], "-")), None);
        }
        other => return Err(format!("there is no adapter for applications of type `{other}`")),
    }
    cx.translated(&path);
    spot.processes(&mut block);
    spot.rest(block.has("command"));
    let wanted = match target {
        Some(target) if targets.is_some_and(|targets| targets.len() > 1) => format!("{name}-{target}"),
        _ => name.to_owned(),
    };
    Ok(cx.pool(&part, &wanted, block))
}

struct Spot<'s, 'a> {
    cx: &'s Context<'a>,
    path: &'s str,
    member: &'s Json,
    target: Option<&'s Json>,
}

/// Members that are read somewhere below.
const READ: &[&str] = &[
    "type",
    "module",
    "callable",
    "path",
    "home",
    "environment",
    "user",
    "group",
    "working_directory",
    "processes",
    "limits",
    "threads",
    "targets",
    "executable",
    "arguments",
    "root",
    "script",
    "index",
    "prefix",
    "protocol",
    "factory",
];

/// Members about processes that Unit starts.
const OF_PROCESSES: &[&str] =
    &["user", "environment", "working_directory", "processes", "threads", "home", "path"];

/// `workers` of a pool with a fixed number of processes.
fn always(count: u64, most: Option<(String, Value)>) -> Value {
    let Some(most) = most else { return count.into() };
    let keys = ["start", "min_spare", "max_spare", "max"];
    Value::Table(keys.map(|key| (key.to_owned(), count.into())).into_iter().chain([most]).collect())
}

impl Spot<'_, '_> {
    fn of(&self, key: &str) -> Option<&Json> {
        self.target.and_then(|target| target.get(key)).or_else(|| self.member.get(key))
    }

    fn text(&self, key: &str) -> Option<&str> {
        let value = self.of(key)?;
        if !value.is_string() {
            self.cx.not_possible(&format!("{}/{key}", self.path), "this is no text");
        }
        value.as_str()
    }

    fn python(&self, block: &mut Block) -> Result<(), String> {
        let module = self.text("module").ok_or("it has no `module`")?;
        let callable = self.text("callable").unwrap_or("application");
        let python = match self.text("home") {
            Some(home) => format!("{}/bin/python3", home.trim_end_matches('/')),
            None => "python3".to_owned(),
        };
        let mut command = vec![python, "-m".into(), "maitred".into()];
        if let Some(threads) = self.of("threads").and_then(Json::as_u64).filter(|threads| *threads > 1) {
            command.extend(["--threads".to_owned(), threads.to_string()]);
        }
        if self.of("factory").and_then(Json::as_bool) == Some(true) {
            self.cx.not_possible(
                &format!("{}/factory", self.path),
                "the application is an object: call the factory in a module",
            );
        }
        command.push(format!("{module}:{callable}"));
        block.push("command", Value::texts(&command), None);
        if let Some(prefix) =
            self.text("prefix").map(|prefix| prefix.trim_end_matches('/')).filter(|prefix| !prefix.is_empty())
        {
            block.push("mount", prefix, None);
        }
        let list = self
            .of("path")
            .and_then(Json::as_array)
            .map(|all| all.iter().filter_map(Json::as_str).collect::<Vec<_>>());
        let paths = list.unwrap_or_else(|| self.of("path").and_then(Json::as_str).into_iter().collect());
        let mut environment = Vec::new();
        // What is looked for in the directory of the process is found without it.
        if paths.len() > 1 || (!paths.is_empty() && self.of("working_directory").is_some()) {
            environment.push(("PYTHONPATH".to_owned(), paths.join(":").into()));
        }
        self.started(block, paths.first().copied(), environment);
        Ok(())
    }

    fn external(&self, block: &mut Block) -> Result<(), String> {
        let executable = self.text("executable").ok_or("it has no `executable`")?;
        let arguments = self.of("arguments").and_then(Json::as_array);
        let mut command: Vec<String> = vec![executable.to_owned()];
        command.extend(arguments.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned));
        if executable == "/usr/bin/env" && command.len() > 1 {
            command.remove(0);
        }
        if command.first().is_some_and(|program| program.ends_with("node")) {
            // The modules that make a program for Node.js one of Unit; here another one does.
            let loader = |word: &String| {
                word.contains("unit-http") || word == "--loader" || word == "--require" || word == "-r"
            };
            command.retain(|word| !loader(word));
            command.splice(1..1, ["--require".to_owned(), "maitred/register".to_owned()]);
        } else if command.first().is_some_and(|program| program.ends_with(".js") || program.ends_with(".mjs"))
        {
            command.splice(0..0, ["node", "--require", "maitred/register"].map(str::to_owned));
        } else {
            block.notes.push(
                "a program for Unit's own library: use the one of adapters/ for its language instead".into(),
            );
        }
        block.push("command", Value::texts(&command), None);
        self.started(block, None, Vec::new());
        Ok(())
    }

    /// php-fpm runs the scripts.
    fn php(&self, block: &mut Block) {
        block.notes.push(
            "php-fpm runs the scripts: its pool has the account, the number of processes and the options"
                .into(),
        );
        block.push("connect", "fastcgi+unix:/run/php/php-fpm.sock", None);
        let Some(root) = self.text("root") else { return };
        // With `script` every request goes to that one, and no other script runs.
        if let Some(script) = self.text("script") {
            let script = format!("{}/{}", root.trim_end_matches('/'), script.trim_start_matches('/'));
            block.push("script_filename", script, None);
            return;
        }
        let index = self.text("index").unwrap_or("index.php").to_owned();
        let mut keys: Vec<(&str, Value)> = vec![("root", root.into())];
        if index != "index.php" {
            keys.push(("index", index.into()));
        }
        let missing = format!("{root} is there on this machine");
        for (key, value) in keys {
            match self.cx.machine.has_directory(root) {
                true => block.push(key, value, None),
                false => block.push_off(key, value, None, &missing),
            }
        }
    }

    /// What processes that Maitred starts have: a directory, an environment, an account.
    fn started(&self, block: &mut Block, path: Option<&str>, mut environment: Vec<(String, Value)>) {
        if let Some(directory) = self.text("working_directory").or(path) {
            match self.cx.machine.has_directory(directory) {
                true => block.push("cwd", directory, None),
                false => {
                    block.push_off("cwd", directory, None, &format!("{directory} is there on this machine"))
                }
            }
        }
        let given = self.of("environment").and_then(Json::as_object);
        environment.extend(
            given
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))),
        );
        if !environment.is_empty() {
            block.push("env", Value::Table(environment), None);
        }
        let there = |name: &&str| System.user(name).is_ok_and(|user| user.is_some());
        let wanted = self.text("user");
        if wanted.is_some_and(|name| !there(&name)) {
            let why = "there is no such account on this machine: processes have that of `daemon`";
            self.cx.say(&format!("{}/user", self.path), Kind::Choice, why);
        }
        let user = wanted.filter(there).or_else(|| System.is_root().then_some("daemon"));
        if let Some(user) = user.filter(|_| System.is_root()) {
            block.push("user", user, None);
        }
    }

    fn processes(&self, block: &mut Block) {
        let path = |key: &str| format!("{}/{key}", self.path);
        let own = block.has("command");
        let requests = self.of("limits").and_then(|limits| limits.get("requests")).and_then(Json::as_u64);
        let requests = requests.filter(|requests| *requests > 0);
        let most = requests.map(|requests| ("max_requests".to_owned(), Value::Whole(requests)));
        match self.of("processes") {
            Some(Json::Number(number)) if own => {
                let count = number.as_u64().unwrap_or(1).clamp(1, 819);
                block.push("workers", always(count, most), None);
            }
            Some(Json::Object(table)) if own => {
                let number = |key: &str| table.get(key).and_then(Json::as_u64);
                let max = number("max").unwrap_or(1).clamp(1, 819);
                let spare = number("spare").unwrap_or(0).min(max);
                let idle = number("idle_timeout").unwrap_or(15).clamp(1, 86_400);
                let entries = [
                    ("start", Value::Whole(spare)),
                    ("min_spare", Value::Whole(spare.min(max))),
                    ("max_spare", Value::Whole(spare.max(1).min(max))),
                    ("max", Value::Whole(max)),
                    ("retire_after", write::time(idle * 1000).into()),
                ];
                let entries = entries.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(most);
                block.push("workers", Value::Table(entries.collect()), None);
            }
            None if own => block.push("workers", always(1, most), None),
            _ => {}
        }
        for (key, value) in self.of("limits").and_then(Json::as_object).into_iter().flatten() {
            match (key.as_str(), value.as_u64()) {
                ("timeout", Some(seconds)) => {
                    block.push(
                        "request_timeout",
                        write::time(seconds.saturating_mul(1000).clamp(1, 86_400_000)),
                        None,
                    );
                }
                ("requests", Some(_)) if own => self.cx.translated(&path("limits/requests")),
                _ => self.cx.say(
                    &path(&format!("limits/{key}")),
                    Kind::Choice,
                    "the pool has settings of its own",
                ),
            }
        }
    }

    /// Says what became of each member. `own`: Maitred starts the processes.
    fn rest(&self, own: bool) {
        for key in self.member.as_object().into_iter().flatten().map(|(key, _)| key) {
            let path = format!("{}/{key}", self.path);
            match key.as_str() {
                "group" => self.cx.say(&path, Kind::Choice, "processes have the groups of their account"),
                "protocol" => {
                    self.cx.say(&path, Kind::NotNeeded, "the adapter finds out what the application is")
                }
                known if !own && OF_PROCESSES.contains(&known) => {
                    self.cx.say(
                        &path,
                        Kind::NotNeeded,
                        "the processes are those of the server at the pool's address",
                    );
                }
                known if READ.contains(&known) => self.cx.translated(&path),
                "stdout" | "stderr" => {
                    self.cx.say(&path, Kind::Choice, "what processes write goes to the error log")
                }
                "isolation" => self.cx.say(
                    &path,
                    Kind::Worse,
                    "`isolate` and `user` keep a pool apart, and systemd does the rest",
                ),
                "thread_stack_size" => {
                    self.cx.say(&path, Kind::Choice, "threads have the stack that Python gives them")
                }
                "options" => {
                    self.cx.not_possible(&path, "options of PHP stand in php-fpm's pool: `php_admin_value`")
                }
                _ => self.cx.not_possible(&path, "there is no counterpart"),
            }
        }
    }
}

/// The pool of an upstream.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn upstream(cx: &Context<'_>, name: &str) -> Result<String, String> {
    let path = format!("/upstreams/{name}");
    if let Some(known) = cx.known(&path) {
        return Ok(known);
    }
    let servers = cx
        .root
        .get("upstreams")
        .and_then(|all| all.get(name)?.get("servers")?.as_object())
        .ok_or("there is no such upstream")?;
    let weight = |server: &Json| server.get("weight").and_then(Json::as_f64).unwrap_or(1.0);
    let asked: Vec<(String, f64)> = servers
        .iter()
        .map(|(address, server)| (connect(address), weight(server)))
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
    if asked.is_empty() {
        return Err("it has no server".into());
    }
    cx.translated(&path);
    let mut block = Block::new("").from(&cx.place(&path), &path);
    block.push("connect", weighted(&asked), None);
    if asked.len() > 1 {
        block.push("balance", "round_robin", None);
    }
    Ok(cx.pool(&path, name, block))
}

/// Servers with their weights, which are whole numbers here.
fn weighted(asked: &[(String, f64)]) -> Value {
    if asked.iter().all(|(_, weight)| *weight == 1.0) {
        let addresses: Vec<&String> = asked.iter().map(|(address, _)| address).collect();
        return Value::one_or_more(&addresses);
    }
    let is_whole = |factor: f64| asked.iter().all(|(_, weight)| (weight * factor).fract() == 0.0);
    let factor = [1.0, 10.0, 100.0].into_iter().find(|factor| is_whole(*factor)).unwrap_or(100.0);
    let server = |(address, weight): &(String, f64)| {
        let whole = format!("{:.0}", (weight * factor).round().clamp(1.0, 1000.0));
        let whole = whole.parse::<u64>().unwrap_or(1);
        Value::Table(vec![("url".to_owned(), address.as_str().into()), ("weight".to_owned(), whole.into())])
    };
    Value::List(asked.iter().map(server).collect())
}

fn connect(address: &str) -> String {
    match address.strip_prefix("unix:") {
        Some(path) => format!("http+unix:{path}"),
        None => format!("http://{address}"),
    }
}

/// The pool of a `proxy`.
///
/// # Errors
/// Why it is not possible.
pub(crate) fn proxy(cx: &Context<'_>, path: &str, address: &str) -> Result<String, String> {
    let part = format!("proxy {address}");
    if let Some(known) = cx.known(&part) {
        return Ok(known);
    }
    let server = address.strip_prefix("http://").ok_or("pools speak HTTP in cleartext")?;
    let wanted = server
        .rsplit(':')
        .next()
        .map_or("app".to_owned(), |port| format!("app-{}", port.rsplit('/').next().unwrap_or(port)));
    let mut block = Block::new("").from(&cx.place(path), path);
    block.push("connect", connect(server), None);
    Ok(cx.pool(&part, &wanted, block))
}
