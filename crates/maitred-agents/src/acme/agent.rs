//! The agent process: clocks, socket and tasks around the schedule.

mod demand;

use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use self::demand::Demand;
use super::account;
use super::certificate::{self, Facts};
use super::client::Seen;
use super::dns::Records;
use super::link::Link;
use super::messages::{FromAgent, MESSAGE_BYTES_MAX, Site, Start, ToAgent};
use super::order::{self, Job, Trouble};
use super::schedule::{Held, Now, Past, Rules, Schedule, Task, Window};
use super::store::{Notes, Store};
use crate::agents::process::{self, Role};
use maitred_base::unix_time;
use maitred_config::{Acme, Authority};
use maitred_control::Report;

/// How long one order may take in all. The authority's own timeout is shorter.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long asking for renewal information may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the state directory is tried while another agent has it: its end is near, or there are two servers.
const LOCK_EVERY: Duration = Duration::from_millis(500);

/// Before the first line of a file with a certificate; what stands before the first block of PEM is for people (RFC 7468
/// section 5.2).
const ORIGIN: &str = "Ordered from ";

/// The whole life of the agent.
pub fn run() -> ExitCode {
    process::run(Role { thread: c"maitred-acme", log: "acme", whole: "the process for certificates" }, live)
}

async fn live(start: Start, socket: UnixDatagram) -> Result<(), String> {
    let socket = Arc::new(socket);
    let (say, said) = mpsc::unbounded_channel();
    tokio::spawn(write_all(Arc::clone(&socket), said));
    let Some(store) = open(&start, &socket).await? else { return Ok(()) };
    let (done, ended) = mpsc::unbounded_channel();
    let link = Link::new(say);
    let mut agent = Agent::new(start, store, link, done);
    agent.run(&socket, ended).await
}

/// Opens the state directory; `None` if the master has gone meanwhile.
async fn open(start: &Start, socket: &UnixDatagram) -> Result<Option<Store>, String> {
    let mut waited = false;
    loop {
        match Store::open(&start.state) {
            Ok(store) => return Ok(Some(store)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !std::mem::replace(&mut waited, true) {
                    tracing::info!("waiting for the state directory: another server uses it: {error}");
                }
            }
            Err(error) => return Err(format!("state directory: {error}")),
        }
        tokio::select! {
            message = receive(socket) => if message?.is_none() { return Ok(None) },
            () = tokio::time::sleep(LOCK_EVERY) => {}
        }
    }
}

/// The next message of the master; `None` at its end.
async fn receive(socket: &UnixDatagram) -> Result<Option<ToAgent>, String> {
    process::receive(socket, MESSAGE_BYTES_MAX).await
}

/// Sends what there is to say, one packet each.
async fn write_all(socket: Arc<UnixDatagram>, mut said: mpsc::UnboundedReceiver<FromAgent>) {
    while let Some(message) = said.recv().await {
        let Ok(text) = serde_json::to_vec(&message) else { continue };
        // If the master has gone, the reader sees the end of the socket.
        if socket.send(&text).await.is_err() {
            return;
        }
    }
}

/// What a task has led to.
enum Done {
    /// The certificate, and where it is from.
    Ordered(usize, Result<(String, String), Trouble>),
    /// What the operator's service says of a name on demand.
    Asked(String, Result<bool, String>),
    Informed(usize, Result<(Window, Option<Duration>), String>),
}

/// A site, as far as the schedule does not know it.
#[derive(Debug, Default)]
struct Known {
    facts: Option<Facts>,
    /// Where it is from, as in [`Agent::origin`].
    ordered_from: String,
    error: Option<String>,
}

struct Agent {
    start: Arc<Start>,
    store: Arc<Store>,
    schedule: Schedule,
    known: Vec<Known>,
    link: Link,
    done: mpsc::UnboundedSender<Done>,
    /// The accounts, one for each authority.
    accounts: Vec<account::Accounts>,
    records: Records,
    /// The sites of the configuration, then the names on demand.
    sites: Vec<Site>,
    demand: Demand,
    begun: Instant,
}

impl Agent {
    fn new(start: Start, store: Store, link: Link, done: mpsc::UnboundedSender<Done>) -> Agent {
        let mut seed = [0; 8];
        // Without it, jitter is the same in every process, and still differs from failure to failure.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        let schedule = Schedule::new(rules(&start.acme), u64::from_ne_bytes(seed));
        let (start, store) = (Arc::new(start), Arc::new(store));
        let Acme { authorities, contact, .. } = &start.acme;
        let accounts = |authority| account::Accounts::new(authority, contact, Arc::clone(&store));
        let accounts = authorities.iter().map(accounts).collect();
        let records = Records::new(Arc::clone(&start), Arc::clone(&store), link.clone());
        let (known, begun) = (Vec::new(), Instant::now());
        let (sites, demand) = (demand::sites(&start), Demand::new(&start.acme, begun));
        let mut agent =
            Agent { start, store, schedule, known, link, done, accounts, records, sites, demand, begun };
        for index in 0..agent.sites.len() {
            agent.look(index);
        }
        agent
    }

    fn now(&self) -> Now {
        Now { unix: unix_time::secs(), up: self.begun.elapsed() }
    }

    /// An authority and the kind of certificate.
    fn origin(&self, authority: &Authority) -> String {
        let profile = authority.profile.as_deref().unwrap_or("-");
        format!("{} {profile} {:?}", authority.directory, self.start.acme.key)
    }

    /// The number of the authority that a certificate is from, if it is as the configuration has it.
    fn authority_of(&self, known: &Known) -> Option<usize> {
        let authorities = &self.start.acme.authorities;
        authorities.iter().position(|authority| known.ordered_from == self.origin(authority))
    }

    /// Takes up what is stored of the site of this number, which is the next one.
    fn look(&mut self, index: usize) {
        let name = self.name(index);
        let stored = self.store.certificate(&name).unwrap_or_else(|error| {
            tracing::error!("{error}");
            None
        });
        let ordered_from = stored.as_deref().and_then(origin_of).unwrap_or_default().to_owned();
        let facts = stored.and_then(|pem| match certificate::facts(&pem) {
            Ok(facts) => Some(facts),
            Err(error) => {
                tracing::warn!("the stored certificate of {name} cannot be read: {error}");
                None
            }
        });
        let Notes { failures, allowed_unix, error } = self.store.notes(&name);
        self.known.push(Known { facts, ordered_from, error });
        let (now, held) = (self.now(), self.held(index));
        self.schedule.add(now, held, Past { failures, allowed_unix });
        self.report(index);
    }

    fn name(&self, index: usize) -> String {
        self.sites.get(index).map_or_else(String::new, |site| site.name().to_owned())
    }

    fn held(&self, index: usize) -> Option<Held> {
        let (known, site) = (self.known.get(index)?, self.sites.get(index)?);
        let facts = known.facts.as_ref()?;
        let mut names = site.names.clone();
        names.sort();
        let fits = facts.names == names && self.authority_of(known).is_some();
        Some(Held { not_before: facts.not_before, not_after: facts.not_after, fits, seed: facts.seed })
    }

    async fn run(
        &mut self,
        socket: &UnixDatagram,
        mut ended: mpsc::UnboundedReceiver<Done>,
    ) -> Result<(), String> {
        loop {
            while let Some(task) = self.schedule.next(self.now()) {
                match task {
                    Task::Order(index) => self.order(index),
                    Task::Ask(index) => self.ask(index),
                }
            }
            let wake = self.schedule.next_wake(self.now());
            tokio::select! {
                message = receive(socket) => match message? {
                    Some(ToAgent::InPlace(serial)) => self.link.done(serial, Ok(())),
                    Some(ToAgent::Wanted(name)) => self.wanted(name),
                    Some(ToAgent::HookDone(serial, why)) => self.link.done(serial, why.map_or(Ok(()), Err)),
                    None => return Ok(()),
                },
                Some(done) = ended.recv() => match done {
                    Done::Ordered(index, outcome) => self.ordered(index, outcome),
                    Done::Asked(name, outcome) => self.asked(name, outcome),
                    Done::Informed(index, outcome) => self.informed(index, outcome),
                },
                () = tokio::time::sleep(wake) => {}
            }
        }
    }

    fn order(&mut self, index: usize) {
        let name = self.name(index);
        // Before anything is sent: an agent that dies meanwhile must not begin anew at once. And what cannot be kept is not
        // ordered.
        if let Err(error) = self.note(index) {
            let text = format!("nothing can be kept: {error}");
            return self.ordered(index, Err(Trouble::unreachable(text)));
        }
        let (Some(site), Some(known)) = (self.sites.get(index), self.known.get(index)) else { return };
        let failures = self.schedule.past(self.now(), index).failures;
        let number = self.schedule.authority(index);
        let Some(authority) = self.start.acme.authorities.get(number) else { return };
        let Some(accounts) = self.accounts.get(number).cloned() else { return };
        let same = self.authority_of(known) == Some(number);
        let origin = self.origin(authority);
        let job = Job {
            names: site.names.clone(),
            key: self.start.acme.key,
            profile: authority.profile.clone(),
            replaces: known.facts.as_ref().filter(|_| same).and_then(|facts| facts.identifier.clone()),
            kinds: order::kinds(&self.start, failures),
            dns: site.names.iter().filter(|name| self.start.acme.dns_for(name).is_some()).cloned().collect(),
        };
        // Before the first order it has been asked already.
        let renews = site.on_demand && known.facts.is_some();
        let service = self.start.acme.on_demand.as_ref().filter(|_| renews).map(|one| one.ask.clone());
        let question = service.map(|url| (url, name.clone()));
        tracing::info!(
            site = name,
            names = job.names.len(),
            authority = authority.directory,
            "ordering a certificate"
        );
        let done = self.done.clone();
        let ways = order::Ways { link: self.link.clone(), records: self.records.clone() };
        tokio::spawn(async move {
            let seen = Seen::default();
            let whole = async {
                if let Some((url, name)) = question {
                    demand::allowed(&url, &name).await?;
                }
                let account = accounts.get(&seen).await?;
                let outcome = order::obtain(&account, &job, &ways, &seen).await;
                outcome.inspect_err(|trouble| accounts.doubt(trouble))
            };
            let outcome = tokio::time::timeout(ORDER_TIMEOUT, whole).await;
            let late = || Err(Trouble::refused("the order took too long"));
            let outcome = outcome.unwrap_or_else(|_| late()).map(|pem| (origin, pem));
            let _ = done.send(Done::Ordered(index, outcome));
        });
    }

    fn ordered(&mut self, index: usize, outcome: Result<(String, String), Trouble>) {
        let name = self.name(index);
        let outcome = outcome.and_then(|(origin, pem)| {
            let whole = format!("{ORIGIN}{origin}\n{pem}");
            let kept = self.store.keep_certificate(&name, &whole);
            kept.map_err(|error| Trouble::refused(error.to_string()))?;
            Ok((origin, certificate::facts(&pem).map_err(Trouble::refused)?))
        });
        let now = self.now();
        let Some(known) = self.known.get_mut(index) else { return };
        match outcome {
            Ok((origin, facts)) => {
                (known.ordered_from, known.error) = (origin, None);
                let (not_before, not_after, seed) = (facts.not_before, facts.not_after, facts.seed);
                known.facts = Some(facts);
                self.schedule.ordered(now, index, Ok(Held { not_before, not_after, fits: true, seed }));
                tracing::info!(site = name, until = iso(not_after), "there is a new certificate");
                self.link.say(FromAgent::Certificate(name));
            }
            Err(trouble) => {
                self.schedule.ordered(now, index, Err(trouble.failure));
                let again = self.schedule.allowed_in(now, index).as_secs();
                tracing::error!(site = name, "no certificate: {}; next try in {again} s", trouble.text);
                known.error = Some(trouble.text);
            }
        }
        self.settle(index);
        if let Err(error) = self.note(index) {
            tracing::error!("{error}");
        }
        self.report(index);
    }

    fn ask(&mut self, index: usize) {
        let facts = self.known.get(index).and_then(|known| known.facts.as_ref());
        let identifier = facts.and_then(|facts| facts.identifier.clone());
        // The one that it is from: no other knows it.
        let from = self.known.get(index).and_then(|known| self.authority_of(known));
        let accounts = from.and_then(|number| self.accounts.get(number)).cloned();
        let done = self.done.clone();
        tokio::spawn(async move {
            let outcome = match accounts {
                Some(accounts) => tokio::time::timeout(ASK_TIMEOUT, accounts.renewal_info(identifier)).await,
                None => Ok(Err("it is of no authority that is configured".to_owned())),
            };
            let outcome = outcome.unwrap_or_else(|_| Err("the authority took too long".to_owned()));
            let _ = done.send(Done::Informed(index, outcome));
        });
    }

    fn informed(&mut self, index: usize, outcome: Result<(Window, Option<Duration>), String>) {
        let (now, name) = (self.now(), self.name(index));
        match outcome {
            Ok((window, again)) => {
                self.schedule.informed(now, index, Some(window), again);
                let renew_at = self.schedule.renew_at(index).map(iso).unwrap_or_default();
                tracing::debug!(site = name, renew_at, "the authority says when to renew");
            }
            Err(error) => {
                tracing::debug!(site = name, "no renewal information: {error}");
                self.schedule.informed(now, index, None, None);
            }
        }
        self.report(index);
    }

    /// Writes down what has to be kept after the end of this process.
    fn note(&self, index: usize) -> io::Result<()> {
        let Some(known) = self.known.get(index) else { return Ok(()) };
        let Past { failures, allowed_unix } = self.schedule.past(self.now(), index);
        let error = known.error.clone();
        self.store.keep_notes(&self.name(index), &Notes { failures, allowed_unix, error })
    }

    /// Tells the master how a site stands.
    fn report(&self, index: usize) {
        let Some(known) = self.known.get(index) else { return };
        let past = self.schedule.past(self.now(), index);
        let failed = known.error.is_some();
        self.link.say(FromAgent::Report(Report {
            name: self.name(index),
            not_after: known.facts.as_ref().map(|facts| facts.not_after),
            renew_at: self.schedule.renew_at(index),
            retry_at: failed.then_some(past.allowed_unix),
            error: known.error.clone(),
            failures: past.failures,
        }));
    }
}

fn rules(acme: &Acme) -> Rules {
    let authorities = u32::try_from(acme.authorities.len()).unwrap_or(u32::MAX).max(1);
    Rules { first_delay: acme.retry, authorities, fallback_after: acme.fallback_after.max(1) }
}

/// Where the certificate in a file is from. The origin stands in the file itself, so that it cannot be said of another.
fn origin_of(file: &str) -> Option<&str> {
    file.lines().next()?.strip_prefix(ORIGIN)
}

/// `2026-11-20T11:20:00Z`
fn iso(unix: u64) -> String {
    let text = maitred_log::iso(&maitred_http::date::format(unix));
    format!("{}Z", String::from_utf8_lossy(&text))
}
