//! Codings of responses that are kept, where their route has `compress`. Each is made once, and kept as an entry beside the plain
//! one, by a key of its own that names the body it was made of: so it goes with that, and a response that takes its place has
//! others.
//!
//! | the plain response | its coding is made | until then |
//! |---|---|---|
//! | is in memory | at the first hit, as fast as for a response that comes; in Brotli by a helper thread, one at a time | – |
//! | is in a file | by a helper thread, one at a time | the plain one is given |

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;

use super::Requests;
use crate::keys::ConnKey;
use crate::step::RequestInput;
use maitred_cache::{Body, Entry, Fetch, Found, Head, Kind, Store};
use maitred_config::Coding;
use maitred_files::kept::Coded;
use maitred_files::{DiskJob, EncodingPlace};
use maitred_policy::compress::whole::{encode, encode_at};
use maitred_policy::compress::{Facts, Rules, Verdict, Wish, rules};

/// For so long a body is not coded again after that has saved nothing, in seconds.
const PLAIN_SECS: u64 = 24 * 60 * 60;

/// What a client gets of a response.
pub(super) enum Chosen {
    /// The response, coded where that is worth it.
    Given(Option<Coded>),
    /// A helper thread has to fetch it first.
    OnDisk(DiskJob),
}

impl Requests {
    /// The coding of a response that is kept, by what a request accepts.
    pub(super) fn coding_of_kept(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        (entry, own): (&Arc<Entry>, Option<&FieldLines>),
    ) -> Chosen {
        let (Some(rules), Some(store)) = (&given.routed.plan.compress, &self.shared.cache) else {
            return Chosen::Given(None);
        };
        let accepted = request.known.accept_encoding.map(|list| list.joined());
        let accepted = accepted.as_deref();
        let secret = self.connections[index].secure || self.origin(index, request).https;
        let wish = Wish { rules, coding: rules::best(rules.kept(), accepted), secret };
        let length = entry.body.len().to_string();
        let mut facts = Facts::new(entry.head.status);
        facts.note(b"content-length", length.as_bytes());
        let own = own.map(FieldLines::all).unwrap_or_default();
        let fields = entry.head.fields.all().iter().chain(own.iter());
        fields.for_each(|(name, value)| facts.note(name, value));
        let plain = |verdict| Coded { verdict, varies: facts.varies, entry: None };
        let wanted = match wish.judge(&facts) {
            Verdict::Coded(wanted) if request.known.range.is_none() => wanted,
            // Ranges are those of the plain content.
            Verdict::Coded(_) => return Chosen::Given(Some(plain(Verdict::Plain))),
            verdict => return Chosen::Given(Some(plain(verdict))),
        };
        let coded = |coding, entry| {
            let entry = Some(entry);
            Chosen::Given(Some(Coded { verdict: Verdict::Coded(coding), varies: facts.varies, entry }))
        };
        let streamed = rules.negotiate(accepted).filter(|coding| *coding != wanted);
        for coding in [Some(wanted), streamed].into_iter().flatten() {
            match store.find(&store.key(&key_of(entry, coding)), self.clock.steady_secs()) {
                Found::Entry(found) => return coded(coding, found),
                Found::OnDisk(job) if !given.warmed => return Chosen::OnDisk(self.shared.cache_job(job)),
                Found::OnDisk(_) | Found::Pass => {}
                Found::Nothing => {
                    if let Some(made) = self.code(store, rules, entry, coding) {
                        return coded(coding, made);
                    }
                }
            }
        }
        Chosen::Given(Some(plain(Verdict::Plain)))
    }

    /// Makes a coding, or has one made for later requests.
    fn code(&self, store: &Store, rules: &Rules, entry: &Arc<Entry>, coding: Coding) -> Option<Arc<Entry>> {
        let fetch = store.fetch(&store.key(&key_of(entry, coding)));
        match &entry.body {
            Body::Memory(content) if coding != Coding::Brotli => {
                let made = encode_at(coding, rules.level(coding), content);
                self.keep_coded(store, &fetch, entry, made)
            }
            Body::File { len, .. } if *len > self.shared.start.config.limits.compress_file_bytes_max => None,
            Body::Memory(_) | Body::File { .. } => {
                let place = self.shared.disk.encoding_place()?;
                self.have_coded(place, fetch, Arc::clone(entry), coding);
                None
            }
        }
    }

    fn have_coded(&self, place: EncodingPlace, fetch: Fetch, entry: Arc<Entry>, coding: Coding) {
        let (shared, now) = (self.shared, self.clock.steady_secs());
        let job = DiskJob::task(move || {
            let Some(store) = &shared.cache else { return };
            let made = contents(&entry.body).and_then(|content| encode(coding, &content));
            if let (_, Some(job)) = keep(store, &fetch, &entry, made, now) {
                shared.run_cache_job(job);
            }
            drop(place);
        });
        // Without room for it the plain response is given, as before.
        let _ = shared.disk.submit(job, Box::new(|_| ()));
    }

    fn keep_coded(
        &self,
        store: &Store,
        fetch: &Fetch,
        entry: &Entry,
        made: Option<Vec<u8>>,
    ) -> Option<Arc<Entry>> {
        let (kept, job) = keep(store, fetch, entry, made, self.clock.steady_secs());
        job.into_iter().for_each(|job| _ = self.shared.run_cache_job(job));
        kept
    }
}

/// Stores a coding, or that there is none worth it.
fn keep(
    store: &Store,
    fetch: &Fetch,
    entry: &Entry,
    made: Option<Vec<u8>>,
    now: u64,
) -> (Option<Arc<Entry>>, Option<maitred_cache::Job>) {
    let Some(made) = made else {
        store.pass(fetch.key(), now + PLAIN_SECS);
        return (None, None);
    };
    let head = Head {
        kind: Kind::Response,
        status: entry.head.status,
        keep_until: entry.head.keep_until,
        tags: entry.head.tags.clone(),
        ..Head::default()
    };
    let (kept, job) = store.put(fetch, head, made.into());
    (Some(kept), job)
}

/// The key of a coding: it begins as that of the plain response, so that it is purged with that.
fn key_of(entry: &Entry, coding: Coding) -> Vec<u8> {
    let of = format!("\ncoding {} of {:016x}", coding.token(), entry.body_number());
    [entry.key(), of.as_bytes()].concat()
}

/// All of a body, on a helper thread.
fn contents(body: &Body) -> Option<Vec<u8>> {
    match body {
        Body::Memory(content) => Some(content.to_vec()),
        Body::File { file, offset, len } => read(file, *offset, *len),
    }
}

fn read(file: &File, offset: u64, len: u64) -> Option<Vec<u8>> {
    let mut content = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut content, offset).ok()?;
    Some(content)
}
