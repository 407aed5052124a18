//! FastCGI applications of a world: what they read and write, in records. When they do it is as with HTTP servers (`server`).

use maitred_handoff::RequestFlags;
use maitred_http::fastcgi::record::{HEADER_BYTES, RESPONDER, RecordHeader, VERSION, kind};
use maitred_testing::model::{Answer, Asked, Fate, Id};
use maitred_testing::random::Random;
use maitred_testing::response;

use super::application::length;
use super::server::{Ending, Head, Task};
use super::time;
use super::world::World;

/// `END_REQUEST`: the request was handled; it was not, because there is too much to do.
const COMPLETE: u8 = 0;
const OVERLOADED: u8 = 2;

/// What a server writes for a response, and which of it are bytes of the answer.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) bytes: Vec<u8>,
    /// Where bytes of the answer begin, and how many there are.
    parts: Vec<(usize, usize)>,
    /// From here on the other side knows that this was all, if records say so, or that it is no response.
    pub(super) decided_at: Option<usize>,
}

impl Wire {
    /// The answer as it is.
    pub(super) fn plain(full: &[u8]) -> Wire {
        Wire { bytes: full.to_vec(), parts: vec![(0, full.len())], decided_at: None }
    }

    /// How many bytes of the answer are among the first ones of these.
    pub(super) fn offered(&self, at: usize) -> usize {
        self.parts.iter().map(|(begin, bytes)| at.saturating_sub(*begin).min(*bytes)).sum()
    }

    fn record(&mut self, kind: u8, content: &[u8], random: &mut Random) {
        let padding_bytes = random.weighted(&[(3, 0), (2, 3), (1, 255)]);
        let content_bytes = content.len() as u16;
        let header = RecordHeader { version: VERSION, kind, request_id: 1, content_bytes, padding_bytes };
        self.bytes.extend(header.to_bytes());
        if kind == kind::STDOUT && !content.is_empty() {
            self.parts.push((self.bytes.len(), content.len()));
        }
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len() + usize::from(padding_bytes), b'#');
    }

    /// Output, in records of any size, with messages and what means nothing between them.
    fn output(&mut self, mut content: &[u8], random: &mut Random) {
        loop {
            match random.weighted(&[(12, 0), (2, 1), (1, 2), (1, 3)]) {
                1 => self.record(kind::STDERR, b"a warning\nand half of", random),
                2 => self.record(kind::STDERR, b"", random),
                3 => {
                    let unknown = RecordHeader::parse(&[VERSION, 77, 0, 0, 0, 8, 0, 0]);
                    self.bytes.extend([unknown.to_bytes(), [0; HEADER_BYTES]].concat());
                }
                _ => {}
            }
            if content.is_empty() {
                return;
            }
            let most = random.weighted(&[(3, 65_535), (2, 600), (1, 20)]);
            let (part, rest) = content.split_at(content.len().min(random.within(1..most + 1)));
            self.record(kind::STDOUT, part, random);
            content = rest;
        }
    }

    fn end(&mut self, status: u8, random: &mut Random) {
        let begins = self.bytes.len();
        self.record(kind::END_REQUEST, &[0, 0, 0, 0, status, 0, 0, 0], random);
        self.decided_at.get_or_insert(begins + 2 * HEADER_BYTES);
    }

    /// All of an answer.
    fn whole(full: &[u8], random: &mut Random) -> Wire {
        let mut wire = Wire::default();
        wire.output(full, random);
        if random.percent(40) {
            wire.decided_at = Some(wire.bytes.len() + HEADER_BYTES);
            wire.record(kind::STDOUT, b"", random);
        }
        wire.end(COMPLETE, random);
        wire
    }

    /// The first bytes of an answer, and what says that this is no response.
    fn broken(full: &[u8], random: &mut Random) -> Wire {
        let mut wire = Wire::default();
        let bytes = if random.percent(50) { 0 } else { random.within(0..full.len() + 1) };
        wire.output(&full[..bytes], random);
        let headers: [[u8; HEADER_BYTES]; 5] = [
            // Of another version, of another request, of a server, an end that is none, the first bytes of a response of HTTP.
            [2, kind::STDOUT, 0, 1, 0, 1, 0, 0],
            [VERSION, kind::STDOUT, 0, 2, 0, 1, 0, 0],
            [VERSION, kind::STDIN, 0, 1, 0, 1, 0, 0],
            [VERSION, kind::END_REQUEST, 0, 1, 0, 9, 0, 0],
            *b"HTTP/1.1",
        ];
        match random.within(0..headers.len() + 2) {
            5 => wire.end(1, random),
            6 => wire.end(3, random),
            other => {
                wire.bytes.extend(headers[other]);
                wire.decided_at = Some(wire.bytes.len());
            }
        }
        wire
    }

    /// A refusal, which comes as a surprise after a part of an answer. Whether there is such a part.
    fn overloaded(full: &[u8], random: &mut Random) -> (Wire, bool) {
        let mut wire = Wire::default();
        let bytes = if random.percent(85) { 0 } else { random.within(1..full.len() + 1) };
        wire.output(&full[..bytes], random);
        wire.end(OVERLOADED, random);
        (wire, bytes > 0)
    }
}

/// Reads a request: what its parameters say once they are there, and its body once that is. `None` before.
pub(super) fn read_request(input: &[u8]) -> Result<Option<Head>, String> {
    let (mut at, mut params, mut body, mut asked) = (0, Vec::new(), Vec::new(), None);
    while let Some((header, rest)) = input[at..].split_first_chunk() {
        let header = RecordHeader::parse(header);
        let bytes = usize::from(header.content_bytes);
        let Some(content) = rest.get(..bytes) else { break };
        let next = at + HEADER_BYTES + bytes + usize::from(header.padding_bytes);
        if next > input.len() {
            break;
        }
        if (header.version, header.request_id) != (VERSION, 1) {
            return Err(format!("a strange record: {header:?}"));
        }
        match (header.kind, &asked) {
            (kind::BEGIN_REQUEST, None) if at == 0 && content == [0, RESPONDER as u8, 0, 0, 0, 0, 0, 0] => {}
            (kind::PARAMS, None) if at > 0 && bytes > 0 => params.extend_from_slice(content),
            (kind::PARAMS, None) if at > 0 => asked = Some(read_params(&params)?),
            (kind::STDIN, Some(_)) if bytes > 0 => body.extend_from_slice(content),
            (kind::STDIN, Some((id, pool, method, length))) => {
                if length.unwrap_or(0) != body.len() {
                    return Err(format!("CONTENT_LENGTH {length:?} and {} bytes", body.len()));
                }
                let (id, pool, method) = (*id, *pool, method.clone());
                return Ok(Some(Head { id, pool, method, whole: next, body: Some(body) }));
            }
            _ => return Err(format!("a record at the wrong place: {header:?}")),
        }
        at = next;
    }
    Ok(asked.map(|(id, pool, method, _)| Head { id, pool, method, whole: usize::MAX, body: None }))
}

/// The request's number, its pool, its method, and how long its body is.
fn read_params(mut params: &[u8]) -> Result<(Id, usize, String, Option<usize>), String> {
    let mut take = |bytes: usize| {
        let (taken, rest) = params.split_at_checked(bytes)?;
        params = rest;
        Some(taken)
    };
    let mut found = std::collections::BTreeMap::new();
    while let Some([first]) = take(1) {
        let mut lengths = [usize::from(*first), 0];
        for place in 0..2 {
            if place == 1 {
                lengths[1] = usize::from(*take(1).and_then(<[u8]>::first).ok_or("no length")?);
            }
            if lengths[place] >= 128 {
                let rest = take(3).ok_or("no length")?;
                lengths[place] =
                    rest.iter().fold(lengths[place] & 127, |sum, byte| sum << 8 | usize::from(*byte));
            }
        }
        let [name, value] = lengths.map(|bytes| take(bytes).map(String::from_utf8_lossy));
        let (name, value) = (name.ok_or("no name")?, value.ok_or("no value")?);
        if found.insert(name.clone().into_owned(), value.into_owned()).is_some() {
            return Err(format!("{name} comes twice"));
        }
    }
    let of = |name: &str| found.get(name).ok_or_else(|| format!("no {name}"));
    let path = of("REQUEST_URI")?;
    if of("PATH_INFO")? != path || !of("SCRIPT_NAME")?.is_empty() {
        return Err("a script that is not there".into());
    }
    let (pool, id) = path.trim_start_matches("/p").split_once('/').ok_or("a strange path")?;
    let (Ok(pool), Ok(id)) = (pool.parse(), id.parse()) else {
        return Err(format!("a strange path: {path}"));
    };
    let length = of("CONTENT_LENGTH").ok().and_then(|length| length.parse().ok());
    Ok((id, pool, of("REQUEST_METHOD")?.clone(), length))
}

/// An answer as a program of CGI gives it.
pub(super) fn answer_to(asked: &Asked, random: &mut Random) -> Answer {
    let flags = RequestFlags {
        keep: true,
        http10: asked.http10,
        head: asked.method == "HEAD",
        body_fd: false,
        may_detach: false,
        body_stream: false,
    };
    let Answer { status, body, .. } = response::answer_of(asked.id, flags, length, random);
    let end = if random.percent(50) { "\r\n" } else { "\n" };
    let bare = flags.head || matches!(status, 204 | 304);
    let known = !bare && random.percent(50);
    let size = if known { format!("Content-Length: {}{end}", body.len()) } else { String::new() };
    let head = format!("Status: {status} Puppet{end}X-Id: {}{end}{size}{end}", asked.id);
    let (head_bytes, full) = (head.len(), [head.as_bytes(), &body].concat());
    let closes = !asked.keep || asked.http10 && !known && !bare;
    Answer { status, full, head_bytes, body, closes, open_ended: false }
}

impl World<'_> {
    /// What an application does with a request.
    pub(super) fn plan_records(&mut self, id: Id, full: &[u8]) -> Task {
        use Ending as E;
        let wild = [
            (60, E::Clean),
            (8, E::Closes),
            (16, E::Breaks),
            (6, E::Resets),
            (6, E::Garbage),
            (8, E::Overloaded),
            (4, E::Never),
        ];
        let mut ending = if self.wild { self.random.weighted(&wild) } else { E::Clean };
        let random = &mut self.random;
        let wire = match ending {
            E::Garbage => Wire::broken(full, random),
            E::Overloaded => {
                let (wire, late) = Wire::overloaded(full, random);
                ending = if late { E::Garbage } else { E::Overloaded };
                wire
            }
            _ => Wire::whole(full, random),
        };
        let limit = match ending {
            E::Breaks | E::Resets | E::Never if random.percent(50) => 0,
            E::Breaks | E::Resets | E::Never => random.within(0..wire.decided_at.unwrap_or(0)),
            _ => wire.bytes.len(),
        };
        let patient = random.percent(80);
        let moved_at = time::now();
        Task {
            id,
            patient,
            interim: false,
            begun: false,
            wire,
            at: 0,
            limit,
            moved_at,
            ending,
            closes: false,
        }
    }

    /// All records of a response are written, or those that there will be.
    pub(super) fn end_records(&mut self, at: usize, link: usize) -> bool {
        let Some(task) = &self.servers.all[at].links[link].task else { return false };
        let (id, ending, place) = (task.id, task.ending, self.servers.all[at].place);
        match ending {
            Ending::Never => return false,
            Ending::Breaks | Ending::Resets => {
                self.close_link(at, link, ending == Ending::Resets);
                return true;
            }
            Ending::Clean | Ending::Closes => self.request(id).fate = Fate::Whole,
            Ending::Garbage => self.request(id).fate = Fate::Broken,
            Ending::Overloaded => {
                self.servers.tried.entry(id).or_default().lost.insert(place);
                let request = self.request(id);
                (request.fate, request.refused) = (Fate::Lost, true);
                self.find_reasons();
            }
        }
        self.note(|| format!("application {at}: {id} has ended, {ending:?}"));
        let found = &mut self.servers.all[at].links[link];
        (found.task, found.used) = (None, true);
        found.spoilt = Some("a connection is for one request");
        if ending == Ending::Closes {
            self.close_link(at, link, false);
        }
        true
    }
}
