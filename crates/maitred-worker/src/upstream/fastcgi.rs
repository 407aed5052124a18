//! A request as records of FastCGI, and the response that comes in records.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use maitred_http::fastcgi::decode::{Decoder, Event, ProtocolStatus};
use maitred_http::fastcgi::encode::{self, PairTooBig};
use maitred_http::fastcgi::head::{self, HeadBuffer};
use maitred_http::fastcgi::script::Script;
use maitred_http::fastcgi::stdin::Stdin;
use maitred_http::fastcgi::variables::{self, Variables};
use maitred_http::fields::FieldLines;
use maitred_http::request::Version;
use maitred_http::response::{Encode, Filter};

use super::failure::Cause;
use crate::facts::identity::User;
use crate::origin::Client;
use maitred_config::FastCgi;
use maitred_files::RequestContext;

/// Bytes of messages (`STDERR`) of one request that are logged; the rest is counted. A warning of PHP with its stack trace has a
/// few KiB; a script that warns in a loop would fill the disk.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a line of messages. php-fpm writes all messages of a request into one.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Lines of messages of one request: each is a write to the log.
const LINES_MAX: u32 = 256;

/// Why there is no response, or no whole one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The application has refused the request without acting on it: it may be sent to another server, or the client gets 503.
    Overloaded,
    /// What came is no response (502).
    Bad(String),
}

impl Failed {
    /// The cause for the rule of failures (`upstream::failure`).
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Failed::Overloaded => Cause::Overloaded,
            Failed::Bad(_) => Cause::Bad,
        }
    }

    fn bad(why: impl fmt::Display) -> Failed {
        Failed::Bad(why.to_string())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Overloaded => ProtocolStatus::Overloaded.fmt(f),
            Failed::Bad(why) => f.write_str(why),
        }
    }
}

/// One request, and its response, on one connection.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    /// What comes back.
    pub(crate) reply: Reply,
    /// A body that is spooled.
    pub(crate) stdin: Stdin,
}

/// The response to one request, as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    records: Decoder,
    /// The header, until all of it is there.
    head: HeadBuffer,
    headed: bool,
    complete: bool,
    messages: Messages,
}

impl Reply {
    /// Takes bytes of the application, and writes to `out` what the client gets. `log` gets whole lines of messages, without
    /// their ends, as they become known.
    ///
    /// # Errors
    /// [`Failed`]; the same or a similar one for later calls.
    pub(crate) fn feed(
        &mut self,
        mut input: &[u8],
        filter: &mut Filter,
        out: &mut impl Encode,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failed> {
        if self.complete {
            return Ok(());
        }
        while let Some(event) = self.records.next(&mut input).map_err(Failed::bad)? {
            match event {
                Event::Stdout(part) => self.output(part, filter, out)?,
                Event::Stderr(part) => self.messages.take(part, log),
                Event::End { protocol_status: ProtocolStatus::RequestComplete, .. } => break,
                Event::End { protocol_status: ProtocolStatus::Overloaded, .. }
                    if !self.headed && self.head.head().is_empty() =>
                {
                    return Err(Failed::Overloaded);
                }
                Event::End { protocol_status, .. } => return Err(Failed::bad(protocol_status)),
            }
        }
        // With PHP the output ends with END_REQUEST only; other applications send an empty `STDOUT` before.
        if self.records.output_complete() { self.finish(filter, out, log) } else { Ok(()) }
    }

    /// The application has closed the connection. Also to be called when reading it has failed.
    ///
    /// # Errors
    /// [`Failed`], unless the response was complete by then.
    pub(crate) fn end(&mut self, log: &mut dyn FnMut(&[u8])) -> Result<(), Failed> {
        self.messages.finish(log);
        if self.complete {
            return Ok(());
        }
        self.records.end().map_err(Failed::bad)?;
        Err(Failed::bad(self.head.incomplete()))
    }

    /// Whether the application has sent everything. The client has a whole response before that if its length was announced;
    /// closing the connection then would have PHP abort a script that still works.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    fn output(&mut self, part: &[u8], filter: &mut Filter, out: &mut impl Encode) -> Result<(), Failed> {
        if self.headed {
            return filter.feed(part, out).map(drop).map_err(Failed::bad);
        }
        let Some(content) = self.head.feed(part, filter.bounds()).map_err(Failed::bad)? else {
            return Ok(());
        };
        let parsed = head::parse(self.head.head(), filter.bounds()).map_err(Failed::bad)?;
        let (head, _) = parsed.ok_or_else(|| Failed::bad(self.head.incomplete()))?;
        filter.begin(&head, out).map_err(Failed::bad)?;
        (self.headed, self.head) = (true, HeadBuffer::default());
        filter.feed(content, out).map(drop).map_err(Failed::bad)
    }

    /// The output is complete.
    fn finish(
        &mut self,
        filter: &mut Filter,
        out: &mut impl Encode,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failed> {
        self.messages.finish(log);
        if !self.headed {
            return Err(Failed::bad(self.head.incomplete()));
        }
        filter.end(out).map_err(Failed::bad)?;
        self.complete = true;
        Ok(())
    }
}

/// Messages of a request, line by line.
#[derive(Debug, Default)]
struct Messages {
    line: Vec<u8>,
    /// Lines that were logged.
    lines: u32,
    /// Bytes that were taken.
    taken: usize,
    /// Bytes that were not.
    dropped: u64,
}

impl Messages {
    fn take(&mut self, part: &[u8], log: &mut dyn FnMut(&[u8])) {
        let free = MESSAGE_BYTES_MAX.saturating_sub(self.taken);
        let (mut part, rest) = part.split_at(free.min(part.len()));
        self.taken += part.len();
        self.dropped += rest.len() as u64;
        while !part.is_empty() {
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            let end = memchr::memchr(b'\n', part).map_or(part.len(), |at| at + 1);
            let (piece, behind) = part.split_at(end.min(room).max(1));
            self.line.extend_from_slice(piece);
            part = behind;
            if piece.ends_with(b"\n") || self.line.len() >= LINE_BYTES_MAX {
                self.flush(log);
            }
        }
    }

    fn flush(&mut self, log: &mut dyn FnMut(&[u8])) {
        let line = self.line.trim_ascii_end();
        match line.is_empty() {
            true => {}
            false if self.lines < LINES_MAX => {
                self.lines += 1;
                log(line);
            }
            false => self.dropped += line.len() as u64,
        }
        self.line.clear();
    }

    /// None follow.
    fn finish(&mut self, log: &mut dyn FnMut(&[u8])) {
        self.flush(log);
        if self.dropped > 0 {
            log(format!("{} more bytes of messages", self.dropped).as_bytes());
        }
        (self.line, self.dropped) = (Vec::new(), 0);
    }
}

/// A request, as it is sent to an application.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The head, and the path that the route was chosen by.
    pub context: &'a RequestContext<'a>,
    /// The target, in its one form.
    pub target: &'a str,
    /// `REQUEST_URI`: that, or the one that the client has sent.
    pub uri: &'a str,
    /// The authority that the application gets: the client's, or what the route sets instead.
    pub host: &'a str,
    /// The settings of the pool.
    pub settings: &'a FastCgi,
    /// Where the pool is mounted.
    pub mount: &'a str,
    /// The script, with paths below `mount`; `None` for an application without files.
    pub script: Option<&'a Script<'a>>,
    /// The client: its address, and whether it used TLS.
    pub client: &'a Client,
    /// Where its connection has come in.
    pub local: Option<std::net::SocketAddr>,
    /// The fields that go on, `Host` included.
    pub fields: &'a FieldLines,
    /// The user, if a gate has found out who that is.
    pub user: Option<&'a User>,
    /// Variables of the operator's.
    pub params: &'a [(&'a str, Vec<u8>)],
    /// Bytes of content, if there is content.
    pub content_length: Option<u64>,
    /// The client has said so itself.
    pub length_sent: bool,
}

/// Appends a request, and its content if that is `inline`. For other content, the caller writes the records and the empty one
/// after them (`encode::stdin_record`, `encode::put_stdin_end`).
///
/// # Errors
/// A variable is too long: 431. Nothing was appended then.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    asked: &Asked<'_>,
    inline: Option<&[u8]>,
) -> Result<(), PairTooBig> {
    let request = asked.context.request;
    let root = asked.settings.script_root.as_deref().map(|root| root.as_os_str().as_bytes());
    // The path of the root directory is the only one with a slash at its end.
    let root = root.map(|root| root.strip_suffix(b"/").unwrap_or(root));
    let below = asked.context.path.strip_prefix(asked.mount.as_bytes()).unwrap_or(asked.context.path);
    let whole = Script { path_info: below, ..Script::default() };
    let variables = Variables {
        method: request.method_text,
        target: asked.uri,
        query: asked.target.split_once('?').map_or("", |(_, query)| query),
        protocol: match request.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        },
        software: "maitred",
        server_name: host(asked.host),
        https: asked.client.https,
        client: asked.client.remote.address,
        server: asked.local,
        document_root: root.filter(|_| asked.script.is_some()),
        mount: asked.mount.as_bytes(),
        script: asked.script.copied().unwrap_or(whole),
        content_length: asked.content_length,
        length_sent: asked.length_sent,
        program: asked.settings.script_filename.as_deref().map(|program| program.as_os_str().as_bytes()),
        further: asked.params,
        authenticated: asked.user.map(|user| (user.source().auth_type(), user.name())),
    };
    let fields = asked.fields.all().iter();
    let fields = fields.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)));
    let before = out.len();
    encode::put_begin_request(out, false);
    encode::put_params(out, |params| variables::put(params, &variables, fields))
        .inspect_err(|_| out.truncate(before))?;
    if let Some(content) = inline {
        encode::put_stdin(out, content);
        encode::put_stdin_end(out);
    }
    Ok(())
}

/// The host of an authority, without a port (RFC 3875 section 4.1.14). A request of HTTP/1.0 may have none.
pub(crate) fn host(authority: &str) -> &str {
    if authority.is_empty() {
        return "localhost";
    }
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((host, port)) if digits(port) && !host.is_empty() => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests;
