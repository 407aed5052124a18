//! `hsts`: `Strict-Transport-Security` on responses over TLS (RFC 6797).

use maitred_http::response::final_head;

use crate::config::Config;

const NAME: &[u8] = b"strict-transport-security";

/// The field lines of all sites.
#[derive(Debug, Default)]
pub struct Hsts {
    lines: Vec<Box<[u8]>>,
}

impl Hsts {
    /// From what the sites say.
    pub fn new(config: &Config) -> Hsts {
        let line = |value: &String| format!("Strict-Transport-Security: {value}\r\n").into_bytes().into();
        Hsts {
            lines: config.sites.iter().map(|site| site.hsts.as_ref().map(line).unwrap_or_default()).collect(),
        }
    }

    /// The field line of a site, with its CRLF; empty if it has none. In cleartext it must not be sent (6797-7.2).
    pub fn line(&self, site: usize) -> &[u8] {
        self.lines.get(site).map(Box::as_ref).unwrap_or_default()
    }

    /// Puts the line of a site behind the status line of the response that begins at `start` (`HTTP/1.1 200 OK\r\n…`, its head
    /// complete), unless the site has none or the head has such a field of its own already: an application that knows better
    /// keeps its word. Interim responses before it (1xx) are left as they are.
    pub fn add(&self, site: usize, start: usize, out: &mut Vec<u8>) {
        let line = self.line(site);
        if line.is_empty() {
            return;
        }
        if let Some(head) = final_head(out, start)
            && !has_field(out.get(head.behind_status - 1..head.fields().end).unwrap_or_default())
        {
            drop(out.splice(head.behind_status..head.behind_status, line.iter().copied()));
        }
    }
}

/// Whether one of the lines has the field, in any case; each begins behind a line feed.
fn has_field(head: &[u8]) -> bool {
    let lines = memchr::memchr_iter(b'\n', head).filter_map(|at| head.get(at + 1..));
    let mut names = lines.filter_map(|line| line.get(..=NAME.len())?.split_last());
    names.any(|(last, name)| *last == b':' && name.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_comes_first_and_only_once() {
        let hsts =
            Hsts { lines: vec![Box::default(), (*b"Strict-Transport-Security: max-age=1\r\n").into()] };
        for (site, head, expected) in [
            (
                1,
                "HTTP/1.1 200 OK\r\nA: b\r\n\r\n",
                "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nA: b\r\n\r\n",
            ),
            (0, "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),
            (7, "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
            (
                1,
                "HTTP/1.1 200 OK\r\nSTRICT-transport-security: max-age=0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nSTRICT-transport-security: max-age=0\r\n\r\n",
            ),
            (
                1,
                "HTTP/1.1 200 OK\r\nX-Strict-Transport-Security: a\r\n\r\n",
                "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nX-Strict-Transport-Security: a\r\n\r\n",
            ),
        ] {
            let mut written = head.as_bytes().to_vec();
            hsts.add(site, 0, &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), expected);
            let before = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n";
            let mut written = format!("{before}{head}body\r\n\r\n").into_bytes();
            hsts.add(site, 27, &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), format!("{before}{expected}body\r\n\r\n"));
        }
    }
}
