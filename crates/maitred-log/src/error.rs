//! The error log: one line an event on standard error, `2026-11-20T11:20:00Z INFO  worker: message key=value`.
//!
//! Whatever stands in a message or a field, it cannot end the line, nor reach the terminal as a control sequence.

use std::fmt::{self, Write as _};
use std::io::IsTerminal as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::{console, recent};
use maitred_base::unix_time;

mod sink;

/// Targets of events were paths of modules in one crate, `maitred::worker`, and are names of crates now. Filters that name a
/// module in the former way go on to work.
const FORMER_TARGETS: &[(&str, &str)] = &[
    ("acme", "maitred_agents::acme"),
    ("agents", "maitred_agents::agents"),
    ("cache", "maitred_cache"),
    ("checks", "maitred_agents::checks"),
    ("config", "maitred_config"),
    ("control", "maitred_control"),
    ("handoff", "maitred_worker::handoff"),
    ("key_agent", "maitred_agents::key_agent"),
    ("log", "maitred_log"),
    ("master", "maitred_master"),
    ("names", "maitred_agents::names"),
    ("proxy", "maitred_worker::proxy"),
    ("quic", "maitred_tls::quic"),
    ("serve", "maitred_files"),
    ("status", "maitred_status"),
    ("tls", "maitred_tls"),
    ("trace", "maitred_log::trace"),
    ("worker", "maitred_worker"),
];

/// A filter whose directives name the targets of today.
fn current(filter: &str) -> String {
    let directive = |text: &str| {
        let rest = text.trim().strip_prefix("maitred::")?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (module, after) = rest.split_at(end);
        let (_, target) = FORMER_TARGETS.iter().find(|(former, _)| *former == module)?;
        Some(format!("{target}{after}"))
    };
    let directives: Vec<String> =
        filter.split(',').map(|text| directive(text).unwrap_or_else(|| text.to_owned())).collect();
    directives.join(",")
}

/// Sets the error log of this process up. `role` names the process in each line; `level` is `log.level` of the
/// configuration. Colours are used only on a terminal, and not when `NO_COLOR` is set.
///
/// # Errors
/// When `level` is no filter directive, or the log was set up before; the text says which.
pub fn init(role: &'static str, level: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(current(level)).map_err(|error| format!("log.level: {error}"))?;
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colour)
        .with_writer(|| sink::Stderr)
        .event_format(Compact { role, journal: None })
        .try_init()
        .map_err(|error| error.to_string())
}

/// Formats one event as one line.
struct Compact {
    role: &'static str,
    /// Whether the journal reads it; `None` is to be found out.
    journal: Option<bool>,
}

/// Whether standard error leads to systemd's journal: it then is what `JOURNAL_STREAM` names (systemd.exec(5)). Standard error
/// may be redirected while the server runs.
fn to_journal() -> bool {
    static NAMED: LazyLock<Option<(u64, u64)>> = LazyLock::new(|| {
        let named = std::env::var("JOURNAL_STREAM").ok()?;
        let (device, inode) = named.split_once(':')?;
        Some((device.parse().ok()?, inode.parse().ok()?))
    });
    let is_it = |stat: rustix::fs::Stat| Some((stat.st_dev, stat.st_ino)) == *NAMED;
    NAMED.is_some() && rustix::fs::fstat(rustix::stdio::stderr()).is_ok_and(is_it)
}

/// As syslog(3) has them; sd-daemon(3) says where they stand. The journal has the time by itself.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Writes an error that comes before there is a log, or instead of one. Each line has its priority in the journal.
pub fn say(text: &str) {
    let mark = if to_journal() { "<3>" } else { "" };
    let lines: String = text.lines().map(|line| format!("{mark}{line}\n")).collect();
    // There is no place to report that standard error cannot be written.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), lines.as_bytes());
}

impl<S, N> FormatEvent<S, N> for Compact
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = *event.metadata().level();
        let (paint, reset) = if out.has_ansi_escapes() { (colour(level), "\x1b[0m") } else { ("", "") };
        let mut text = Text::default();
        event.record(&mut text);
        let Text { message, fields } = text;
        let name = match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            _ => "info",
        };
        if level <= Level::WARN {
            recent::note(recent::Line {
                unix_secs: unix_time::secs(),
                level: name,
                text: format!("{message}{fields}"),
                times: 1,
            });
        }
        match console::message(&message) {
            Some(true) => return writeln!(out, "{paint}{name}{reset}: {message}{fields}"),
            Some(false) => return Ok(()),
            None => {}
        }
        if self.journal.unwrap_or_else(to_journal) {
            return writeln!(out, "<{}>{}: {message}{fields}", priority(level), self.role);
        }
        let time = super::iso(&maitred_http::date::format(unix_time::secs()));
        let time = String::from_utf8_lossy(&time);
        writeln!(out, "{time}Z {paint}{level:<5}{reset} {}: {message}{fields}", self.role)
    }
}

/// Writes a line of an application process, whatever the level: it is the application's log, not ours. What is no text, and
/// control characters, are shown as such.
pub fn application(name: &str, line: &[u8]) {
    let to_person = console::line(name, line);
    if to_person == Some(false) {
        return;
    }
    let mut text = String::with_capacity(line.len() + 64);
    // Writing to a String cannot fail, and there is no place to report that standard error cannot be written.
    let _ = if to_person.is_some() {
        Ok(())
    } else if to_journal() {
        write!(text, "<{}>{name}: ", priority(Level::INFO))
    } else {
        let time = super::iso(&maitred_http::date::format(unix_time::secs()));
        write!(text, "{}Z APP   {name}: ", String::from_utf8_lossy(&time))
    };
    let line = String::from_utf8_lossy(line);
    let _ = OneLine(&mut text).write_str(line.trim_end_matches('\r'));
    text.push('\n');
    sink::put(text.as_bytes());
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// The message, and ` key=value` for each other field.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Text that holds blanks or quotes is quoted, so that keys and values can be distinguished.
        if field.name() != "message" && (value.is_empty() || value.contains([' ', '"', '='])) {
            self.record_debug(field, &value);
        } else {
            self.record_debug(field, &format_args!("{value}"));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            write!(OneLine(&mut self.message), "{value:?}")
        } else {
            write!(OneLine(&mut self.fields), " {}={value:?}", field.name())
        };
    }
}

/// Lets no control character through.
struct OneLine<'a>(&'a mut String);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            if char.is_control() { write!(self.0, "\\x{:02x}", u32::from(char))? } else { self.0.push(char) }
        }
        Ok(())
    }
}

/// A bound on messages that peers can provoke: a token bucket, for one thread.
///
/// ```
/// use std::time::Instant;
/// use maitred_log::error::Limiter;
/// let mut limiter = Limiter::new(10);
/// let mut said = 0;
/// let now = Instant::now();
/// (0..20).for_each(|_| limiter.log(now, || said += 1));
/// assert_eq!(said, 10);
/// ```
#[derive(Debug)]
pub struct Limiter {
    per_second: u32,
    /// Tokens that are left; one is added each `1 s / per_second`.
    tokens: u32,
    filled: Option<Instant>,
    suppressed: u64,
}

/// What a [`Limiter`] says of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Log it.
    Say {
        /// Messages that were suppressed since the last one that was said.
        suppressed: u64,
    },
    /// Do not; it was counted.
    Suppress,
}

impl Limiter {
    /// Lets so many messages a second through, and as many at once. 0 is taken for 1.
    pub fn new(per_second: u32) -> Limiter {
        let per_second = per_second.max(1);
        Limiter { per_second, tokens: per_second, filled: None, suppressed: 0 }
    }

    /// Whether to log a message now.
    pub(crate) fn ask(&mut self, now: Instant) -> Verdict {
        self.fill(now);
        if self.tokens == 0 {
            self.suppressed += 1;
            return Verdict::Suppress;
        }
        self.tokens -= 1;
        Verdict::Say { suppressed: std::mem::take(&mut self.suppressed) }
    }

    /// Logs `say`, within the bound, after a line on what was suppressed, if anything was.
    pub fn log(&mut self, now: Instant, say: impl FnOnce()) {
        if let Verdict::Say { suppressed } = self.ask(now) {
            note(suppressed);
            say();
        }
    }

    /// Says what was suppressed once there is room for it again, although no further message came. For a timer.
    pub fn tick(&mut self, now: Instant) {
        if self.suppressed > 0 {
            self.fill(now);
            if self.tokens == self.per_second {
                note(std::mem::take(&mut self.suppressed));
            }
        }
    }

    fn fill(&mut self, now: Instant) {
        let per_token = Duration::from_secs(1) / self.per_second;
        let since = now.saturating_duration_since(*self.filled.get_or_insert(now));
        let more = (since.as_nanos() / per_token.as_nanos().max(1)).min(u128::from(self.per_second)) as u32;
        self.tokens = (self.tokens + more).min(self.per_second);
        if self.tokens == self.per_second {
            self.filled = Some(now);
        } else {
            // What is left of a token stays, so that a steady stream gets its whole rate.
            self.filled = self.filled.map(|filled| filled + per_token * more);
        }
    }
}

fn note(suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!("… suppressed {suppressed} messages like these");
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(events: impl FnOnce()) -> String {
        let shared = Shared::default();
        let writer = shared.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("info"))
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .event_format(Compact { role: "worker", journal: Some(false) })
            .finish();
        tracing::subscriber::with_default(subscriber, events);
        let bytes = shared.0.lock().expect("lock").clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn a_filter_may_name_modules_as_they_were() {
        let former = "info,maitred::acme=debug, maitred::worker::reactor=trace,maitred::master[span]=warn";
        assert_eq!(
            current(former),
            "info,maitred_agents::acme=debug,maitred_worker::reactor=trace,maitred_master[span]=warn"
        );
        for same in ["info", "maitred=debug", "maitred::other=debug", "maitred_tls=off,hyper=info"] {
            assert_eq!(current(same), same);
        }
    }

    #[test]
    fn one_line_an_event() {
        let text = logged(|| {
            tracing::info!(port = 80, name = "two words", plain = "word", "ready {}", 1);
            tracing::debug!("below the level");
        });
        assert!(
            !recent::last().iter().any(|line| line.text.starts_with("ready 1 port")),
            "only warnings and errors"
        );
        assert_eq!(&text[20..], " INFO  worker: ready 1 port=80 name=\"two words\" plain=word\n");
        assert!(text.starts_with("20") && text.as_bytes()[19] == b'Z', "{text}");
    }

    #[test]
    fn nothing_from_a_peer_ends_the_line() {
        let text = logged(|| tracing::warn!(target_text = "a\nERROR master: \x1b[31m", "bad\r\nhead \u{9b}"));
        assert_eq!(text.lines().count(), 1);
        let kept = recent::last().into_iter().find(|line| line.text.starts_with("bad\\x0d\\x0ahead"));
        let kept = kept.expect("warnings are kept for the status");
        assert!(kept.level == "warn" && !kept.text.contains(char::is_control), "{kept:?}");
        assert!(text[..text.len() - 1].chars().all(|char| !char.is_control()), "{text:?}");
    }

    #[test]
    fn a_limiter_lets_its_rate_through_and_counts_the_rest() {
        let start = Instant::now();
        let mut limiter = Limiter::new(4);
        let said = (0..10).filter(|_| limiter.ask(start) != Verdict::Suppress).count();
        assert_eq!(said, 4);
        // A quarter of a second later there is room for one, which tells of the six.
        let later = start + Duration::from_millis(250);
        assert_eq!(limiter.ask(later), Verdict::Say { suppressed: 6 });
        assert_eq!(limiter.ask(later), Verdict::Suppress);
        // A steady stream gets its rate.
        let steady = (1..=100)
            .filter(|step| limiter.ask(later + Duration::from_millis(100) * *step) != Verdict::Suppress);
        assert_eq!(steady.count(), 40);
    }

    #[test]
    fn a_limiter_owns_up_when_the_stream_has_ended() {
        let start = Instant::now();
        let mut limiter = Limiter::new(1);
        let text = logged(|| {
            limiter.log(start, || tracing::info!("one"));
            limiter.log(start, || tracing::info!("two"));
            limiter.log(start, || tracing::info!("three"));
            limiter.tick(start + Duration::from_millis(999));
            limiter.tick(start + Duration::from_secs(1));
            limiter.tick(start + Duration::from_secs(2));
        });
        let lines: Vec<_> = text.lines().map(|line| &line[21..]).collect();
        assert_eq!(lines, ["INFO  worker: one", "WARN  worker: … suppressed 2 messages like these"]);
    }
}
