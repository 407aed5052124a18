//! Deliberate faults: each is done to recorded answers of the server, as a server with that fault would have answered, and the
//! relations have to find it. The server itself is not built again for them, so that they belong to each run of the tests; those
//! of `product_mutants.toml` are made in its source.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;

use crate::CONFIGURATIONS;
use crate::ask::{Answer, Arrival, Ask, Clients};
use crate::case::Case;
use crate::judge::Source;
use crate::pools::Kind;
use crate::run::{judge_from, numbers};
use crate::site::Guise;
use crate::world::World;

/// A request, as a server has it.
struct Call<'c> {
    by: Arrival,
    guise: Guise,
    host: &'c str,
    ask: &'c Ask,
    target: &'c str,
}

/// What a server with the fault remembers of earlier requests.
type Memory = HashMap<String, Answer>;

/// A name, and what it does to an answer.
type Mutant = (&'static str, fn(&mut Memory, &Call<'_>, Answer) -> Answer);

fn without(mut answer: Answer, names: &[&str]) -> Answer {
    answer.fields.retain(|(name, _)| !names.contains(&name.as_str()));
    answer
}

/// With another end of the line of the application's content that begins so; without the line if there is none.
fn with_line(mut answer: Answer, begin: &str, change: impl Fn(&str) -> Option<String>) -> Answer {
    if answer.line(begin).is_none() {
        return answer;
    }
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = |line: &str| match line.strip_prefix(begin) {
        Some(rest) => change(rest).map(|rest| format!("{begin}{rest}\n")),
        None => Some(format!("{line}\n")),
    };
    answer.body = text.lines().filter_map(line).collect::<String>().into_bytes();
    answer
}

/// Gives what was kept under a key, and keeps what may be kept by a wrong rule.
fn kept(
    memory: &mut Memory,
    call: &Call<'_>,
    answer: Answer,
    key: String,
    may: impl Fn(&Answer) -> bool,
) -> Answer {
    if call.guise.is_plain || call.ask.method != "GET" {
        return answer;
    }
    if let Some(old) = memory.get(&key) {
        return old.clone();
    }
    if answer.field("x-number").is_some() && may(&answer) {
        memory.insert(key, answer.clone());
    }
    answer
}

fn url(call: &Call<'_>) -> String {
    format!("{} {}", call.host, call.target)
}

/// Whether the application says this about caches.
fn says(call: &Call<'_>, what: &str) -> bool {
    call.target.contains(what)
}

const FRESH: &str = "max-age~60";

#[rustfmt::skip]
const MUTANTS: &[Mutant] = &[
    ("security fields are left out of errors over HTTP/3", |_, call, answer| match call.by {
        Arrival::Http3 if answer.status >= 400 => without(answer, &["x-content-type-options"]),
        _ => answer,
    }),
    ("the key of the cache has no host", |memory, call, answer| {
        let key = format!("{} {}", call.ask.path, call.ask.query);
        kept(memory, call, answer, key, |_| says(call, FRESH))
    }),
    ("no-store is kept", |memory, call, answer| {
        kept(memory, call, answer, url(call), |_| says(call, "no-store"))
    }),
    ("what is stale is given", |memory, call, answer| {
        kept(memory, call, answer, url(call), |_| says(call, "max-age~0"))
    }),
    ("what has no lifetime is kept", |memory, call, answer| {
        kept(memory, call, answer, url(call), |_| !says(call, "cc="))
    }),
    ("the cache answers before the gate", |memory, call, answer| {
        kept(memory, call, answer, url(call), |_| says(call, "public") || says(call, "s-maxage"))
    }),
    ("the cache loses the entity tag", |_, _, answer| match answer.field("cache-status") {
        Some(_) => without(answer, &["etag"]),
        None => answer,
    }),
    ("an application gets the target as it was sent", |_, call, answer| {
        with_line(answer, "target ", |_| Some(call.target.to_owned()))
    }),
    ("the last byte of compressed content is lost", |_, _, answer| match answer.field("content-encoding") {
        Some(_) => {
            let mut answer = answer.decoded();
            answer.body.pop();
            answer
        }
        None => answer,
    }),
    ("content of requests is lost over HTTP/3", |_, call, answer| match call.by {
        Arrival::Http3 => with_line(answer, "body ", |_| Some("0 0".to_owned())),
        _ => answer,
    }),
    ("a plus in a query is a blank over HTTP/2", |_, call, answer| match call.by {
        Arrival::Http2 => with_line(answer, "target ", |target| Some(target.replace('+', " "))),
        _ => answer,
    }),
    ("a method that is not allowed is not found over HTTP/2", |_, call, mut answer| {
        if call.by == Arrival::Http2 && answer.status == 405 {
            answer.status = 404;
        }
        answer
    }),
    ("a relay loses Set-Cookie", |_, call, answer| match call.guise.kind {
        Kind::Relay => without(answer, &["set-cookie"]),
        _ => answer,
    }),
    ("servers of HTTP/2 get no cookies", |_, call, answer| match call.guise.kind {
        Kind::Http2 => with_line(answer, "cookie: ", |_| None),
        _ => answer,
    }),
    ("FastCGI loses the status", |_, call, mut answer| {
        if call.guise.kind == Kind::FastCgi && answer.status == 404 {
            answer.status = 200;
        }
        answer
    }),
    ("a site answers at the listener of others", |_, call, mut answer| {
        if call.by.is_secure() && answer.status == 421 {
            answer.status = 200;
        }
        answer
    }),
    ("the subject of a certificate is left out over HTTP/3", |_, call, answer| match call.by {
        Arrival::Http3 => with_line(answer, "x-ssl-client-s-dn: ", |_| None),
        _ => answer,
    }),
    ("a client without a certificate gets what was kept for one that has one", |memory, call, answer| {
        let key = format!("{} {:?} {}", url(call), call.ask.fields, call.by.is_secure());
        kept(memory, call, answer, key, |_| says(call, "public") || says(call, "s-maxage"))
    }),
    ("a part of a content begins a byte too late", |_, _, mut answer| {
        if answer.status == 206 && answer.body.len() > 1 {
            answer.body.rotate_left(1);
        }
        answer
    }),
    ("If-Range is not looked at", |memory, call, answer| {
        let is_conditional = call.ask.fields.iter().any(|(name, _)| *name == "if-range");
        match memory.get(&url(call)) {
            Some(whole) if is_conditional && whole.status == 200 && whole.body.len() > 9 => {
                let mut part = Answer { status: 206, body: whole.body[..10].to_vec(), fields: whole.fields.clone() };
                part.fields.push(("content-range".to_owned(), format!("bytes 0-9/{}", whole.body.len())));
                part
            }
            _ => {
                memory.insert(url(call), answer.clone());
                answer
            }
        }
    }),
    ("the field of a module is left out over HTTP/2", |_, call, answer| match call.by {
        Arrival::Http2 => with_line(answer, "x-user: ", |_| None),
        _ => answer,
    }),
    ("a front controller gets the target that was judged", |_, call, mut answer| {
        if call.guise.kind == Kind::Controller {
            let told = answer.fields.iter_mut().filter(|(name, _)| name == "x-told-target");
            told.for_each(|(_, target)| *target = target.replace("%2F", "/").replace('+', "%2B"));
        }
        answer
    }),
    ("redirects are encoded twice over HTTP/2", |_, call, mut answer| {
        if call.by == Arrival::Http2 {
            let location = answer.fields.iter_mut().filter(|(name, _)| name == "location");
            location.for_each(|(_, value)| *value = value.replace('%', "%25"));
        }
        answer
    }),
];

/// Asks the server, and keeps the answers.
struct Recorder<'r, 's> {
    clients: &'r mut Clients<'s>,
    answers: VecDeque<Answer>,
}

impl Source for Recorder<'_, '_> {
    fn ask(&mut self, by: Arrival, guise: Guise, host: &str, ask: &Ask, target: &str) -> Answer {
        let answer = self.clients.ask(by, guise, host, ask, target);
        self.answers.push_back(answer.clone());
        answer
    }
}

/// Gives the answers again, with a fault.
struct Replay<'r> {
    answers: VecDeque<Answer>,
    mutant: &'r Mutant,
    memory: Memory,
}

impl Source for Replay<'_> {
    fn ask(&mut self, by: Arrival, guise: Guise, host: &str, ask: &Ask, target: &str) -> Answer {
        let answer = self.answers.pop_front().expect("a fault ends a step, and adds no requests to it");
        (self.mutant.1)(&mut self.memory, &Call { by, guise, host, ask, target }, answer)
    }
}

/// Which faults are found with these cases, and by which seed.
fn find(world: &World, cases: &[Case], found: &Mutex<BTreeMap<&'static str, u64>>) {
    let mut clients = Clients::new(world);
    for case in cases {
        for step in &case.steps {
            let number = numbers();
            let mut recorder = Recorder { clients: &mut clients, answers: VecDeque::new() };
            if judge_from(&mut recorder, case, step, number).is_err() {
                // The other test says so; here it would hide what is looked for.
                clients = Clients::new(world);
                continue;
            }
            let answers = recorder.answers;
            for mutant in MUTANTS {
                if found.lock().unwrap().contains_key(mutant.0) {
                    continue;
                }
                let mut replay = Replay { answers: answers.clone(), mutant, memory: Memory::new() };
                if judge_from(&mut replay, case, step, number).is_err() {
                    found.lock().unwrap().entry(mutant.0).or_insert(case.seed);
                }
            }
        }
    }
}

#[test]
fn deliberate_faults_are_found() {
    const SITES_PER_FILE: usize = 100;
    const CLIENTS: usize = 4;
    let world = World::start();
    let found = Mutex::new(BTreeMap::new());
    let seeds: Vec<u64> = (0..CONFIGURATIONS).collect();
    for seeds in seeds.chunks(SITES_PER_FILE) {
        let cases = Case::all(seeds, &world.credentials);
        let text: String = cases.iter().map(Case::text).collect();
        // A file of which the server refuses a site is left out, all of it.
        if world.put(&world.file(&text)).is_err() {
            continue;
        }
        std::thread::scope(|scope| {
            for cases in cases.chunks(SITES_PER_FILE / CLIENTS) {
                scope.spawn(|| find(&world, cases, &found));
            }
        });
        if found.lock().unwrap().len() == MUTANTS.len() {
            break;
        }
    }
    let found = found.into_inner().unwrap();
    eprintln!("{found:#?}");
    let missed: Vec<_> =
        MUTANTS.iter().map(|(name, _)| name).filter(|name| !found.contains_key(**name)).collect();
    assert!(missed.is_empty(), "not found in {CONFIGURATIONS} configurations: {missed:#?}");
}
