//! What may happen to a connection: a model without sockets, processes or time.
//!
//! The test tells it what the client has sent, to which process Maitred gave each request, and what the application did about it.
//! The model says whether Maitred was allowed to give a request away, and whether the client may have received what it has
//! received.

use std::sync::Arc;

/// Names a request in the whole test.
pub type Id = u32;

/// What the application writes its response to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The client's own socket: its bytes arrive as they are.
    Direct,
    /// A socketpair: Maitred frames the response anew.
    Relay,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The request's name, which the target, the response's `X-Id` and each 16 bytes of its body hold.
    pub id: Id,
    pub method: &'static str,
    pub http10: bool,
    /// The client asks to keep the connection.
    pub keep: bool,
    pub transport: Transport,
    pub upgrade: bool,
    /// Maitred answers it by itself, with 200.
    pub fixed: bool,
    pub body: Vec<u8>,
}

/// The response that an application means to give.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub status: u16,
    /// Every byte of it.
    pub full: Vec<u8>,
    /// How many of them are the head.
    pub head_bytes: usize,
    /// The body without framing.
    pub body: Vec<u8>,
    /// The connection ends with it.
    pub closes: bool,
    /// Only the end of the connection says that it is complete.
    pub open_ended: bool,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No application has it.
    Waiting,
    /// An application has it.
    UnderWay,
    /// The application has reported it as complete.
    Whole,
    /// The application has reported that it broke the response off.
    Broken,
    /// The application has reported that it wrote nothing.
    Nothing,
    /// The application was lost, or has closed its channel.
    Lost,
    /// The application has taken the connection over.
    Detached,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub asked: Asked,
    pub answer: Answer,
    /// All of its bytes are on their way to Maitred.
    pub sent: bool,
    /// How often it was given to an application.
    pub deliveries: u32,
    pub fate: Fate,
    /// Bytes of the answer that the application has written or returned as a tail.
    pub offered: usize,
    /// How many of them it has written itself: tails leave with DONE, or not at all.
    pub written: usize,
    /// A process of its pool was lost without saying what it had been sent.
    pub may_be_unseen: bool,
    /// The process that had it was lost because a request took too long.
    pub overdue: bool,
    /// The request takes so long itself that Maitred may have ended it, regardless of what its process says of it then.
    pub timed_out: bool,
    /// The client takes longer to send it than it may.
    pub late: bool,
    /// Another thread than that of its connection may have it: what fails there ends a connection within the server.
    pub across: bool,
    /// The pool whose HTTP servers it is for. Then `may_be_unseen` says that none of them could be relied on.
    pub server: Option<usize>,
    /// The servers take few requests at a time, and a queue the next ones.
    pub bounded: bool,
    /// The request goes there while the client sends it.
    pub passing: bool,
    /// All servers that could be relied on have lost it, or refused it.
    pub exhausted: bool,
    /// The server that had it last has refused it without acting on it.
    pub refused: bool,
    /// Maitred answers it with these bytes of a file.
    pub content: Option<Arc<[u8]>>,
}

impl Request {
    pub fn new(asked: Asked) -> Request {
        Request {
            asked,
            answer: Answer::default(),
            sent: false,
            deliveries: 0,
            fate: Fate::Waiting,
            offered: 0,
            written: 0,
            may_be_unseen: false,
            overdue: false,
            timed_out: false,
            late: false,
            across: false,
            server: None,
            bounded: false,
            passing: false,
            exhausted: false,
            refused: false,
            content: None,
        }
    }

    /// No application has it any more.
    fn has_ended(&self) -> bool {
        !matches!(self.fate, Fate::Waiting | Fate::UnderWay)
    }

    /// Whether the request's application has ended otherwise than with a response that it has said to be whole.
    fn is_unreported(&self) -> bool {
        self.fate != Fate::Whole && self.has_ended()
    }

    /// Whether the connection may go on all the same once the client has every byte: another thread does not see what
    /// happened, and a FastCGI application that does not report the end is not waited for without limit.
    fn may_go_on(&self) -> bool {
        self.across || self.server.is_some() && self.timed_out
    }

    /// Whether the request's application failed when it had begun, as far as can be known, so that Maitred cuts the connection.
    fn may_be_cut(&self) -> bool {
        let direct = self.asked.transport == Transport::Direct;
        match self.fate {
            Fate::Broken | Fate::Lost => direct || self.offered > 0,
            Fate::Waiting => direct && self.may_be_unseen,
            _ => false,
        }
    }

    /// Asking twice does no harm (9110-9.2.1).
    fn is_safe(&self) -> bool {
        self.asked.method != "POST"
    }

    /// The same, or no application has acted on it.
    fn may_be_sent_twice(&self) -> bool {
        self.is_safe() || self.refused
    }

    /// Whether a client can have received nothing, as far as Maitred can know.
    fn is_untouched(&self) -> bool {
        self.written == 0 || self.is_headless()
    }

    /// Through a relay nothing leaves before the head is there.
    fn is_headless(&self) -> bool {
        self.asked.transport == Transport::Relay && self.written < self.answer.head_bytes
    }

    /// The same of one for a server. A status that is kept for it may be answered by another attempt that was not made.
    fn may_be_error_of_server(&self, status: u16) -> bool {
        match (self.fate, status) {
            (_, 504) => self.timed_out,
            (Fate::Waiting, 408) => self.late,
            (Fate::Lost, 408) => self.late && self.passing,
            // All servers are full, and so is the queue; or all others are, for one that is to be sent again.
            (Fate::Waiting, 503) if self.bounded => true,
            (Fate::Lost, 503) if self.bounded => self.may_be_sent_twice(),
            (Fate::Waiting, 502 | 503) => self.may_be_unseen,
            (Fate::Lost, 502) => !self.may_be_sent_twice() || self.exhausted,
            // A body that was passed on is not here any more, so that no other server can get it.
            (Fate::Lost, 503) => self.may_be_sent_twice() && (self.exhausted || self.passing),
            (Fate::Broken, 502) => self.is_headless(),
            _ => false,
        }
    }

    fn may_be_error(&self, status: u16, refusals: bool) -> bool {
        if self.server.is_some() {
            return self.may_be_error_of_server(status);
        }
        match (self.fate, status) {
            (_, 504) if self.timed_out => true,
            (Fate::Waiting, 200) => self.asked.fixed,
            (Fate::Waiting, 408) => self.late,
            (Fate::Lost, 502) => self.is_untouched(),
            (Fate::Lost, 504) => self.overdue && self.is_untouched(),
            // The request was to be retried, and found the queue full.
            (Fate::Lost, 503) => refusals && self.is_safe() && self.is_untouched(),
            (Fate::Broken, 502) => self.is_headless(),
            (Fate::Nothing, 502) => true,
            (Fate::Waiting, 502) => self.may_be_unseen,
            (Fate::Waiting, 503) => refusals,
            _ => false,
        }
    }
}

/// What the bytes say about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// Nothing.
    Silence,
    /// A part of its own response: so many bytes of it, as far as that is known.
    Part(Option<usize>),
    /// All of its own response.
    Whole { used: usize, closes: bool },
    /// An error of Maitred's.
    Error { status: u16, used: usize, closes: bool },
}

/// What a client's bytes mean so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Requests that are answered to the end.
    pub answered: usize,
    /// The first bytes of another answer are there.
    pub partly: bool,
    /// Nothing more may come.
    pub over: bool,
}

/// A connection with all requests that its client means to send, in order.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    pub requests: Vec<Request>,
    /// The client has closed or reset it, and may have missed anything.
    pub left: bool,
    /// The client has finished sending.
    pub half_closed: bool,
    /// Maitred stops: it may end the connection between two responses.
    pub may_close: bool,
    /// The worker process was killed while it may have held the connection.
    pub cut: bool,
    /// Maitred answers 503 when the queue is full.
    pub refusals: bool,
}

impl Connection {
    /// Maitred gives a request to an application.
    pub fn deliver(&mut self, at: usize) -> Result<(), String> {
        for earlier in &self.requests[..at] {
            let id = earlier.asked.id;
            match earlier.fate {
                // The request's connection was another one, of which the client's thread sees how much of a response came by
                // it.
                Fate::UnderWay | Fate::Lost
                    if earlier.across && earlier.written == earlier.answer.full.len() => {}
                Fate::Broken | Fate::Nothing | Fate::Lost if earlier.across && earlier.is_headless() => {}
                Fate::UnderWay if !earlier.timed_out => {
                    return Err(format!("it has two owners: request {id} is under way"));
                }
                Fate::Whole if earlier.answer.closes => return Err(format!("request {id} was the last")),
                Fate::Whole => {}
                // A refusal for want of room keeps the connection.
                Fate::Waiting if self.refusals || earlier.asked.fixed => {}
                // The request had its answer, behind the back of its process.
                _ if earlier.timed_out && earlier.asked.transport == Transport::Relay => {}
                Fate::Lost if self.refusals && earlier.is_safe() && earlier.is_untouched() => {}
                // The request was answered by an error.
                Fate::Lost | Fate::Broken if earlier.server.is_some() && earlier.is_headless() => {}
                fate => return Err(format!("request {id} before it is {fate:?}")),
            }
        }
        let request = &mut self.requests[at];
        if !request.sent && !request.passing {
            return Err("the client has not sent all of it".into());
        }
        let again = request.fate == Fate::Lost && request.may_be_sent_twice() && request.is_untouched();
        // The connection's thread only sees that the connection between the two has ended.
        let again = again
            || request.across && request.fate == Fate::Broken && request.is_safe() && request.written == 0;
        let times = if request.server.is_some() { 4 } else { 2 };
        if request.deliveries > 0 && !(request.deliveries < times && again) {
            return Err(format!("it was given before, and is {:?}", request.fate));
        }
        request.deliveries += 1;
        (request.fate, request.refused) = (Fate::UnderWay, false);
        (request.offered, request.written) = (0, 0);
        Ok(())
    }

    /// Reads what the client has received so far.
    pub fn progress(&self, stream: &[u8]) -> Result<Progress, String> {
        let mut rest = stream;
        let mut progress = Progress::default();
        for request in &self.requests {
            let id = request.asked.id;
            let reply = read(request, rest).map_err(|why| format!("request {id}: {why}"))?;
            let (used, closes) = match reply {
                Reply::Silence => return Ok(progress),
                Reply::Part(bytes) if bytes.is_none_or(|bytes| bytes <= request.offered) => {
                    return Ok(Progress { partly: true, ..progress });
                }
                Reply::Part(_) => return Err(format!("request {id}: more than was written")),
                Reply::Whole { .. } if request.offered < request.answer.full.len() => {
                    return Err(format!("request {id}: more than was written"));
                }
                // Without a report it is not known that this was all.
                Reply::Whole { used, closes } => {
                    (used, closes || request.is_unreported() && !request.may_go_on())
                }
                Reply::Error { status, .. } if !request.may_be_error(status, self.refusals) => {
                    return Err(format!("request {id}, which is {:?}, is answered {status}", request.fate));
                }
                Reply::Error { used, closes, .. } => (used, closes),
            };
            rest = rest.get(used..).unwrap_or_default();
            progress.answered += 1;
            if closes {
                progress.over = true;
                break;
            }
        }
        match rest.is_empty() {
            true => Ok(progress),
            false => Err(format!("after the last response: {}", shown(rest))),
        }
    }

    /// Judges a connection that has ended. `early` if the server ended it before the client did.
    pub fn ended(&self, stream: &[u8], early: bool) -> Result<(), String> {
        let progress = self.progress(stream)?;
        let unreported = |request: &Request| request.is_unreported() && request.may_go_on();
        if self.left || self.cut || progress.over || self.requests[..progress.answered].iter().any(unreported)
        {
            return Ok(());
        }
        let Some(next) = self.requests.get(progress.answered) else {
            return if early && !self.may_close {
                Err("ended after its last response, which was to keep it".into())
            } else {
                Ok(())
            };
        };
        let id = next.asked.id;
        let excused = match next.fate {
            _ if next.timed_out => true,
            // What has come of it is with its server, which has to see that this is not all.
            _ if next.passing && !next.sent && !early => true,
            Fate::Broken if next.server.is_some() => !next.is_headless(),
            Fate::Broken | Fate::Detached => true,
            // What happened to the socket before can hide that nothing was written.
            Fate::Lost if next.offered > 0 || next.asked.transport == Transport::Direct => true,
            // The connection between two threads has ended like that of a process that gives up for a client that has gone.
            Fate::Lost => next.across && self.half_closed && !progress.partly,
            Fate::Nothing => self.half_closed && !progress.partly,
            // A request that the test never saw may have been with a process that was lost.
            Fate::Waiting if next.may_be_unseen && next.asked.transport == Transport::Direct => true,
            Fate::Waiting => (!next.sent && !early || self.may_close) && !progress.partly,
            // A connection that is cut in the middle of a response may take those before it along, if they are on their way.
            Fate::Whole => self.requests[progress.answered..].iter().any(Request::may_be_cut),
            Fate::UnderWay => false,
        };
        match excused {
            true => Ok(()),
            false if next.fate == Fate::Waiting && next.sent => Err(format!("request {id} was lost")),
            false => Err(format!("request {id} is {:?}, and its response ended", next.fate)),
        }
    }
}

/// Tells whose bytes come next.
fn read(request: &Request, bytes: &[u8]) -> Result<Reply, String> {
    if bytes.is_empty() {
        return Ok(Reply::Silence);
    }
    let full = &request.answer.full;
    if request.asked.transport == Transport::Direct && !full.is_empty() {
        if bytes.starts_with(full) {
            return Ok(Reply::Whole { used: full.len(), closes: request.answer.closes });
        }
        // Up to the status it may be an error as well.
        if full.starts_with(bytes) && bytes.len() > b"HTTP/1.1 200".len() {
            return Ok(Reply::Part(Some(bytes.len())));
        }
    }
    let Some(head) = Head::of(bytes)? else { return Ok(Reply::Part(None)) };
    let body = bytes.get(head.bytes..).unwrap_or_default();
    match head.id {
        None if head.status == 200 && request.content.is_some() => served(request, &head, body),
        None => {
            let length = if request.asked.method == "HEAD" { 0 } else { head.length.ok_or("no length")? };
            let used = head.bytes + length;
            if bytes.len() < used {
                return Ok(Reply::Part(None));
            }
            Ok(Reply::Error { status: head.status, used, closes: head.closes })
        }
        Some(id) if id != request.asked.id => Err(format!("it received the response of request {id}")),
        Some(_) if request.asked.transport == Transport::Direct => {
            let same = bytes.iter().zip(full).take_while(|(one, other)| one == other).count();
            let rest = bytes.get(same..).unwrap_or_default();
            Err(format!("its response is not as written from byte {same} on: {}", shown(rest)))
        }
        Some(_) => relayed(request, &head, body),
    }
}

/// A file.
fn served(request: &Request, head: &Head, bytes: &[u8]) -> Result<Reply, String> {
    let content = request.content.as_deref().unwrap_or_default();
    if head.length != Some(content.len()) {
        return Err(format!("{:?} bytes of a file of {}", head.length, content.len()));
    }
    let wanted = if request.asked.method == "HEAD" { 0 } else { content.len() };
    let there = bytes.len().min(wanted);
    if bytes.get(..there) != content.get(..there) {
        return Err("the content is not that of the file".into());
    }
    match there == wanted {
        true => Ok(Reply::Error { status: 200, used: head.bytes + wanted, closes: head.closes }),
        false => Ok(Reply::Part(None)),
    }
}

/// A response that Maitred has framed.
fn relayed(request: &Request, head: &Head, bytes: &[u8]) -> Result<Reply, String> {
    let answer = &request.answer;
    if head.status != answer.status {
        return Err(format!("status {} instead of {}", head.status, answer.status));
    }
    let bare = request.asked.method == "HEAD" || matches!(head.status, 204 | 304);
    let (body, whole, used) = if bare {
        (Vec::new(), true, 0)
    } else if head.chunked {
        unchunk(bytes)?
    } else if let Some(length) = head.length {
        let there = bytes.len().min(length);
        (bytes.get(..there).unwrap_or_default().to_vec(), there == length, length)
    } else {
        (bytes.to_vec(), bytes.len() >= answer.body.len(), bytes.len())
    };
    if !answer.body.starts_with(&body) {
        let same = body.iter().zip(&answer.body).take_while(|(one, other)| one == other).count();
        let rest = body.get(same..).unwrap_or_default();
        return Err(format!("its body is not as written from byte {same} on: {}", shown(rest)));
    }
    if whole && body.len() != answer.body.len() && !bare {
        return Err(format!("{} bytes of body are said to be all of {}", body.len(), answer.body.len()));
    }
    let open_ended = !bare && !head.chunked && head.length.is_none();
    match whole {
        true => Ok(Reply::Whole { used: head.bytes + used, closes: head.closes || open_ended }),
        // All bytes of the body that are there were written before.
        false => Ok(Reply::Part(
            Some(answer.head_bytes.min(request.offered) + body.len()).filter(|_| !head.chunked),
        )),
    }
}

/// The head of a response.
struct Head {
    status: u16,
    id: Option<Id>,
    length: Option<usize>,
    chunked: bool,
    closes: bool,
    bytes: usize,
}

impl Head {
    /// `None` if it is not complete.
    fn of(bytes: &[u8]) -> Result<Option<Head>, String> {
        let start = bytes.get(..bytes.len().min(9)).unwrap_or_default();
        if !b"HTTP/1.1 ".starts_with(start) {
            return Err(format!("foreign bytes: {}", shown(bytes)));
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.get(9..12)).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("no status: {}", shown(bytes)))?;
        let mut head = Head { status, id: None, length: None, chunked: false, closes: false, bytes: end + 4 };
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("no field: {line:?}"))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "x-id" => head.id = value.parse().ok(),
                "content-length" => head.length = value.parse().ok(),
                "transfer-encoding" => head.chunked = value == "chunked",
                "connection" => head.closes = value == "close",
                _ => {}
            }
        }
        Ok(Some(head))
    }
}

/// Decodes chunks: what is there of the body, whether that is all, and how many bytes it took.
fn unchunk(bytes: &[u8]) -> Result<(Vec<u8>, bool, usize), String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else { break };
        let text = String::from_utf8_lossy(rest.get(..line).unwrap_or_default()).into_owned();
        let size = usize::from_str_radix(&text, 16).map_err(|_| format!("chunk of size {text:?}"))?;
        let data = rest.get(line + 2..).unwrap_or_default();
        body.extend_from_slice(data.get(..size.min(data.len())).unwrap_or_default());
        match data.get(size..size + 2) {
            None => break,
            Some(b"\r\n") => at += line + 4 + size,
            Some(other) => return Err(format!("a chunk ends with {other:?}")),
        }
        if size == 0 {
            return Ok((body, true, at));
        }
    }
    Ok((body, false, bytes.len()))
}

/// The beginning of some bytes, for a message.
fn shown(bytes: &[u8]) -> String {
    format!(
        "{:?} ({} bytes)",
        String::from_utf8_lossy(bytes.get(..bytes.len().min(80)).unwrap_or_default()),
        bytes.len()
    )
}

#[cfg(test)]
mod tests;
