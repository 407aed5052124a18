//! Relations between files: the same configuration said in another way, and what `check` says of a file that a server refuses.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use maitred_testing::random::Random;

use crate::ask::{Answer, Arrival, Ask, Clients};
use crate::case::Case;
use crate::identity::Who;
use crate::judge::Source as _;
use crate::pools::{KINDS, Kind};
use crate::requests::Step;
use crate::run::numbers;
use crate::seen::{Seen, difference};
use crate::support::{binary, eventually};
use crate::world::World;

/// Other seeds than those of the other relations.
const FIRST_SEED: u64 = 1_000_000;
const SITES: u64 = 40;
/// Files with a fault, for each run.
const BROKEN: u64 = 24;

fn cases(world: &World) -> Vec<Case> {
    let seeds: Vec<_> = (FIRST_SEED..FIRST_SEED + SITES).collect();
    Case::all(&seeds, &world.credentials)
}

/// What the first request of each case gets.
fn answers(world: &World, cases: &[Case]) -> Vec<Seen> {
    let mut clients = Clients::new(world);
    let one = |case: &Case| {
        let Some(Step::Alike(ask)) = case.steps.first() else { unreachable!("cases begin so") };
        let [base, ..] = case.guises;
        let (host, number) = (case.host(base), numbers());
        let by = if ask.certificate == Who::None { Arrival::Http1 } else { Arrival::Secure1 };
        let answer = clients.ask(by, base, &host, ask, &ask.target(number));
        Seen::new(&answer, &host, number)
    };
    cases.iter().map(one).collect()
}

fn compare(how: &str, cases: &[Case], before: &[Seen], after: &[Seen]) {
    for ((case, before), after) in cases.iter().zip(before).zip(after) {
        if let Some(what) = difference(before, after) {
            panic!("{how}: seed {}: {what}\n{:?}\n{}", case.seed, case.steps[0], case.text());
        }
    }
}

/// One file of the sites, whose guises stand together.
fn parts(cases: &[Case], size: usize) -> Vec<String> {
    cases.chunks(size).map(|cases| cases.iter().map(Case::text).collect()).collect()
}

#[test]
fn a_configuration_that_is_said_in_another_way_answers_the_same() {
    let world = World::start();
    let mut cases = cases(&world);
    // What is refused is no matter here.
    while let Err(refused) = world.put(&world.file(&parts(&cases, usize::MAX).concat())) {
        let fits = |case: &Case| world.put(&world.file(&case.text())).is_ok();
        let fitting: Vec<_> = cases.iter().filter(|case| fits(case)).cloned().collect();
        assert!(fitting.len() < cases.len() && fitting.len() * 2 > cases.len(), "{refused}");
        cases = fitting;
    }
    let before = answers(&world, &cases);

    let (status, said) = world.server.command(&["reload"]);
    assert!(status.success(), "{said}");
    compare("reloaded", &cases, &before, &answers(&world, &cases));

    let mut turned = parts(&cases, 1);
    turned.reverse();
    world.put(&world.file(&turned.concat())).unwrap();
    compare("sites in another order", &cases, &before, &answers(&world, &cases));

    let mut imports = String::new();
    for (at, part) in parts(&cases, 7).iter().enumerate() {
        let _ = write!(imports, "{}\"part-{at}.toml\"", if at == 0 { "" } else { ", " });
        fs::write(world.server.path(&format!("part-{at}.toml")), part).unwrap();
    }
    fs::write(world.server.path("pools.toml"), &world.pools.tables).unwrap();
    let main = crate::world::whole("", "");
    world.put(&format!("import = [{imports}, \"pools.toml\"]\n{main}")).unwrap();
    compare("divided into files", &cases, &before, &answers(&world, &cases));

    let world = world.again();
    compare("started anew", &cases, &before, &answers(&world, &cases));
}

/// Sites that keep all, by one pool of each kind.
fn keeping(role: &str) -> String {
    let site = |kind: &Kind| {
        let name = kind.name();
        format!(
            "[[site]]\nhosts = [\"{name}.test\"]\ncache = true\n[[site.route]]\npath = \"/*\"\npool = \"{role}-{name}\"\n"
        )
    };
    KINDS.iter().map(site).collect()
}

#[test]
fn what_is_kept_comes_from_no_other_pool_after_a_reload() {
    let world = World::start();
    let ask = Ask {
        method: "GET",
        path: "/kept".to_owned(),
        query: "cc=max-age~60".to_owned(),
        fields: Vec::new(),
        body: Vec::new(),
        certificate: Who::None,
    };
    let [guise, ..] = Case::new(0, &world.credentials).guises;
    let get = |clients: &mut Clients<'_>, kind: &Kind| {
        clients.ask(Arrival::Http1, guise, &format!("{}.test", kind.name()), &ask, &ask.target(0))
    };
    world.put(&world.file(&keeping("a"))).unwrap();
    let mut clients = Clients::new(&world);
    for kind in &KINDS {
        let first = get(&mut clients, kind);
        eventually("the answer is kept", || {
            let number = |answer: &Answer| answer.field("x-number").map(str::to_owned);
            let (one, other) = (get(&mut clients, kind), get(&mut clients, kind));
            assert_eq!(first.field("x-told-pool"), Some("a"));
            number(&one) == number(&other)
        });
    }
    world.put(&world.file(&keeping("b"))).unwrap();
    let mut clients = Clients::new(&world);
    for kind in &KINDS {
        let answer = get(&mut clients, kind);
        assert!(
            answer.field("x-told-pool") == Some("b"),
            "kept over a reload: {kind:?}: it was to come from the pool b\n{answer}"
        );
    }
}

/// A file with one fault, or something that may be none.
fn broken(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.within(0..lines.len());
    let other = random.within(0..lines.len());
    match random.within(0..7) {
        0 => drop(lines.remove(at)),
        1 => {
            let line = lines[at].clone();
            lines.insert(at, line);
        }
        2 => {
            let line = lines[other].clone();
            lines.insert(at, line);
        }
        3 => lines.swap(at, other),
        4 => lines[at] = lines[at].replace('"', ""),
        5 => lines[at] = lines[at].replace("true", "17").replace("-direct", "-other").replace('1', "-1"),
        _ => lines[at] = lines[at].replacen('e', "a", 1),
    }
    lines.join("\n")
}

#[test]
fn check_says_ok_exactly_where_a_server_takes_a_file() {
    let world = World::start();
    let (mut taken, mut refused) = (0, 0);
    for seed in FIRST_SEED..FIRST_SEED + BROKEN {
        let mut random = Random::new(seed);
        let case = Case::new(seed, &world.credentials);
        let text = world.file(&broken(&mut random, &case.text()));
        fs::write(world.server.path("candidate.toml"), &text).unwrap();
        let mut check = Command::new(binary());
        check.args(["check", "-c", "candidate.toml"]).current_dir(world.server.path("."));
        let output = check.stdin(Stdio::null()).output().unwrap();
        let put = world.put(&text);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            put.is_ok(),
            "check and server: seed {seed}: check: {said}\nserver: {put:?}\n{text}"
        );
        *if put.is_ok() { &mut taken } else { &mut refused } += 1;
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused: both have to be tried");
}
