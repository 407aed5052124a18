//! What the access log has to say in the end.

use std::collections::BTreeMap;

use maitred_testing::model::{Connection, Fate, Id};

/// How often a request may be in the log, and with which status.
#[derive(Debug)]
struct Entry {
    lines: (usize, usize),
    /// Any other is wrong; `None` if it cannot be known.
    status: Option<u16>,
}

/// One entry for each request.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<Id, Entry>,
    /// A worker process was killed, and what it had not yet written is not in the log.
    pub(crate) has_gaps: bool,
}

impl Ledger {
    /// Takes in a connection that has ended.
    pub(crate) fn add(&mut self, connection: &Connection) {
        for request in &connection.requests {
            // What was not given to a process need not have been read.
            let least = usize::from(request.deliveries > 0);
            let known =
                matches!(request.fate, Fate::Whole | Fate::Detached) && !connection.left && !connection.cut;
            let status = known.then_some(request.answer.status);
            self.entries.insert(request.asked.id, Entry { lines: (least, 1), status });
        }
    }

    /// How many requests there were.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Compares with the log's lines in JSON.
    pub(crate) fn check(&self, lines: &[serde_json::Value]) -> Result<(), String> {
        let mut found: BTreeMap<Id, Vec<u64>> = BTreeMap::new();
        for line in lines {
            let id = line["target"].as_str().and_then(|target| target.rsplit('/').next()?.parse().ok());
            if let (Some(id), Some(status)) = (id, line["status"].as_u64()) {
                found.entry(id).or_default().push(status);
            }
        }
        for (id, entry) in &self.entries {
            let statuses = found.remove(id).unwrap_or_default();
            let (least, most) = entry.lines;
            let least = if self.has_gaps { 0 } else { least };
            let right = |status: &u64| entry.status.is_none_or(|wanted| u64::from(wanted) == *status);
            if statuses.len() < least || statuses.len() > most || !statuses.iter().all(right) {
                return Err(format!("request {id} is in the access log as {statuses:?}, not as {entry:?}"));
            }
        }
        match found.is_empty() {
            true => Ok(()),
            false => Err(format!("the access log tells of requests that were not sent: {found:?}")),
        }
    }
}
