//! A stand-in for the server: requests, heads, and what modules can call in any thread. The stand-in refuses what a server
//! refuses.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use maitred_sys::module::abi::{Client, Response, Ticket};
use maitred_sys::module::host::{
    self, Edit, HeadCalls, Module, Outcome, Part, RequestCalls, ServerCalls, Task,
};

/// How long a test waits for what has to come.
const DEADLINE: Duration = Duration::from_secs(60);

/// Fields that frame a message or are about one connection, and the date: the server's own.
const OURS: [&str; 8] =
    ["connection", "content-length", "date", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

fn is_ours(name: &[u8]) -> bool {
    OURS.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// A response, kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: String,
}

impl Kept {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn can_be_sent(name: &[u8], value: &[u8]) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_token = !name.is_empty() && name.iter().all(is_of_token);
    is_token && value.trim_ascii() == value && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is kept of a response that can be sent.
fn kept(response: &Response<'_>) -> Option<Kept> {
    let fields = response.fields().iter().map(|field| (field.name.get(), field.value.get()));
    let can_be =
        (200..600).contains(&response.status) && fields.clone().all(|(name, value)| can_be_sent(name, value));
    can_be.then(|| Kept {
        status: response.status,
        fields: fields
            .filter(|(name, _)| !is_ours(name))
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        content: text(response.content.get()),
    })
}

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) client: Client,
    /// `request_fields` of the configuration.
    pub(crate) may_set: &'static [&'static str],
    pub(crate) may_answer_later: bool,
    /// What came of it.
    pub(crate) answer: Option<Kept>,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) given: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn new(target: &str) -> Asked {
        let client = Client { family: 4, address: [127; 16], http: 11, ..Client::default() };
        Asked {
            method: "GET",
            target: target.to_owned(),
            client,
            may_answer_later: true,
            may_set: &["X-User"],
            ..Asked::default()
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Asked {
        self.fields.push((name, value.into()));
        self
    }

    pub(crate) fn post(target: &str, body: &str) -> Asked {
        Asked { method: "POST", body: body.into(), ..Asked::new(target) }
    }

    /// Has a module handle it, and gives back what the client gets: an answer, or `None` if the request passes.
    pub(crate) fn to(&mut self, module: &Module) -> Option<Kept> {
        serve();
        match module.on_request(self) {
            Outcome::Answered => self.answer.take().or_else(Asked::failed),
            Outcome::Pass => None,
            Outcome::Failed => Asked::failed(),
            Outcome::Later => match self.ticket.take() {
                Some(ticket) => SERVER.completion(ticket),
                None => Asked::failed(),
            },
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "in place of what a module may not say")]
    fn failed() -> Option<Kept> {
        Some(Kept { status: 500, fields: Vec::new(), content: String::new() })
    }
}

/// What a module answers to a request.
pub(crate) fn get(module: &Module, target: &str) -> Option<Kept> {
    Asked::new(target).to(module)
}

impl RequestCalls for Asked {
    fn part(&self, part: Part) -> &[u8] {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        match part {
            Part::Method => self.method.as_bytes(),
            Part::Target => self.target.as_bytes(),
            Part::Path => path.as_bytes(),
            Part::Query => query.as_bytes(),
            Part::Authority => b"example.com",
            Part::Body => &self.body,
        }
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_bytes())
    }

    fn field_count(&self) -> usize {
        self.fields.len()
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.fields.get(index).map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }

    fn client(&self) -> Client {
        self.client
    }

    fn answer(&mut self, response: &Response<'_>) -> bool {
        self.answer = kept(response);
        self.answer.is_some()
    }

    fn later(&mut self) -> Option<Ticket> {
        self.ticket = self.may_answer_later.then(|| SERVER.ticket());
        self.ticket
    }

    fn set_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        let may = self.may_set.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
        if may && can_be_sent(name, value) {
            self.given.push((text(name), text(value)));
            return true;
        }
        false
    }
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn new(fields: &[(&str, &str)]) -> Head {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Head { status: 200, fields: fields.iter().map(owned).collect() }
    }

    /// Has a module filter it, as one of the response to this request.
    pub(crate) fn through(mut self, module: &Module, target: &str) -> Vec<(String, String)> {
        serve();
        module.on_response(&mut Asked::new(target), &mut self);
        self.fields
    }
}

impl HeadCalls for Head {
    fn status(&self) -> u16 {
        self.status
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_bytes())
    }

    fn field_count(&self) -> usize {
        self.fields.len()
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.fields.get(index).map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }

    fn edit(&mut self, how: Edit, name: &[u8], value: &[u8]) -> bool {
        if !can_be_sent(name, value) || is_ours(name) {
            return false;
        }
        if how != Edit::Add {
            self.fields.retain(|(known, _)| !known.as_bytes().eq_ignore_ascii_case(name));
        }
        if how != Edit::Remove {
            self.fields.push((text(name), text(value)));
        }
        true
    }
}

/// What modules call in any thread.
#[derive(Debug)]
pub(crate) struct Server {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    tickets: u64,
    /// What was said for tickets that are still open; the outer `None` until then.
    open: BTreeMap<u64, Option<Option<Kept>>>,
    log: Vec<(u32, String)>,
}

pub(crate) static SERVER: Server = Server {
    state: Mutex::new(State { tickets: 0, open: BTreeMap::new(), log: Vec::new() }),
    changed: Condvar::new(),
};

/// The helper thread.
static HELPER: OnceLock<Sender<Task>> = OnceLock::new();

thread_local! {
    /// Whether calls of this thread find no room for tasks.
    pub(crate) static IS_FULL: Cell<bool> = const { Cell::new(false) };
}

/// Has modules call this server.
pub(crate) fn serve() {
    host::serve(&SERVER);
}

impl Server {
    fn ticket(&self) -> Ticket {
        let mut state = self.state.lock().unwrap();
        state.tickets += 1;
        let number = state.tickets;
        state.open.insert(number, None);
        Ticket { words: [number, !number, 1] }
    }

    /// Waits for what is said for a ticket, and closes it.
    fn completion(&self, ticket: Ticket) -> Option<Kept> {
        let number = ticket.words[0];
        let said = self.wait(|state| state.open.get(&number).cloned().flatten());
        self.state.lock().unwrap().open.remove(&number);
        said
    }

    /// Whether nothing was said for a ticket so far.
    pub(crate) fn is_open(&self, ticket: Ticket) -> bool {
        self.state.lock().unwrap().open.get(&ticket.words[0]).is_some_and(Option::is_none)
    }

    /// Waits for a line of the log that has this text, and gives back its level.
    pub(crate) fn logged(&self, part: &str) -> u32 {
        self.wait(|state| state.log.iter().find(|(_, text)| text.contains(part)).map(|(level, _)| *level))
    }

    fn wait<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let end = Instant::now() + DEADLINE;
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = find(&state) {
                return found;
            }
            let left = end.checked_duration_since(Instant::now());
            let left = left.unwrap_or_else(|| panic!("it does not come; the log: {:?}", state.log));
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

impl ServerCalls for Server {
    fn complete(&self, ticket: Ticket, response: Option<&Response<'_>>) -> bool {
        let said = match response.map(kept) {
            None => None,
            Some(Some(kept)) => Some(kept),
            Some(None) => return false,
        };
        let mut state = self.state.lock().unwrap();
        let [number, check, _] = ticket.words;
        let Some(place @ None) = state.open.get_mut(&number).filter(|_| check == !number) else {
            return false;
        };
        *place = Some(said);
        self.changed.notify_all();
        true
    }

    fn run(&self, task: Task) -> bool {
        let helper = HELPER.get_or_init(|| {
            let (give, take) = channel::<Task>();
            std::thread::spawn(move || take.into_iter().for_each(Task::call));
            give
        });
        !IS_FULL.get() && helper.send(task).is_ok()
    }

    fn log(&self, level: u32, said: &[u8]) {
        self.state.lock().unwrap().log.push((level, text(said)));
        self.changed.notify_all();
    }
}
