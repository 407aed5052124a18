//! Whether a server answers as the profile wants it, before it is measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use maitred_load::client::Trust;
use maitred_load::http3::client::{self, Connector};
use serde_json::Value;

use super::super::Bench;
use super::super::protocol::Protocol;
use super::super::server::Running;
use super::data::{self, Data};
use super::{Asks, PAIRS, Profile};
use crate::Result;

/// How often a connection of HTTP/3 is tried.
const TRIES: usize = 3;
/// H3_NO_ERROR (RFC 9114 section 8.1).
const NO_ERROR: u64 = 0x100;

/// A request.
#[derive(Default)]
struct Asked<'a> {
    path: &'a str,
    /// Content of a POST; without it is GET.
    content: Option<&'a str>,
    chunked: bool,
    /// What `Accept-Encoding` says.
    codings: Option<&'a str>,
}

/// What came back.
struct Answer {
    status: u16,
    content_type: String,
    coding: String,
    content: Vec<u8>,
}

/// Asks for everything that the profile does.
pub(super) fn check(bench: &Bench, server: &Running, profile: &Profile, asked: (&Data, &str)) -> Result<()> {
    let http3 = if profile.protocol == Protocol::Http3 { Some(connect(server)?) } else { None };
    let mut client = Client { bench, server, protocol: profile.protocol, http3 };
    let checked = match profile.asks {
        Asks::Sum | Asks::SumAndClose => sums(&mut client),
        Asks::Fixed => text(&mut client, &Asked { path: "/pipeline", ..Asked::default() }, "ok"),
        Asks::Json => lists(&mut client),
        Asks::Files => files(&mut client, asked),
    };
    // Servers wait for connections that are open when they end.
    if let Some(http3) = &mut client.http3 {
        http3.close(NO_ERROR, "");
        http3.flush();
    }
    checked.map_err(|error| format!("its answers are not those that are wanted: {error}").into())
}

struct Client<'a> {
    bench: &'a Bench,
    server: &'a Running,
    protocol: Protocol,
    http3: Option<client::Client>,
}

/// A connection of HTTP/3. nginx 1.26 was seen to refuse one of some hundred ("failed to process transport parameters"), so it is
/// tried more than once; the generator replaces such a connection, and counts it as a failure.
fn connect(server: &Running) -> Result<client::Client> {
    let connector = Connector::new(server.address, "localhost", &Trust::Anyone)
        .map_err(|error| format!("HTTP/3: {error}"))?;
    let mut tries = (0..TRIES).map(|_| connector.connect());
    let last = tries.find(std::result::Result::is_ok).unwrap_or_else(|| connector.connect());
    last.map_err(|error| format!("HTTP/3: {error}").into())
}

impl Client<'_> {
    fn ask(&mut self, asked: &Asked<'_>) -> Result<Answer> {
        let Some(client) = &mut self.http3 else { return self.curl(asked) };
        let mut fields = vec![
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", asked.path),
        ];
        fields.extend(asked.codings.map(|codings| ("accept-encoding", codings)));
        let response = client.request(&fields, b"").map_err(|error| format!("{}: {error}", asked.path))?;
        let field = |name: &str| response.field(name).unwrap_or_default().to_owned();
        let (content_type, coding) = (field("content-type"), field("content-encoding"));
        Ok(Answer { status: response.status, content_type, coding, content: response.body })
    }

    fn curl(&self, asked: &Asked<'_>) -> Result<Answer> {
        let place = |name: &str| self.bench.work.join("arena").join(name);
        let (head, content) = (place("head"), place("content"));
        let mut command = Command::new("curl");
        command.args(["-sS", "-k", "--max-time", "30", "-w", "%{http_version}"]);
        command.arg(if self.protocol.is_http2() { "--http2" } else { "--http1.1" });
        command.arg("-D").arg(&head).arg("-o").arg(&content);
        if let Some(content) = asked.content {
            command.args(["-H", "Content-Type: text/plain", "-d", content]);
        }
        if asked.chunked {
            command.args(["-H", "Transfer-Encoding: chunked"]);
        }
        if let Some(codings) = asked.codings {
            command.arg("-H").arg(format!("Accept-Encoding: {codings}"));
        }
        // What an earlier request has left is no answer.
        fs::write(&content, "")?;
        let output = command.arg(self.server.url(asked.path)).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("curl (package curl): {error}"))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let wanted = if self.protocol.is_http2() { "2" } else { "1.1" };
        if !output.status.success() || version != wanted {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: HTTP/{version}, {}: {said}", asked.path, output.status).into());
        }
        read(&head, &content)
    }

    fn found(&mut self, asked: &Asked<'_>) -> Result<Answer> {
        let answer = self.ask(asked)?;
        if answer.status != 200 {
            return Err(format!("{} has status {}", asked.path, answer.status).into());
        }
        Ok(answer)
    }
}

/// The answer in curl's files. Interim responses come before it.
fn read(head: &Path, content: &Path) -> Result<Answer> {
    let head = fs::read_to_string(head)?.replace("\r\n", "\n");
    let last = head.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let status = last.split(' ').nth(1).and_then(|status| status.trim().parse().ok());
    let field = |wanted: &str| {
        let fields = last.lines().filter_map(|line| line.split_once(':'));
        let found = fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    Ok(Answer {
        status: status.ok_or_else(|| format!("no status in {last:?}"))?,
        content_type: field("content-type"),
        coding: field("content-encoding"),
        content: fs::read(content)?,
    })
}

fn text(client: &mut Client<'_>, asked: &Asked<'_>, wanted: &str) -> Result<()> {
    let answer = client.found(asked)?;
    let got = String::from_utf8_lossy(&answer.content);
    if got.trim_end() != wanted || !answer.content_type.starts_with("text/plain") {
        return Err(format!("{} is {got:?} ({}), not {wanted:?}", asked.path, answer.content_type).into());
    }
    Ok(())
}

/// Sums that are asked for, and others, so that none of them is fixed.
fn sums(client: &mut Client<'_>) -> Result<()> {
    if client.protocol.is_http2() || client.protocol == Protocol::Http3 {
        text(client, &Asked { path: "/baseline2?a=1&b=1", ..Asked::default() }, "2")?;
        return text(client, &Asked { path: "/baseline2?a=409&b=-7", ..Asked::default() }, "402");
    }
    let path = "/baseline11?a=13&b=42";
    text(client, &Asked { path, ..Asked::default() }, "55")?;
    text(client, &Asked { path: "/baseline11?a=-3&b=1200", ..Asked::default() }, "1197")?;
    for chunked in [false, true] {
        for (content, wanted) in [("20", "75"), ("945", "1000")] {
            let asked = Asked { path, content: Some(content), chunked, ..Asked::default() };
            text(client, &asked, wanted)?;
        }
    }
    Ok(())
}

fn lists(client: &mut Client<'_>) -> Result<()> {
    for (count, factor) in PAIRS.into_iter().chain([(33, 11)]) {
        let path = format!("/json/{count}?m={factor}");
        let answer = client.found(&Asked { path: &path, ..Asked::default() })?;
        let got: Value =
            serde_json::from_slice(&answer.content).map_err(|error| format!("{path}: {error}"))?;
        if got != data::answer(count, factor)? {
            return Err(format!(
                "{path} has other items: {}",
                got.to_string().chars().take(200).collect::<String>()
            )
            .into());
        }
        if !answer.content_type.starts_with("application/json") {
            return Err(format!("{path} is {}", answer.content_type).into());
        }
    }
    Ok(())
}

/// All files as the generators ask for them, and plain.
fn files(client: &mut Client<'_>, (data, accepted): (&Data, &str)) -> Result<()> {
    for (name, _) in data::FILES {
        for codings in [Some(accepted), None] {
            let path = format!("/static/{name}");
            let answer = client.found(&Asked { path: &path, codings, ..Asked::default() })?;
            let suffix = match answer.coding.as_str() {
                "" | "identity" => "",
                "br" if codings.is_some() => ".br",
                "gzip" if codings.is_some() => ".gz",
                other => return Err(format!("{path} comes in {other:?}").into()),
            };
            if answer.content != fs::read(data.root.join(format!("static/{name}{suffix}")))? {
                return Err(format!("{path} has {} other bytes ({suffix:?})", answer.content.len()).into());
            }
            // Of different lengths there would be no comparison.
            if codings.is_some() && data::is_text(name) && suffix != ".br" {
                return Err(format!("{path} does not come in Brotli").into());
            }
            let wanted = match name.rsplit('.').next() {
                Some("css") => "text/css",
                Some("js") => "javascript",
                Some("json") => "application/json",
                _ => "",
            };
            if !answer.content_type.contains(wanted) {
                return Err(format!("{path} is {}", answer.content_type).into());
            }
        }
    }
    match client.ask(&Asked { path: "/static/none.css", ..Asked::default() })?.status {
        404 => Ok(()),
        status => Err(format!("a file that is not there has status {status}").into()),
    }
}
