//! One part of a test: random events, and then an end that everything has to come to.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use maitred_testing::model::{Asked, Connection, Fate, Progress, Request, Transport};
use maitred_testing::response;
use rustix::process::{Pid, Signal, kill_process};

use crate::ownership::client::Client;
use crate::ownership::puppet::Phase;
use crate::ownership::stage::{Ending, Line, Stage};

/// After this, something hangs. More than a request takes that Maitred ends by itself, on a machine that is busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Clients at the same time.
const LINES_MAX: usize = 8;
/// Receive buffers of clients that are slow, and of those that are not any more.
const NARROW_BYTES: usize = 16 * 1024;
const WIDE_BYTES: usize = 1024 * 1024;
/// How long a reload is waited for while requests are under way: they become too old.
const RELOAD_MAX: Duration = Duration::from_millis(700);
/// How long nothing has to come until the test goes on. Whether something comes later changes what is tested, not what is right.
const QUIET: Duration = Duration::from_millis(4);

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Event {
    Connect,
    Send,
    SendAll,
    Read,
    Step,
    Finish,
    HalfClose,
    Leave,
    Reload,
    KillWorker,
    CrashIdle,
    LeaveIdle,
    Settle,
}

/// What an episode is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    pub(crate) events: usize,
    /// Applications misbehave, and processes die.
    pub(crate) wild: bool,
    /// The worker process may be killed.
    pub(crate) kills: bool,
    /// The queue is short.
    pub(crate) refusals: bool,
    /// Reloads are frequent.
    pub(crate) restless: bool,
    /// And many of them are waited for, so that what is under way goes on over links.
    pub(crate) links: bool,
}

/// Lets random things happen, brings all of them to their end, and judges what every client has received.
pub(crate) fn run(stage: &mut Stage, mood: Mood) {
    stage.wild = mood.wild;
    let mut killed = false;
    for _ in 0..mood.events {
        let often = usize::from(mood.wild);
        let event = stage.random.weighted(&[
            (10, Event::Connect),
            (12, Event::Send),
            (14, Event::SendAll),
            (8, Event::Read),
            (25, Event::Step),
            (16, Event::Finish),
            (2, Event::HalfClose),
            (4, Event::Leave),
            (if mood.restless { 6 } else { 1 }, Event::Reload),
            (usize::from(mood.kills && !killed), Event::KillWorker),
            (often, Event::CrashIdle),
            (often, Event::LeaveIdle),
            (10, Event::Settle),
        ]);
        killed |= matches!(event, Event::KillWorker);
        happen(stage, event, mood);
        if stage.random.percent(60) {
            stage.pump(Duration::ZERO);
        }
    }
    finish(stage);
    judge(stage);
    wait_until(stage, "nothing is left after a part", is_quiet);
    stage.clear();
}

fn happen(stage: &mut Stage, event: Event, mood: Mood) {
    match event {
        Event::Connect => connect(stage, mood),
        Event::Send | Event::SendAll => {
            if let Some(at) = any(stage, |line| line.client.may_send()) {
                let some = stage.random.within(1..400);
                let bytes = if matches!(event, Event::Send) { some } else { usize::MAX };
                send(stage, at, bytes);
            }
        }
        Event::Read => {
            if let Some(at) = any(stage, |line| line.client.stream.is_some()) {
                let bytes =
                    if stage.random.percent(50) { usize::MAX } else { stage.random.within(1..50_000) };
                stage.lines[at].client.read(bytes);
            }
        }
        Event::Step => step_one(stage),
        Event::Finish => {
            let before = stage.jobs.len();
            for _ in 0..40 {
                step_one(stage);
                if stage.jobs.len() < before {
                    break;
                }
            }
        }
        Event::HalfClose => {
            if let Some(at) = any(stage, |line| line.client.stream.is_some() && !line.client.half_closed) {
                half_close(stage, at);
            }
        }
        Event::Leave => {
            let slow = stage.random.percent(60);
            if let Some(at) = any(stage, |line| line.client.stream.is_some() && (!slow || !line.reads)) {
                let reset = stage.random.percent(60);
                stage.note(|| format!("client {at} leaves, reset {reset}"));
                stage.lines[at].client.leave(reset);
                stage.lines[at].model.left = true;
            }
        }
        Event::Reload => {
            let waits = mood.links && stage.random.percent(60);
            reload(stage, waits);
        }
        Event::KillWorker => kill_worker(stage),
        Event::CrashIdle | Event::LeaveIdle => idle_ends(stage, matches!(event, Event::CrashIdle)),
        Event::Settle => while stage.pump(QUIET) && take_all(stage) {},
    }
    stage.let_leave();
    stage.doom_the_slow();
}

/// One of the lines for which `holds`.
fn any(stage: &mut Stage, holds: impl Fn(&Line) -> bool) -> Option<usize> {
    let found: Vec<usize> = (0..stage.lines.len()).filter(|at| holds(&stage.lines[*at])).collect();
    if found.is_empty() { None } else { Some(found[stage.random.within(0..found.len())]) }
}

fn connect(stage: &mut Stage, mood: Mood) {
    if stage.lines.iter().filter(|line| line.client.stream.is_some()).count() >= LINES_MAX {
        return;
    }
    let count = stage.random.weighted(&[(4, 1), (3, 2), (2, 3), (1, 6)]);
    let (mut bytes, mut boundaries, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    let only = stage.random.weighted(&[(2, Some(Transport::Direct)), (2, Some(Transport::Relay)), (1, None)]);
    for _ in 0..count {
        let id = stage.next_id();
        let random = &mut stage.random;
        let method = random.weighted(&[(6, "GET"), (2, "HEAD"), (4, "POST")]);
        let http10 = random.percent(15);
        let length =
            if random.percent(30) { 20_000 + random.within(0..200_000) } else { random.within(0..3000) };
        let either = if random.percent(50) { Transport::Direct } else { Transport::Relay };
        let asked = Asked {
            id,
            method,
            http10,
            keep: if http10 { random.percent(50) } else { random.percent(85) },
            transport: only.unwrap_or(either),
            upgrade: false,
            fixed: false,
            body: if method == "POST" { response::pattern(id, length) } else { Vec::new() },
        };
        let upgrade = method == "GET" && !http10 && asked.keep && random.percent(12);
        let asked = Asked { upgrade, ..asked };
        bytes.extend(response::request_bytes(&asked, random));
        boundaries.push(bytes.len());
        requests.push(Request::new(asked));
    }
    let client = Client::connect(stage.server.address, bytes);
    let reads = stage.random.percent(55);
    if !reads && stage.random.percent(80) {
        client.set_room(NARROW_BYTES);
    }
    let at = stage.lines.len();
    let asks: Vec<String> = requests.iter().map(|request| shown(&request.asked)).collect();
    stage.note(|| format!("client {at} at {}, reads {reads}: {}", client.local, asks.join(", ")));
    let model = Connection { requests, refusals: mood.refusals, ..Connection::default() };
    stage.add_line(Line { client, model, boundaries, reads, progress: None });
}

fn shown(asked: &Asked) -> String {
    let Asked { id, method, http10, keep, transport, upgrade, body, .. } = asked;
    let more = [(*http10, " 1.0"), (!keep, " close"), (*upgrade, " upgrade")];
    let more: String = more.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
    format!("{method} {id} {transport:?}{more} +{}", body.len())
}

fn send(stage: &mut Stage, at: usize, bytes: usize) {
    let line = &mut stage.lines[at];
    line.client.send(bytes);
    let sent = line.client.sent();
    for (request, end) in line.model.requests.iter_mut().zip(&line.boundaries) {
        request.sent |= *end <= sent;
    }
    stage.note(|| format!("client {at} has sent {sent}"));
}

fn half_close(stage: &mut Stage, at: usize) {
    stage.note(|| format!("client {at} has finished sending"));
    let line = &mut stage.lines[at];
    line.client.half_close();
    line.model.half_closed = true;
}

fn step_one(stage: &mut Stage) {
    if !stage.jobs.is_empty() {
        let at = stage.random.within(0..stage.jobs.len());
        stage.step(at);
    }
}

/// Begins a reload, whether or not the last one has come to its end. `waits`: the test goes on when the next worker process
/// answers, with all requests as they are.
fn reload(stage: &mut Stage, waits: bool) {
    stage.note(|| "reload".into());
    let generation = |stage: &Stage| stage.server.status()["generation"].as_u64();
    let before = if waits { generation(stage) } else { None };
    kill_process(stage.server.pid(), Signal::HUP).unwrap();
    let deadline = Instant::now() + RELOAD_MAX;
    while waits && Instant::now() < deadline {
        stage.pump(QUIET);
        if generation(stage) > before {
            stage.note(|| "the next worker process answers".into());
            return;
        }
    }
}

/// Worker processes: children of the master that run the same program.
pub(crate) fn workers(stage: &Stage) -> Vec<i32> {
    let id = stage.server.pid().as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let own = std::fs::read_link(format!("/proc/{id}/exe")).ok();
    let children = text.split_whitespace().filter_map(|number| number.parse().ok());
    children.filter(|child: &i32| std::fs::read_link(format!("/proc/{child}/exe")).ok() == own).collect()
}

fn kill_worker(stage: &mut Stage) {
    let Some(pid) = workers(stage).first().copied().and_then(Pid::from_raw) else { return };
    stage.note(|| "the worker process is killed".into());
    let _ = kill_process(pid, Signal::KILL);
    stage.ledger.has_gaps = true;
    stage.lines.iter_mut().for_each(|line| line.model.cut = true);
}

/// A process without requests ends.
fn idle_ends(stage: &mut Stage, crashes: bool) {
    let busy: BTreeSet<u32> = stage.jobs.iter().map(|job| job.puppet).collect();
    let idle = |at: &usize| stage.puppets[*at].may_speak() && !busy.contains(&stage.puppets[*at].number);
    let idle: Vec<usize> = (0..stage.puppets.len()).filter(idle).collect();
    if idle.is_empty() {
        return;
    }
    let at = idle[stage.random.within(0..idle.len())];
    match crashes {
        true => {
            let how = stage.random.weighted(&[(2, Ending::Crash), (2, Ending::Killed), (1, Ending::Closes)]);
            stage.crash(at, how);
        }
        false => stage.leave(at),
    }
}

/// Clients that read take what is there. Whether to go on.
fn take_all(stage: &mut Stage) -> bool {
    stage.lines.iter_mut().filter(|line| line.reads).for_each(|line| _ = line.client.read(usize::MAX));
    true
}

/// Everything comes to its end: each process that has requests answers, clients read, and close when they have all they may
/// expect.
fn finish(stage: &mut Stage) {
    let deadline = Instant::now() + TIMEOUT;
    stage.note(|| "--- the end begins".into());
    for line in &mut stage.lines {
        line.reads = true;
        line.client.set_room(WIDE_BYTES);
    }
    // What some clients have begun to send they leave unfinished.
    let unfinished: Vec<bool> = stage.lines.iter().map(|_| stage.random.percent(20)).collect();
    loop {
        stage.pump(QUIET);
        work(stage);
        for (at, unfinished) in unfinished.iter().enumerate() {
            conclude(stage, at, *unfinished);
        }
        listen_to_detached(stage);
        let open = |line: &Line| line.client.stream.is_some() && !line.client.ended;
        if !stage.lines.iter().any(open) && stage.jobs.is_empty() {
            return;
        }
        if Instant::now() > deadline {
            let waiting = stage.lines.iter().enumerate().filter(|(_, line)| open(line));
            let waiting = waiting.map(|(at, line)| format!("client {at} waits in vain: {}", described(line)));
            let waiting: Vec<String> = waiting.collect();
            let status = stage.server.status();
            let (totals, pools) = (&status["totals"], &status["pools"]);
            stage.fail(&format!("{}\n{:#?}\n{totals}\n{pools}", waiting.join("\n"), stage.jobs));
        }
    }
}

/// Every puppet goes on with all that it has.
fn work(stage: &mut Stage) {
    for job in (0..stage.jobs.len()).rev() {
        stage.step(job);
    }
    stage.let_leave();
    stage.doom_the_slow();
}

/// How far a client has come.
fn described(line: &Line) -> String {
    let Line { client, model, boundaries, .. } = line;
    let (sent, received) = (client.sent(), client.received.len());
    let answers: Vec<usize> = model.requests.iter().map(|request| request.answer.full.len()).collect();
    let progress = model.progress(&client.received);
    format!("sent {sent} of {boundaries:?}, received {received} of {answers:?}, {progress:?}")
}

/// Brings one client nearer to its end.
fn conclude(stage: &mut Stage, at: usize, unfinished: bool) {
    let line = &mut stage.lines[at];
    if line.client.stream.is_none() || line.client.ended {
        return;
    }
    let changed = line.client.read(usize::MAX);
    if line.client.may_send() && !unfinished {
        send(stage, at, usize::MAX);
    }
    let line = &stage.lines[at];
    let progress = match line.progress {
        Some(progress) if !changed => progress,
        _ => match line.model.progress(&line.client.received) {
            Ok(progress) => progress,
            Err(why) => stage.fail(&format!("client {at}: {why}")),
        },
    };
    stage.lines[at].progress = Some(progress);
    if is_content(&stage.lines[at], progress, unfinished) {
        half_close(stage, at);
    }
}

/// Whether a client has got all that it has asked for, and may go.
fn is_content(line: &Line, progress: Progress, unfinished: bool) -> bool {
    if line.client.half_closed || progress.partly {
        return false;
    }
    let detached = line.model.requests.iter().any(|request| request.fate == Fate::Detached);
    if progress.over {
        // The server has to end it, unless it is not the server's any more.
        return detached;
    }
    let sent = line.model.requests.iter().filter(|request| request.sent).count();
    progress.answered >= sent && (unfinished || !line.client.may_send())
}

/// The new owners of detached connections read to the end, which must be all that the client has sent, and close.
fn listen_to_detached(stage: &mut Stage) {
    for detached in stage.detached.iter_mut().filter(|detached| !detached.ended) {
        let mut piece = [0; 4096];
        loop {
            match rustix::io::read(&detached.socket, &mut piece) {
                Ok(0) => detached.ended = true,
                Ok(bytes) => {
                    detached.received.extend_from_slice(&piece[..bytes]);
                    continue;
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(_) => detached.ended = true,
            }
            break;
        }
        if detached.ended {
            let _ = rustix::net::shutdown(&detached.socket, rustix::net::Shutdown::Both);
        }
    }
}

/// Judges every connection of the part.
fn judge(stage: &Stage) {
    for (at, line) in stage.lines.iter().enumerate() {
        if let Err(why) = line.model.ended(&line.client.received, line.client.early) {
            let how = format!("{}, error {:?}, left {}", described(line), line.client.error, line.model.left);
            stage.fail(&format!("client {at}: {why}; {how}"));
        }
    }
    for detached in &stage.detached {
        let line = &stage.lines[detached.line];
        let from = line.boundaries[detached.at];
        let sent = line.client.bytes_sent().get(from..).unwrap_or_default();
        let relayed = line.model.requests[detached.at].asked.transport == Transport::Relay;
        let may_miss = line.model.left || line.model.cut && relayed;
        let right = if may_miss { sent.starts_with(&detached.received) } else { sent == detached.received };
        if !right {
            let (got, sent) = (detached.received.len(), sent.len());
            stage.fail(&format!(
                "client {}: after the upgrade it sent {sent} bytes, {got} arrived",
                detached.line
            ));
        }
    }
}

/// Waits for what other processes do in their own time.
pub(crate) fn wait_until(
    stage: &mut Stage,
    what: &str,
    mut holds: impl FnMut(&mut Stage) -> Result<(), String>,
) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        stage.pump(QUIET);
        // Requests of clients that have left may come late.
        work(stage);
        match holds(stage) {
            Ok(()) => return,
            Err(why) if Instant::now() > deadline => stage.fail(&format!("{what}: {why}")),
            Err(_) => {}
        }
    }
}

/// Whether nothing of the clients is left anywhere.
pub(crate) fn is_quiet(stage: &mut Stage) -> Result<(), String> {
    let workers = workers(stage);
    let [_] = workers[..] else { return Err(format!("worker processes {workers:?}")) };
    for puppet in &stage.puppets {
        if puppet.phase != Phase::Live {
            return Err(format!("puppet {} is {:?}", puppet.number, puppet.phase));
        }
        let kept: Vec<&u32> = puppet.channel.kept.keys().filter(|number| **number >> 31 == 0).collect();
        if !kept.is_empty() {
            return Err(format!("puppet {} still keeps connections {kept:?}", puppet.number));
        }
    }
    let status = stage.server.status();
    // The connection that asks for the status is there itself.
    for (gauge, wanted) in
        [("connections", 1), ("handed_off", 0), ("queued", 0), ("writing", 0), ("panics", 0)]
    {
        if status["totals"][gauge] != wanted {
            return Err(format!("{gauge}: {}", status["totals"][gauge]));
        }
    }
    let slots = status["pools"].as_array().unwrap().iter().flat_map(|pool| pool["slots"].as_array().unwrap());
    match slots.map(|slot| &slot["in_flight"]).find(|number| **number != 0) {
        Some(number) => Err(format!("{number} requests in flight")),
        None => Ok(()),
    }
}
