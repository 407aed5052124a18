//! Certificates for names that are not in the configuration, when a client asks for one: which names, how many, and the question
//! to the operator's own service.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// How long the service may take to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Questions under way at a time.
pub const ASKS_MAX: usize = 16;
/// Questions a minute: any client can have one asked.
pub const ASKS_PER_MINUTE: u32 = 600;

/// How often something may happen: a bucket that fills with time.
#[derive(Debug)]
pub struct Bucket {
    per_minute: u32,
    left: f64,
    filled: Instant,
}

impl Bucket {
    /// A full one: a minute's worth at once.
    pub fn new(per_minute: u32, now: Instant) -> Bucket {
        Bucket { per_minute, left: per_minute.into(), filled: now }
    }

    /// Whether it may happen now.
    pub fn take(&mut self, now: Instant) -> bool {
        let most = f64::from(self.per_minute);
        let since = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + since * most / 60.0).min(most);
        self.filled = now;
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }
}

/// Whether a name is one of those that certificates are made for on demand: `a.example`, `*.a.example` for all below it, `*`.
pub fn covers(hosts: &[String], name: &str) -> bool {
    let label = |label: &str| {
        let plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    // Authorities certify names of two labels or more, and no addresses.
    let plain = name.len() <= 253 && name.contains('.') && name.split('.').all(label);
    let address = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    let within = |host: &String| match host.strip_prefix('*') {
        Some(suffix) => name.len() > suffix.len() && name.ends_with(suffix),
        None => host == name,
    };
    plain && !address && hosts.iter().any(within)
}

/// Asks the service whether a name may have a certificate: `GET URL?domain=NAME`; a status of 2xx is yes, any other one no.
///
/// # Errors
/// A text, when there is no answer.
pub async fn ask(url: &str, name: &str) -> Result<bool, String> {
    let sign = if url.contains('?') { '&' } else { '?' };
    let uri = format!("{url}{sign}domain={name}").parse().map_err(|_| format!("{url} is no URL"))?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    match tokio::time::timeout(ASK_TIMEOUT, client.get(uri)).await {
        Ok(Ok(response)) => Ok(response.status().is_success()),
        Ok(Err(error)) => Err(format!("{url}: {}", crate::agents::errors::with_causes(&error))),
        Err(_) => Err(format!("{url}: no answer within {} s", ASK_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_at_first_and_fills_with_time() {
        let now = Instant::now();
        let mut bucket = Bucket::new(3, now);
        let taken = |bucket: &mut Bucket, now| (0..9).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, now), 3);
        assert_eq!(taken(&mut bucket, now + Duration::from_secs(21)), 1);
        assert_eq!(taken(&mut bucket, now + Duration::from_secs(3600)), 3);
    }

    #[test]
    fn only_names_of_the_configured_hosts_are_made_on_demand() {
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let some = hosts(&["*.a.example", "b.example"]);
        for (name, covered) in [
            ("x.a.example", true),
            ("y.x.a.example", true),
            ("b.example", true),
            ("a.example", false),
            ("xa.example", false),
            ("x.b.example", false),
        ] {
            assert_eq!(covers(&some, name), covered, "{name}");
        }
        let any = hosts(&["*"]);
        assert!(covers(&any, "x.example"));
        for name in [
            "",
            "localhost",
            "127.0.0.1",
            "a/../b.example",
            "a b.example",
            "a..example",
            "A.example",
            "a.example.",
        ] {
            assert!(!covers(&any, name), "{name}");
        }
    }
}
