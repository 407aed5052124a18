//! Responses that name a file: what names it is left, and the request is answered with the file. The [`ResponseWriter`] writes
//! nothing of such a head and keeps it; the decision becomes [`Choice::NamedFile`], with which the request is resumed as after
//! any wait.
//!
//! [`ResponseWriter`]: maitred_files::exchange::ResponseWriter

use maitred_http::uri::{self, Slashes};

use super::Exchanges;
use crate::agenda::Next;
use crate::connection::incoming::Incoming;
use crate::connection::retry::RetryState;
use crate::keys::ConnKey;
use crate::upstream::{Attempt, Source};
use maitred_files::exchange::named_file::{Name, NamedFile};
use maitred_files::exchange::{Decision, Routed};
use maitred_policy::plan::Plan;
use maitred_policy::route::Choice;

impl Exchanges {
    /// The response of the upstream names a file: the upstream is let go, and the request goes on with the file.
    pub(crate) fn answer_with_named_file(&mut self, index: ConnKey) {
        self.note_response(index);
        let Some(mut attempt) = self.take_attempt(index) else { return };
        let named = attempt.named.take();
        self.let_go_of_namer(index, *attempt);
        let plan = self.exchange(index).routed.map(|routed| routed.plan);
        let (Some(named), Some(plan)) = (named, plan) else { return self.refuse_kept(index, 502, &[]) };
        let Some((set, path)) = find(&named.name, plan) else {
            self.note_unknown(&named);
            return self.refuse_kept(index, 502, &[]);
        };
        let secure = self.connections[index].secure;
        let exchange = self.exchange(index);
        exchange.routed = Some(Routed { decision: Decision::Route(Choice::NamedFile(set)), plan });
        exchange.path = Some(path.into());
        exchange.dispatch.file_edits = Some(Box::new(named.edits(plan.late_edits(secure))));
        exchange.dispatch.retry = RetryState::Never;
        (exchange.body.incoming, exchange.body.spool) = (Incoming::Nothing, None);
        exchange.body.content.clear();
        exchange.outgoing.drop_returned();
        self.follow_up(index, Next::Resume);
    }

    /// The rest of its response is not read. A connection to a server is kept if there is none.
    fn let_go_of_namer(&mut self, index: ConnKey, mut attempt: Attempt) {
        let keep = attempt.keep;
        let whole = attempt.is_answered() && attempt.is_done();
        match attempt.source() {
            Source::Server(key) if attempt.speaks_http2() => {
                self.leave_stream(index, key, &mut attempt);
                self.upstreams.recycle(attempt);
            }
            Source::Fill => {}
            Source::Relay(relay) if whole => self.release_relay(relay, &attempt),
            Source::Relay(relay) => self.leave_relay(relay, &attempt),
            Source::Server(key) | Source::Thread(key) if whole => {
                self.release_server(key, &attempt);
                self.upstreams.recycle(attempt);
            }
            Source::Server(key) | Source::Thread(key) => {
                self.note_last_words(index, attempt);
                self.leave_server(key);
            }
        }
        self.exchange(index).last = !keep;
    }

    #[cold]
    fn note_unknown(&mut self, named: &NamedFile) {
        let (field, value) = match &named.name {
            Name::Uri(value) => ("X-Accel-Redirect", value),
            Name::Path(value) => ("X-Sendfile", value),
        };
        let value = String::from_utf8_lossy(value).into_owned();
        self.log_limited(|| {
            tracing::warn!(
                value,
                "502: an application names a file in {field} that is below none of the directories in its pool's `named_files`"
            );
        });
    }
}

/// The set that has the file, and the path of the file there.
fn find(name: &Name, plan: &Plan) -> Option<(usize, Vec<u8>)> {
    let longest = |fits: &dyn Fn(&maitred_policy::plan::NamedFiles) -> Option<usize>| {
        plan.named_files
            .iter()
            .filter_map(|files| Some((fits(files)?, files)))
            .max_by_key(|(length, _)| *length)
    };
    match name {
        Name::Uri(value) => {
            let text = std::str::from_utf8(value).ok()?;
            let path = text.split_once('?').map_or(text, |(path, _)| path);
            let path = uri::judge(path, Slashes::Decode, true).ok()?.into_owned();
            let fits = |files: &maitred_policy::plan::NamedFiles| {
                path.starts_with(files.prefix.as_bytes()).then_some(files.prefix.len())
            };
            let (_, files) = longest(&fits)?;
            Some((files.set, path))
        }
        Name::Path(value) => {
            let below = |files: &maitred_policy::plan::NamedFiles| {
                let root = files.root.as_os_str().as_encoded_bytes();
                let rest = value.strip_prefix(root)?.strip_prefix(b"/")?;
                let leaves = |part: &[u8]| part == b".." || part.contains(&0);
                (!rest.split(|byte| *byte == b'/').any(leaves)).then_some(root.len())
            };
            let (length, files) = longest(&below)?;
            let rest = value.get(length + 1..)?;
            Some((files.set, [files.prefix.as_bytes(), rest].concat()))
        }
    }
}
