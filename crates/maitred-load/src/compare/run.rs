//! The run: threads that take cases, and send each pair of requests one after the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustls::pki_types::ServerName;

use super::client::{Client, Failure, Manners, Place, Response, probe};
use super::echo::{Echo, Received};
use super::judge::{Side, differences};
use super::options::Options;
use super::report::{Example, Groups, Report};
use super::request::{Case, Curl, FollowUp, Request, quoted};
use super::source::Gathered;
use super::uri::{Own, split_port};
use crate::client::Tls;
use crate::target::Target;

/// Requests in a row that one side does not answer, after which the run ends: each may take the whole timeout.
const SILENT_MAX: u32 = 10;
/// How often a thread that waits for its turn looks whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a comparison.
///
/// # Errors
/// A server is not there, or TLS is not possible.
pub fn run(options: &Options, gathered: Gathered) -> Result<Report, String> {
    let Gathered { cases, mut notes, port } = gathered;
    let cases = sendable(cases, options, &mut notes);
    let manners = manners(options, &cases)?;
    for (name, target) in [("left", &options.left), ("right", &options.right)] {
        let tls_name = target.is_tls.then(|| target.host.clone());
        let place = Place { address: target.address, tls_name, is_anonymous: false };
        probe(&place, &manners)
            .map_err(|failure| format!("{failure} to the {name} server at {}", target.address))?;
    }
    let comparison = Comparison {
        options,
        manners,
        main_port: port.map(|port| port.number),
        start: Instant::now(),
        next_case: AtomicUsize::new(0),
        sent: AtomicU64::new(0),
        state: Mutex::new(State {
            next_at: Instant::now(),
            silent: [0; 2],
            ended: None,
            reached: 0,
            groups: Groups::new(&options.allowances),
            report: Report::default(),
        }),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, 16) {
            scope.spawn(|| comparison.work(&cases));
        }
    });
    Ok(comparison.finish(notes))
}

fn manners(options: &Options, cases: &[Case]) -> Result<Manners, String> {
    let is_tls = |case: &Case| case.request.port.is_some_and(|port| port.is_tls);
    let wanted = options.left.is_tls || options.right.is_tls || cases.iter().any(is_tls);
    let tls = |identity| {
        let made = || Tls::with_identity(&options.left.host, &options.trust, false, identity);
        wanted.then(made).transpose()
    };
    Ok(Manners {
        timeout: options.timeout,
        body_bytes_max: options.body_bytes_max,
        is_http2: options.is_http2,
        tls: tls(options.identity.as_ref())?,
        tls_anonymous: tls(None)?,
    })
}

/// The cases that are sent, and notes about the others.
fn sendable(cases: Vec<Case>, options: &Options, notes: &mut Vec<String>) -> Vec<Case> {
    let (mut kept, mut unsafe_methods, mut wrong, mut first) = (Vec::new(), 0, 0, None);
    for mut case in cases {
        case.request.fields.extend(options.fields.iter().cloned());
        match case.request.check() {
            Err(why) => {
                wrong += 1;
                first.get_or_insert(why);
            }
            Ok(()) if !options.unsafe_methods && !case.request.is_safe() => unsafe_methods += 1,
            Ok(()) => kept.push(case),
        }
    }
    if unsafe_methods > 0 {
        notes.push(format!(
            "{unsafe_methods} requests with methods other than GET, HEAD and OPTIONS were left out (--unsafe-methods)"
        ));
    }
    if let Some(why) = first {
        notes.push(format!("{wrong} requests cannot be sent, the first because: {why}"));
    }
    kept
}

/// What the threads of a run share.
struct Comparison<'o> {
    options: &'o Options,
    manners: Manners,
    main_port: Option<u16>,
    start: Instant,
    next_case: AtomicUsize,
    sent: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// When the next pair may be sent.
    next_at: Instant,
    /// Requests in a row that each side has not answered.
    silent: [u32; 2],
    /// Why the run has ended before its time.
    ended: Option<String>,
    reached: u64,
    groups: Groups,
    report: Report,
}

/// The request of each side: validators are each server's own.
type Pair<'r> = [&'r Request; 2];

impl Comparison<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, cases: &[Case]) {
        let mut client = Client::default();
        while let Some(case) = cases.get(self.next_case.fetch_add(1, Relaxed)) {
            let Some(answers) = self.pair(&mut client, [&case.request; 2], &case.about) else { return };
            let [Ok(left), Ok(right)] = answers else { continue };
            for follow_up in &case.follow_ups {
                let made = |response| follow(&case.request, *follow_up, response);
                let (Some(one), Some(two)) = (made(&left), made(&right)) else { continue };
                let about = format!("{}, {}", case.about, follow_up.words());
                if self.pair(&mut client, [&one, &two], &about).is_none() {
                    return;
                }
            }
        }
    }

    /// Sends a request to both sides, and notes what differs. `None` when the run has ended.
    fn pair(
        &self,
        client: &mut Client,
        requests: Pair<'_>,
        about: &str,
    ) -> Option<[Result<Response, Failure>; 2]> {
        let number = self.turn()?;
        let [left, right] = requests;
        let (one, one_received) = self.send(client, 0, left, number);
        let (two, two_received) = self.send(client, 1, right, number);
        let owns = [self.own(0, left), self.own(1, right)];
        let [left_own, right_own] = &owns;
        let has_echo = self.options.echo.is_some();
        let left_side = Side { own: left_own, answer: one, has_echo, received: one_received };
        let right_side = Side { own: right_own, answer: two, has_echo, received: two_received };
        // The dearest part is outside the lock.
        let found = differences(left, &left_side, &right_side, self.options.body_bytes_max);
        let mut state = self.state();
        state.reached += u64::from(!left_side.received.is_empty() || !right_side.received.is_empty());
        state.count(&left_side.answer, &right_side.answer, found.is_empty());
        let curls = [self.curl(0, left), self.curl(1, right)];
        state.groups.add(left.path(), found, |difference| Example {
            number,
            request: left.shown(),
            about: about.to_owned(),
            left: difference.left,
            right: difference.right,
            curl_left: curls[0].clone(),
            curl_right: curls[1].clone(),
            size: left.size(),
        });
        drop(state);
        Some([left_side.answer, right_side.answer])
    }

    /// Waits for the turn of the next pair, and gives its number. `None` when there is none.
    fn turn(&self) -> Option<u64> {
        let number = self.sent.fetch_add(1, Relaxed) + 1;
        let at = {
            let mut state = self.state();
            let at = state.next_at.max(Instant::now());
            state.next_at = at + Duration::from_secs(1) / self.options.rate.max(1);
            if number > self.options.requests_max as u64 && state.ended.is_none() {
                let note = format!("the first {} requests were sent, and no more", self.options.requests_max);
                state.report.notes.push(note);
                state.report.is_complete = true;
                state.ended = Some(String::new());
            }
            at
        };
        loop {
            let now = Instant::now();
            let mut state = self.state();
            if state.ended.is_none() {
                if self.options.stop.load(Relaxed) {
                    state.ended = Some("the run was interrupted".to_owned());
                } else if now.duration_since(self.start) >= self.options.duration_max {
                    let most = self.options.duration_max;
                    state.ended =
                        Some(format!("the run has ended after {most:?}, before all requests were sent"));
                }
            }
            if state.ended.is_some() {
                return None;
            }
            drop(state);
            let left = at.saturating_duration_since(now).min(LOOK_EVERY);
            if left.is_zero() {
                return Some(number);
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let _ = poll(&mut [], Some(&wait));
        }
    }

    fn target(&self, side: usize) -> &Target {
        if side == 0 { &self.options.left } else { &self.options.right }
    }

    fn echo(&self, side: usize) -> Option<&Echo> {
        self.options.echo.as_ref().map(|(left, right)| if side == 0 { left } else { right })
    }

    fn send(
        &self,
        client: &mut Client,
        side: usize,
        request: &Request,
        number: u64,
    ) -> (Result<Response, Failure>, Vec<Received>) {
        let (place, _) = self.place(side, request);
        let bytes = request.bytes(self.host(request), number);
        let take = || self.echo(side).map(|echo| echo.take(number)).unwrap_or_default();
        let answer = client.send(&place, request, &bytes, &self.manners, || drop(take()));
        (answer, take())
    }

    fn host<'r>(&'r self, request: &'r Request) -> &'r str {
        request.host.as_deref().unwrap_or(&self.options.host)
    }

    /// Where a request goes, and by which scheme.
    fn place(&self, side: usize, request: &Request) -> (Place, &'static str) {
        let target = self.target(side);
        let mut address = target.address;
        let mut is_tls = target.is_tls;
        if let Some(port) = request.port
            && let Some(mapped) = self.options.ports.get(&port.number)
        {
            address.set_port(if side == 0 { mapped.0 } else { mapped.1 });
            is_tls = port.is_tls;
        }
        let asked = split_port(self.host(request)).0;
        let is_name = ServerName::try_from(asked).is_ok();
        let name = if is_name { asked } else { &target.host };
        let tls_name = is_tls.then(|| name.to_owned());
        let scheme = if is_tls { "https" } else { "http" };
        (Place { address, tls_name, is_anonymous: request.is_anonymous }, scheme)
    }

    fn own(&self, side: usize, request: &Request) -> Own {
        let target = self.target(side);
        let (_, scheme) = self.place(side, request);
        let asked = self.host(request).to_owned();
        let default = if target.is_tls { 443 } else { 80 };
        let main = self.main_port.or(split_port(&asked).1).unwrap_or(default);
        let mut ports = BTreeMap::from([(target.address.port(), main)]);
        let mapped = self.options.ports.iter();
        ports.extend(mapped.map(|(port, (left, right))| (if side == 0 { *left } else { *right }, *port)));
        Own {
            scheme,
            asked,
            host: split_port(&target.authority).0.to_ascii_lowercase(),
            ports,
            upstream: self.echo(side).map(|echo| echo.address().to_string()),
        }
    }

    fn curl(&self, side: usize, request: &Request) -> String {
        let (place, scheme) = self.place(side, request);
        let mut options = Vec::new();
        if place.tls_name.is_some() {
            if self.options.trust == crate::client::Trust::Anyone {
                options.push("--insecure".to_owned());
            }
            let identity = self.options.identity.as_ref().filter(|_| !request.is_anonymous);
            options.extend(identity.map(|identity| {
                let word = |path: &std::path::Path| quoted(path.as_os_str().as_encoded_bytes());
                format!("--cert {} --key {}", word(&identity.certificate), word(&identity.key))
            }));
        }
        if self.options.is_http2 {
            options.push("--http2-prior-knowledge".to_owned());
        }
        // The name that TLS asks for is that of the URL.
        let authority = match &place.tls_name {
            Some(name) if name.parse::<std::net::IpAddr>().is_err() => {
                let port = place.address.port();
                options.push(format!("--resolve '{name}:{port}:{}'", place.address.ip()));
                format!("{name}:{port}")
            }
            _ => place.address.to_string(),
        };
        Curl { scheme, authority: &authority, host: self.host(request), options: &options }.command(request)
    }

    fn finish(self, notes: Vec<String>) -> Report {
        let State { mut report, groups, ended, reached, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.left = self.options.left.authority.clone();
        report.right = self.options.right.authority.clone();
        report.is_complete |= ended.is_none();
        report.reached_applications = self.options.echo.is_some().then_some(reached);
        report.seconds = self.start.elapsed().as_secs_f64();
        let (differences, accepted, unmatched) = groups.finish();
        (report.differences, report.accepted) = (differences, accepted);
        report.notes.splice(..0, notes);
        report.notes.extend(ended.filter(|why| !why.is_empty()));
        if report.truncated_bodies > 0 {
            report.notes.push(format!(
                "{} bodies are longer than {} bytes, and were compared so far",
                report.truncated_bodies, self.options.body_bytes_max
            ));
        }
        if self.options.echo.is_some() && reached == 0 {
            report.notes.push(
                "no request has reached an application: do the servers know their addresses?".to_owned(),
            );
        }
        report.notes.extend(unmatched);
        report
    }
}

impl State {
    fn count(&mut self, left: &Result<Response, Failure>, right: &Result<Response, Failure>, is_same: bool) {
        match (left, right) {
            (Err(one), Err(two)) if one == two => {
                *self.report.failed.entry(one.to_string()).or_default() += 1
            }
            _ => {
                self.report.compared += 1;
                self.report.same += u64::from(is_same);
            }
        }
        let is_part =
            |side: &Result<Response, Failure>| side.as_ref().is_ok_and(|response| !response.is_whole);
        self.report.truncated_bodies += u64::from(is_part(left) || is_part(right));
        for ((silent, answer), name) in self.silent.iter_mut().zip([left, right]).zip(["left", "right"]) {
            match answer {
                Err(Failure::Connect | Failure::Timeout | Failure::Endless) => *silent += 1,
                _ => *silent = 0,
            }
            if *silent >= SILENT_MAX && self.ended.is_none() {
                let why = format!(
                    "the {name} server has not answered {SILENT_MAX} requests in a row: the run has ended"
                );
                self.ended = Some(why);
            }
        }
    }
}

impl FollowUp {
    fn words(self) -> &'static str {
        match self {
            FollowUp::Tag => "If-None-Match with the server's own tag",
            FollowUp::Date => "If-Modified-Since with the server's own date",
            FollowUp::Range => "If-Range with the server's own tag",
        }
    }
}

/// The request that follows a response, if that has the validator.
fn follow(request: &Request, follow_up: FollowUp, response: &Response) -> Option<Request> {
    let value = |name| response.field(name).filter(|_| response.status == 200).map(<[u8]>::to_vec);
    let again = request.clone();
    let followed = match follow_up {
        FollowUp::Tag => again.with("If-None-Match", value("etag")?),
        FollowUp::Date => again.with("If-Modified-Since", value("last-modified")?),
        FollowUp::Range => again.with("If-Range", value("etag")?).with("Range", "bytes=0-3"),
    };
    // What a server has sent has no control characters, unless it is up to something.
    followed.check().is_ok().then_some(followed)
}
