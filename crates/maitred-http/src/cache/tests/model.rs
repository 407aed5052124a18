//! The smallest cache that the rules make: a list of responses, a clock that is set by hand, and a server that says what a script
//! has for it. The model's steps are those that the head of the module tells.

use super::super::*;
use crate::fields::{FieldLines, FieldsRef};
use crate::request::{FieldRoom, HeadLimits, Method, Request, parse};
use crate::response::ResponseHead;

/// 2026-11-20T08:00:00Z
pub(super) const START: u64 = 1_795_161_600;

/// Bytes of the content of each response.
pub(super) const SIZE: u64 = 11;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 8192, header_count_max: 100, target_bytes_max: 4096, body_bytes_max: 4096 };

/// The text of a head of a request: its first line, and fields with `|` between them.
pub(super) fn head_text(line: &str, fields: &str) -> String {
    let content = ["POST", "PUT", "DELETE", "M-SEARCH"].iter().any(|method| line.starts_with(method));
    let mut text = format!("{line} HTTP/1.1\r\nHost: a.example\r\n");
    text += if content { "Content-Length: 3\r\n" } else { "" };
    fields.split('|').map(str::trim).filter(|field| !field.is_empty()).for_each(|field| {
        text += field;
        text += "\r\n";
    });
    text + "\r\n"
}

/// Reads such a text.
pub(super) fn read<'h, 'b>(text: &'b str, room: &'h mut FieldRoom<'b>) -> Request<'h, 'b> {
    parse(text.as_bytes(), room, &LIMITS).unwrap().unwrap().0
}

/// Fields with `|` between them. `@-5` is the date 5 seconds before `now`.
pub(super) fn fields(text: &str, now: u64) -> FieldLines {
    let mut lines = FieldLines::default();
    for field in text.split('|').map(str::trim).filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once(':').unwrap();
        match value.trim().strip_prefix('@') {
            Some(offset) => {
                let at = now.saturating_add_signed(offset.parse().unwrap());
                lines.push(name.as_bytes(), &crate::date::format(at));
            }
            None => lines.push(name.as_bytes(), value.trim().as_bytes()),
        }
    }
    lines
}

struct Stored {
    key: Vec<u8>,
    names: String,
    variant: Vec<u8>,
    status: u16,
    fields: FieldLines,
    lifetime: Lifetime,
}

/// What a client has got.
#[derive(Debug)]
pub(super) struct Got {
    /// 200, 206, 304 … ; 502 if there was no answer.
    pub(super) status: u16,
    /// Whether the request was answered without the server.
    pub(super) cached: bool,
    /// The conditions that the server was asked with.
    pub(super) conditions: Option<FieldLines>,
    pub(super) fields: FieldLines,
}

/// The cache.
pub(super) struct Model {
    pub(super) rules: Rules,
    pub(super) now: u64,
    stored: Vec<Stored>,
}

type Upstream<'u> = &'u mut dyn FnMut(Option<FieldsRef<'_>>) -> Option<(u16, FieldLines)>;

impl Model {
    pub(super) fn new(rules: Rules) -> Model {
        Model { rules, now: START, stored: Vec::new() }
    }

    fn times(&self) -> Times {
        Times::new(self.now, self.now)
    }

    fn key(&self, target: &Target<'_>, request: &Request<'_, '_>) -> Vec<u8> {
        let mut key = Vec::new();
        put_key(target, request, (&KeyRules::default(), &self.rules), &mut key);
        key
    }

    fn variant(&self, names: &str, request: &Request<'_, '_>) -> Vec<u8> {
        let mut variant = Vec::new();
        put_variant_key(names, request, &self.rules, &mut variant);
        variant
    }

    fn store(
        &mut self,
        key: &[u8],
        request: &Request<'_, '_>,
        status: u16,
        kept: FieldLines,
        lifetime: Lifetime,
    ) {
        let names = match vary(&ResponseHead::own(status, kept.all())) {
            Vary::Fields(names) => names.to_string(),
            _ => String::new(),
        };
        let variant = self.variant(&names, request);
        self.stored.retain(|other| other.key != key || other.names != names || other.variant != variant);
        self.stored.push(Stored { key: key.to_vec(), names, variant, status, fields: kept, lifetime });
    }

    fn forward(
        &mut self,
        key: &[u8],
        request: &Request<'_, '_>,
        wanted: &Wanted,
        upstream: Upstream<'_>,
    ) -> Got {
        let Some((status, fields)) = upstream(None) else { return nothing(502) };
        let head = ResponseHead::own(status, fields.all());
        if let Ok(lifetime) = storable(wanted, &head, self.times(), &self.rules) {
            let mut kept = FieldLines::default();
            put_stored_fields(&head, &lifetime, &self.rules, &mut kept);
            self.store(key, request, status, kept, lifetime);
        }
        Got { status, cached: false, conditions: None, fields }
    }

    pub(super) fn exchange(&mut self, request: &Request<'_, '_>, upstream: Upstream<'_>) -> Got {
        let wanted = Wanted::of(request, &self.rules);
        let target =
            Target { scheme: "http", authority: request.authority, path: request.path, query: request.query };
        let key = self.key(&target, request);
        if wanted.consult() != Consult::Use {
            return self.pass(&target, request, &wanted, upstream);
        }
        let place = (0..self.stored.len()).rev().find(|at| {
            let stored = &self.stored[*at];
            stored.key == key && self.variant(&stored.names, request) == stored.variant
        });
        let Some(place) = place else {
            return if wanted.only_if_cached() {
                nothing(504)
            } else {
                self.forward(&key, request, &wanted, upstream)
            };
        };
        match judge(&self.stored[place].lifetime, &wanted, self.now) {
            Use::Fresh { .. } | Use::Stale { .. } => self.give(place, request, None),
            Use::OnlyIfCached504 => nothing(504),
            Use::Validate if wanted.method == Method::Head => self.head(place, &wanted, upstream),
            Use::Validate => self.validate((place, &key), request, &wanted, upstream),
        }
    }

    fn pass(
        &mut self,
        target: &Target<'_>,
        request: &Request<'_, '_>,
        wanted: &Wanted,
        upstream: Upstream<'_>,
    ) -> Got {
        let Some((status, fields)) = upstream(None) else { return nothing(502) };
        let head = ResponseHead::own(status, fields.all());
        if invalidates(request.method, status) {
            let mut keys = Vec::new();
            for_each_invalidated(target, &head, |target| keys.push(self.key(target, request)));
            self.stored.retain(|stored| !keys.contains(&stored.key));
        }
        if let Some(get) = wanted.as_get().filter(|_| names_itself(target, &head))
            && let Ok(lifetime) = storable(&get, &head, self.times(), &self.rules)
        {
            let mut kept = FieldLines::default();
            put_stored_fields(&head, &lifetime, &self.rules, &mut kept);
            self.store(&self.key(target, request), request, status, kept, lifetime);
        }
        Got { status, cached: false, conditions: None, fields }
    }

    fn head(&mut self, place: usize, wanted: &Wanted, upstream: Upstream<'_>) -> Got {
        let Some((status, fields)) = upstream(None) else { return nothing(502) };
        let head = ResponseHead::own(status, fields.all());
        let stored = &self.stored[place];
        match head_updates(stored.fields.all(), &head) {
            HeadUpdate::Update => self.freshen(place, &head, wanted),
            HeadUpdate::Outdated => self.stored[place].lifetime = stored.lifetime.outdated(),
            HeadUpdate::Nothing => {}
        }
        Got { status, cached: false, conditions: None, fields }
    }

    fn freshen(&mut self, place: usize, head: &ResponseHead<'_>, wanted: &Wanted) {
        let (times, mut merged) = (self.times(), FieldLines::default());
        let stored = &mut self.stored[place];
        let about = (stored.status, stored.fields.all());
        match freshen(about, head, wanted, times, &self.rules, &mut merged) {
            Ok(lifetime) => (stored.lifetime, stored.fields) = (lifetime, merged),
            Err(_) => (stored.key, stored.fields) = (Vec::new(), merged),
        }
    }

    fn validate(
        &mut self,
        (place, key): (usize, &[u8]),
        request: &Request<'_, '_>,
        wanted: &Wanted,
        upstream: Upstream<'_>,
    ) -> Got {
        let mut conditions = FieldLines::default();
        put_conditions(self.stored[place].fields.all(), &mut conditions);
        let serves = may_serve_on_error(&self.stored[place].lifetime, wanted, self.now);
        let answered = upstream((!conditions.is_empty()).then(|| conditions.all()));
        let (status, fields) = match answered {
            None if serves => return self.give(place, request, Some(conditions)),
            None => return nothing(502),
            Some((status, _)) if is_error(status) && serves => {
                return self.give(place, request, Some(conditions));
            }
            Some(response) => response,
        };
        let head = ResponseHead::own(status, fields.all());
        if updates(self.stored[place].fields.all(), &head, Asked::One) {
            self.freshen(place, &head, wanted);
            return Got { cached: false, ..self.give(place, request, Some(conditions)) };
        }
        let got = self.forward(key, request, wanted, &mut |_| Some((status, fields.clone())));
        Got { conditions: Some(conditions), ..got }
    }

    fn give(&self, place: usize, request: &Request<'_, '_>, conditions: Option<FieldLines>) -> Got {
        let stored = &self.stored[place];
        let about = (stored.status, stored.fields.all(), SIZE);
        let mut fields = FieldLines::default();
        let status = match answer(about, stored.lifetime.date, (request.method, &request.known), 8) {
            Answer::NotModified => 304,
            Answer::Partial(_) => 206,
            Answer::Unsatisfiable => 416,
            Answer::Whole => stored.status,
        };
        match status {
            304 => put_not_modified_fields(stored.fields.all(), &mut fields),
            _ => fields.extend(stored.fields.all()),
        }
        fields.push_number(b"Age", u64::from(stored.lifetime.age(self.now)));
        Got { status, cached: true, conditions, fields }
    }
}

fn nothing(status: u16) -> Got {
    Got { status, cached: status == 504, conditions: None, fields: FieldLines::default() }
}
