//! Programs of Node.js: which file is started, and how.

use serde_json::Value;

use super::place::Place;
use super::{Advice, Application, Kind};

/// Endings of what Node.js runs as it is.
pub const ENDINGS: &[&str] = &[".js", ".mjs", ".cjs"];
/// Programs that replace a program when its files change: the program behind them is the one.
const WATCHERS: &[&str] = &["nodemon", "node-dev", "pm2-runtime"];

/// How a program is started.
struct Start {
    command: Vec<String>,
    env: Vec<(String, String)>,
}

/// A server that a command has built: the first of these programs that is there.
pub fn built(
    name: &'static str,
    seen: &str,
    place: Place<'_>,
    programs: &[&str],
    build: &str,
) -> Result<Application, Advice> {
    let Some(program) = place.first(programs) else {
        let wanted = programs.first().copied().unwrap_or_default();
        return Err(Advice::new(
            format!("{name}, because of {seen}, is not built: there is no {wanted}"),
            format!("{build}, and then `maitred init` again"),
        ));
    };
    let seen = if seen.contains(program) { seen.to_owned() } else { format!("{seen}, and {program}") };
    Ok(Application::new(name, seen, Kind::Command(command(place, &[program]))))
}

/// What package.json starts: its `scripts.start`, its `main`, or the first of these programs. `None` if it starts nothing.
pub fn package(
    name: &'static str,
    seen: &str,
    place: Place<'_>,
    package: &Value,
    programs: &[&str],
) -> Option<Result<Application, Advice>> {
    let script = package.get("scripts").and_then(|scripts| scripts.get("start")).and_then(Value::as_str);
    if let Some(script) = script {
        let because = format!("{seen}, and its `scripts.start`");
        return Some(started(name, &because, place, script));
    }
    let main = package.get("main").and_then(Value::as_str).filter(|main| place.has(main));
    let program = main.or_else(|| place.first(programs))?;
    let because = format!("{seen}, and {program}");
    Some(Ok(Application::new(name, because, Kind::Command(command(place, &[program])))))
}

/// The command that a script of package.json stands for, with the adapter.
fn started(name: &'static str, because: &str, place: Place<'_>, script: &str) -> Result<Application, Advice> {
    // Runtimes that know nothing of the adapter; their programs listen by themselves.
    let runtime = [("bun ", "Bun"), ("deno ", "Deno")].into_iter().find(|(word, _)| script.starts_with(word));
    if let Some((_, runtime)) = runtime {
        let start = Kind::Server { url: "http://127.0.0.1:3000".into(), start: script.to_owned() };
        return Ok(Application::new(runtime, because, start));
    }
    let start = words(script).and_then(|words| with_adapter(place, words)).ok_or_else(|| {
        Advice::new(
            format!("{name}, because of {seen}: `{script}` cannot be started by Maitred", seen = because),
            "write the program that it starts: command = [\"node\", \"--require\", \"maitred/register\", \"server.js\"]; \
             or start it, and write where it listens: connect = \"http://127.0.0.1:3000\"",
        )
    })?;
    let mut found = Application::new(name, because, Kind::Command(start.command));
    found.env = start.env;
    Ok(found)
}

/// The words of a script, if a shell makes nothing else of it.
fn words(script: &str) -> Option<Vec<&str>> {
    let plain = !script.contains(['&', '|', ';', '<', '>', '$', '`', '(', '*', '"', '\'', '\\']);
    plain.then(|| script.split_whitespace().collect())
}

fn with_adapter(place: Place<'_>, words: Vec<&str>) -> Option<Start> {
    let mut words = words.into_iter().skip_while(|word| *word == "cross-env").peekable();
    let mut env = Vec::new();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        env.push((name.to_owned(), value.to_owned()));
        words.next();
    }
    let program = words.next()?;
    let rest: Vec<&str> = words.collect();
    if rest.is_empty() && (program == "node" || program == "tsx") {
        return None;
    }
    let command = match program {
        "node" => command(place, &rest),
        watcher if WATCHERS.contains(&watcher) => command(place, &rest),
        "tsx" => command(place, &[&["--import", "tsx"], &rest[..]].concat()),
        "npm" | "npx" | "yarn" | "pnpm" => return None,
        // A program of a package, which is JavaScript.
        program => {
            let path = format!("node_modules/.bin/{program}");
            if !place.text(&path).is_some_and(|text| text.starts_with("#!/usr/bin/env node")) {
                return None;
            }
            command(place, &[&[path.as_str()], &rest[..]].concat())
        }
    };
    Some(Start { command, env })
}

/// How a program of Node.js is started with these arguments: as it is if it names the adapter itself.
pub fn command(place: Place<'_>, arguments: &[&str]) -> Vec<String> {
    let program = arguments.iter().find(|argument| ENDINGS.iter().any(|end| argument.ends_with(end)));
    let text = program.and_then(|program| place.text(program)).unwrap_or_default();
    let names_adapter = ["'maitred'", "\"maitred\""].iter().any(|name| text.contains(name));
    let words: &[&str] = if names_adapter { &["node"] } else { &["node", "--require", "maitred/register"] };
    words.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Option<(String, Vec<(String, String)>)> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("node_modules/.bin")).unwrap();
        std::fs::write(dir.path().join("node_modules/.bin/fastify"), "#!/usr/bin/env node\n").unwrap();
        std::fs::write(dir.path().join("own.js"), "require('maitred')").unwrap();
        let start = with_adapter(Place::new(dir.path()), words(script)?)?;
        Some((start.command.join(" "), start.env))
    }

    #[test]
    fn scripts_become_commands_with_the_adapter() {
        let is = |script: &str, command: &str| {
            assert_eq!(of(script).map(|start| start.0).as_deref(), Some(command), "{script}")
        };
        is("node server.js", "node --require maitred/register server.js");
        is(
            "node --enable-source-maps dist/a.js -x",
            "node --require maitred/register --enable-source-maps dist/a.js -x",
        );
        is("nodemon a.js", "node --require maitred/register a.js");
        is("node own.js", "node own.js");
        is("tsx src/a.ts", "node --require maitred/register --import tsx src/a.ts");
        is("fastify start a.js", "node --require maitred/register node_modules/.bin/fastify start a.js");
        let env = of("NODE_ENV=production PORT=1 node a.js").unwrap().1;
        assert_eq!(
            env,
            [("NODE_ENV".to_owned(), "production".to_owned()), ("PORT".to_owned(), "1".to_owned())]
        );
        for no in ["npm run build && node a.js", "next start", "node", "npm run serve", "node \"a b.js\""] {
            assert_eq!(of(no), None, "{no}");
        }
    }
}
