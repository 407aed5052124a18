//! Heads of responses on their way through modules.

use std::fmt;

use maitred_http::fields::{FRAMING_FIELDS, FieldEdits, FieldLines, is_token, is_value};
use maitred_http::request::{HeadRoom, RequestHead};
use maitred_http::response::ResponseHead;
use maitred_sys::module::host::{Edit, HeadCalls};

use super::{Coarse, HELD_MAX, Seen};
use crate::origin::Client;
use crate::shared::Shared;
use maitred_files::exchange::AlterHead;
use maitred_http::uri::Slashes;
use maitred_policy::target::Target;

/// The modules that see the head of one response, and the request that it is for.
pub(crate) struct HeadFilter {
    pub(crate) shared: &'static Shared,
    /// Which.
    pub(crate) modules: &'static [u16],
    pub(crate) request: RequestHead,
    pub(crate) path: Box<[u8]>,
    /// What an encoded slash in its path is.
    pub(crate) slashes: Slashes,
    pub(crate) client: Client,
}

impl fmt::Debug for HeadFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HeadFilter").field("modules", &self.modules).finish_non_exhaustive()
    }
}

impl AlterHead for HeadFilter {
    fn alter(&self, head: &ResponseHead<'_>, edits: &mut FieldEdits) {
        let mut room = HeadRoom::default();
        let Some(request) = self.request.view(&mut room) else { return };
        for number in self.modules {
            let Some(module) = self.shared.modules.get(*number) else { continue };
            let mut shown = FieldLines::default();
            let mut own = FieldLines::default();
            head.for_each(|name, value| own.push(name, value));
            edits.apply(own.all(), &mut shown);
            let mut fields = Shown { status: head.status, shown, edits };
            let client = || self.client;
            let target = Target::routed(&request, self.slashes).canonical();
            let (request, path) = (&request, &*self.path);
            let mut seen = Seen { request, path, body: b"", target: &target, client: &client, says: None };
            let began = Coarse::now();
            module.on_response(&mut seen, &mut fields);
            let held = began.elapsed();
            if held > HELD_MAX {
                let (module, ms) = (self.shared.modules.name(*number), held.as_millis());
                tracing::warn!(module, ms, "a module holds an event loop in `on_response`");
            }
        }
    }
}

/// The head of a response as a module sees it, and what it changes.
struct Shown<'a> {
    status: u16,
    /// The fields as they are before.
    shown: FieldLines,
    edits: &'a mut FieldEdits,
}

impl HeadCalls for Shown<'_> {
    fn status(&self) -> u16 {
        self.status
    }

    fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.shown.all().get(name)
    }

    fn field_count(&self) -> usize {
        self.shown.len()
    }

    fn field_at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.shown.all().part(index..index.checked_add(1)?).iter().next()
    }

    fn edit(&mut self, how: Edit, name: &[u8], value: &[u8]) -> bool {
        let framing = |own: &&str| own.as_bytes().eq_ignore_ascii_case(name);
        let Ok(text) = std::str::from_utf8(name) else { return false };
        if !is_token(name) || !is_value(value) || FRAMING_FIELDS.iter().any(framing) {
            return false;
        }
        match how {
            Edit::Set => self.edits.set(text, value),
            Edit::Add => self.edits.add(text, value),
            Edit::Remove => self.edits.remove(text),
        }
        true
    }
}
