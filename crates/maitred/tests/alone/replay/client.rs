//! One logged request, made again.

use std::io;

use crate::replay::access_log::Entry;
use crate::replay::site::{Body, Expected, marks};
use crate::support::{Client, Response};

/// A response whose body was read to its end.
pub(crate) struct Answer {
    pub(crate) response: Response,
    /// Whether the server leaves the connection open.
    pub(crate) keeps: bool,
    /// Whether the body began as it must.
    pub(crate) right_body: bool,
}

impl Answer {
    /// `Content-Length`, where there is one.
    pub(crate) fn length(&self) -> Option<u64> {
        self.response.field("content-length").and_then(|length| length.parse().ok())
    }
}

/// Makes a request as it was logged, and reads the response.
pub(crate) fn exchange(client: &mut Client, entry: &Entry, expected: &Expected) -> io::Result<Answer> {
    client.try_send(request(entry, expected))?;
    let response = client.try_response(&entry.method)?;
    let right_body = match &expected.body {
        Body::Marked(path) => response.body.starts_with(&marks(path, response.body.len() as u64)),
        Body::Absent => response.body.is_empty(),
        Body::Any => true,
    };
    let asked = entry.version == "HTTP/1.1" || response.field("connection") == Some("keep-alive");
    let keeps = asked && !response.says_close();
    Ok(Answer { response, keeps, right_body })
}

fn request(entry: &Entry, expected: &Expected) -> String {
    let mut text = format!("{} {} {}\r\n", entry.method, entry.target, entry.version);
    if entry.version == "HTTP/1.1" {
        text.push_str("Host: semicomplete.com\r\n");
    }
    for (name, value) in [("Referer", &entry.referer), ("User-Agent", &entry.agent)] {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if entry.method == "POST" {
        text.push_str("Content-Length: 7\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    }
    text.push_str(&expected.condition);
    text.push_str("\r\n");
    if entry.method == "POST" {
        text.push_str("a=1&b=2");
    }
    text
}
