//! Where responses are written: the one way to the client for what is made here and for what was received and checked. A
//! [`ResponseWriter`] has the encoder of the client's protocol carry out the edits of the plan while it writes.

use maitred_http::fields::{FieldEdits, FieldLines, FieldsRef};
use maitred_http::framed::{Session, StreamKey};
use maitred_http::grpc;
use maitred_http::h1::{self, Persistence};
use maitred_http::mapping::Mapping;
use maitred_http::response::{Encode, Ending, Fields, ResponseHead, Then};
use maitred_http::status;

use super::coding::Coding;
use super::named_file::{NamedFile, rate_of};
use maitred_policy::filter::expires::{Expiry, Facts};

/// What a response has to say besides its own.
#[derive(Debug, Clone, Copy)]
pub struct ReplyContext<'t> {
    /// The time of now, as `Date` has it.
    pub date: [u8; 29],
    /// What becomes of the client's connection.
    pub persistence: Persistence,
    /// HEAD: the content is left out, its length is stated nevertheless.
    pub head_only: bool,
    /// What the route changes in the fields.
    pub edits: &'t FieldEdits,
    /// What of that is not in the heads yet that were prepared for the route.
    pub late_edits: &'t FieldEdits,
    /// What it says about caches, where that is not in its head yet.
    pub expiry: Option<Expiry<'t>>,
    /// Whether the route has fields that are about the request, and that [`ResponseWriter::with`] gets.
    pub further: bool,
    /// Whether the head goes through modules, which [`ResponseWriter::altered_by`] gets.
    pub altered: bool,
    /// The response may name a file that takes its place.
    pub may_name_file: bool,
    /// The request is a call of gRPC in this form, whose client takes failures in no other way than as a status of gRPC.
    pub call: Option<grpc::Form>,
}

/// Takes one response, and writes it as the client's protocol has it.
pub struct ResponseWriter<'t> {
    out: &'t mut Vec<u8>,
    /// Of a response over HTTP/2 or HTTP/3: its head goes there at once; what is in `out` is its content.
    stream: Option<(&'t mut Session, StreamKey)>,
    /// Fields of a head that is being made.
    lines: &'t mut FieldLines,
    context: ReplyContext<'t>,
    /// Fields that this response has besides its own.
    further: FieldsRef<'t>,
    /// What the request and its route say about codings, and where an encoder comes from.
    coding: Option<Coding<'t>>,
    /// What becomes of references that a server has written.
    mapping: Option<Mapping<'t>>,
    /// Statuses of responses whose place another one takes.
    refusing: &'static [u16],
    /// The status of such a response, of which nothing is written.
    refused: Option<u16>,
    /// The head of the final response was written.
    begun: bool,
    /// The file that takes its place: nothing of the response itself is written then.
    named: Option<Box<NamedFile>>,
    /// Content that is left out with it.
    left_out: Vec<u8>,
    /// How fast the response may leave, by what it says itself.
    rate: Option<u64>,
    /// What is done with the head before it is written: for the cache.
    watch: Option<Watch<'t>>,
    /// What changes the head once more.
    altered_by: Option<&'t dyn AlterHead>,
}

/// Changes the head of a response behind the edits of its route.
pub trait AlterHead {
    /// Adds its edits to those that there are.
    fn alter(&self, head: &ResponseHead<'_>, edits: &mut FieldEdits);
}

/// Sees the head of a response before it is written.
pub struct Watch<'t>(pub &'t mut dyn FnMut(&ResponseHead<'_>));

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Watch")
    }
}

impl std::fmt::Debug for ResponseWriter<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ResponseWriter").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl<'t> ResponseWriter<'t> {
    /// A writer to a connection of HTTP/1, behind what `out` has already; or to a stream, whose content goes to `out`. `lines` is
    /// room for the fields of heads.
    #[inline]
    pub fn new(
        out: &'t mut Vec<u8>,
        stream: Option<(&'t mut Session, StreamKey)>,
        lines: &'t mut FieldLines,
        context: ReplyContext<'t>,
    ) -> ResponseWriter<'t> {
        ResponseWriter {
            out,
            stream,
            lines,
            context,
            further: FieldsRef::default(),
            coding: None,
            mapping: None,
            refusing: &[],
            refused: None,
            begun: false,
            named: None,
            left_out: Vec::new(),
            rate: None,
            watch: None,
            altered_by: None,
        }
    }

    /// The same, with something that changes its head.
    #[must_use]
    pub fn altered_by(self, altered_by: &'t dyn AlterHead) -> ResponseWriter<'t> {
        ResponseWriter { altered_by: Some(altered_by), ..self }
    }

    /// The same, for a response with further fields.
    #[must_use]
    pub fn with(self, further: FieldsRef<'t>) -> ResponseWriter<'t> {
        ResponseWriter { further, ..self }
    }

    /// The same, for a response that may get a coding.
    #[must_use]
    pub fn coding(self, coding: Option<Coding<'t>>) -> ResponseWriter<'t> {
        ResponseWriter { coding, ..self }
    }

    /// The same, for a response of a server whose references are mapped.
    #[must_use]
    pub fn mapping(self, mapping: Option<Mapping<'t>>) -> ResponseWriter<'t> {
        ResponseWriter { mapping, ..self }
    }

    /// The same, for a response that is not written if it has one of these statuses.
    #[must_use]
    pub fn refusing(self, refusing: &'static [u16]) -> ResponseWriter<'t> {
        ResponseWriter { refusing, ..self }
    }

    /// The same, with something that sees its head.
    #[must_use]
    pub fn watching(self, watch: Option<Watch<'t>>) -> ResponseWriter<'t> {
        ResponseWriter { watch, ..self }
    }

    /// The status of the response, if that is one of them.
    pub fn refused(&self) -> Option<u16> {
        self.refused
    }

    /// Whether the response has fields besides its own.
    pub(crate) fn has_further(&self) -> bool {
        !self.further.is_empty()
    }

    /// Whether the content is left out.
    #[inline]
    pub fn head_only(&self) -> bool {
        self.context.head_only
    }

    /// Whether the content of a response made here is left out: always with HEAD, and in the failure of a call.
    #[inline]
    pub(crate) fn leaves_out(&self, status: u16) -> bool {
        self.context.head_only || (self.context.call.is_some() && is_failure(status))
    }

    /// The file that the response names, once its head has come.
    pub fn take_named(&mut self) -> Option<Box<NamedFile>> {
        self.named.take()
    }

    /// How many bytes of the response may leave in a second, if it says that itself; 0 is any number.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Whether the head of a final response was written.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether [`prepared`](Self::prepared) says all that there is to say: nothing in the head depends on its fields.
    #[inline]
    pub fn takes_prepared(&self) -> bool {
        self.context.expiry.is_none() && self.context.call.is_none()
    }

    /// Room for so many bytes at the end.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Writes the head of a 200 that was prepared: `text` is as [`h1::prepare`] begins it, `fields` are those in it. `ended`: no
    /// content follows.
    #[inline]
    pub fn prepared(&mut self, text: &[u8], fields: FieldsRef<'_>, ended: bool) {
        let late = self.context.late_edits;
        let changed = !self.further.is_empty() || self.altered_by.is_some();
        if self.stream.is_none() && late.is_empty() && !changed {
            let frame = h1::Frame::of(&self.context.date, self.context.persistence);
            return h1::put_prepared(text, &frame, self.out);
        }
        self.write(&ResponseHead::own(200, fields), late, ended);
    }

    /// Writes a head of fields that were prepared.
    pub(crate) fn partly_prepared(&mut self, status: u16, fields: FieldsRef<'_>, ended: bool) {
        self.write(&ResponseHead::own(status, fields), self.context.late_edits, ended);
    }

    /// Makes a head of the fields that `put` appends, and writes it. `prepared`: edits were carried out on most of them already.
    pub fn make(&mut self, status: u16, prepared: bool, ended: bool, put: impl FnOnce(&mut FieldLines)) {
        if let Some(form) = self.context.call.filter(|_| is_failure(status)) {
            return self.fail_call(form, status, put);
        }
        let mut lines = std::mem::take(self.lines);
        lines.clear();
        put(&mut lines);
        let expiry = if prepared { None } else { self.context.expiry };
        if let Some(value) = cache_control(expiry, &ResponseHead::own(status, lines.all())) {
            lines.push(b"Cache-Control", value);
        }
        let edits = if prepared { self.context.late_edits } else { self.context.edits };
        self.write(&ResponseHead::own(status, lines.all()), edits, ended);
        *self.lines = lines;
    }

    /// Makes the head of a response that was kept: it has a `Date` of its own.
    pub(crate) fn make_kept(&mut self, status: u16, ended: bool, put: impl FnOnce(&mut FieldLines)) {
        let mut lines = std::mem::take(self.lines);
        lines.clear();
        put(&mut lines);
        if let Some(value) = cache_control(self.context.expiry, &ResponseHead::own(status, lines.all())) {
            lines.push(b"Cache-Control", value);
        }
        let ending = Ending { ended, dated: true, ..Ending::of(self.context.persistence) };
        let head = ResponseHead::own(status, lines.all());
        self.encode(&head, self.context.edits, self.further, &ending);
        *self.lines = lines;
    }

    /// The failure of a call: a response that is all head, with the status of gRPC ("Trailers-Only"). What `put` says of content
    /// is left out.
    #[cold]
    fn fail_call(&mut self, form: grpc::Form, status: u16, put: impl FnOnce(&mut FieldLines)) {
        let (mut said, mut lines) = (FieldLines::default(), FieldLines::default());
        put(&mut said);
        if self.stream.is_none() {
            lines.push_number(b"Content-Length", 0);
        }
        lines.push(b"Content-Type", form.media_type().as_bytes());
        // A caller that knows better says so.
        if said.all().get(b"grpc-status").is_none() {
            lines.push_number(b"Grpc-Status", grpc::status_of(status).into());
            let mut message = Vec::new();
            grpc::put_message(&status::text(status), &mut message);
            lines.push(b"Grpc-Message", &message);
        }
        for (name, value) in said.all().iter() {
            let about_content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
            if !about_content {
                lines.push(name, value);
            }
        }
        self.write(&ResponseHead::own(200, lines.all()), self.context.edits, true);
    }

    /// Appends content.
    #[inline]
    pub fn put(&mut self, content: &[u8]) {
        self.out.extend_from_slice(content);
    }

    fn write(&mut self, head: &ResponseHead<'_>, edits: &FieldEdits, ended: bool) {
        let ending = Ending { ended, ..Ending::of(self.context.persistence) };
        self.encode(head, edits, self.further, &ending);
    }

    #[inline]
    fn encode(
        &mut self,
        head: &ResponseHead<'_>,
        edits: &FieldEdits,
        further: FieldsRef<'_>,
        ending: &Ending,
    ) {
        let date = &self.context.date;
        self.begun = true;
        let altered = self.altered_by.take().map(|by| {
            let mut all = edits.clone();
            by.alter(head, &mut all);
            all
        });
        let edits = altered.as_ref().unwrap_or(edits);
        match &mut self.stream {
            Some((session, stream)) => {
                let date = if ending.dated { None } else { Some(date) };
                session.respond(*stream, head, edits, further, date, ending.ended);
            }
            None => h1::Encoder { out: self.out, date, edits, further }.head(head, ending),
        }
    }
}

impl Encode for ResponseWriter<'_> {
    fn interim(&mut self, head: &ResponseHead<'_>) {
        match &mut self.stream {
            Some((session, stream)) => session.interim(*stream, head),
            None => h1::put_interim(head, self.out),
        }
    }

    /// A stream ends when the process or server is done with the request, and not before: until then it counts against the
    /// client's streams here, and has to there. A stream whose end came with its head ends with the head.
    #[inline]
    fn head(&mut self, head: &ResponseHead<'_>, ending: &Ending) {
        if self.refusing.contains(&head.status) {
            self.refused = Some(head.status);
            return;
        }
        if let Some(Watch(see)) = self.watch.take() {
            see(head);
        }
        if let Some(mapping) = self.mapping.take() {
            let mut lines = None;
            let head = mapping.head(head, &mut lines);
            return Encode::head(self, &head, ending);
        }
        if self.context.may_name_file {
            self.rate = rate_of(head);
            if let Some(named) = NamedFile::of(head) {
                self.named = Some(Box::new(named));
                return;
            }
        }
        let ending = Ending { ended: ending.over, ..*ending };
        let value = cache_control(self.context.expiry, head);
        if value.is_none() && self.coding.is_none() {
            return self.encode(head, self.context.edits, self.further, &ending);
        }
        let mut lines = std::mem::take(self.lines);
        lines.clear();
        lines.extend(self.further);
        if let Some(value) = value {
            lines.push(b"Cache-Control", value);
        }
        let changed = self.coding.as_ref().and_then(|coding| coding.fields(head, &mut lines));
        let fields = changed.as_ref().map_or(head.fields, |changed| Fields::Own(changed.all()));
        self.encode(&ResponseHead { fields, ..*head }, self.context.edits, lines.all(), &ending);
        *self.lines = lines;
    }

    #[inline]
    fn content(&mut self) -> &mut Vec<u8> {
        if self.named.is_some() || self.refused.is_some() {
            self.left_out.clear();
            return &mut self.left_out;
        }
        self.out
    }

    #[inline]
    fn takes_coding(&mut self, head: &ResponseHead<'_>, has_content: bool, may: bool) -> bool {
        let further = self.further;
        if self.refusing.contains(&head.status) || self.context.may_name_file && NamedFile::of(head).is_some()
        {
            return false;
        }
        match &mut self.coding {
            None => false,
            Some(coding) => coding.decide(head, further, has_content, may),
        }
    }

    fn code(&mut self, content: &[u8]) {
        if let Some(coding) = &mut self.coding {
            coding.code(content);
        }
    }

    fn put_coded(&mut self, then: Then, chunk: bool) -> Option<u64> {
        let made = self.coding.as_mut()?.made(then)?;
        match chunk {
            true => h1::put_chunk(made, self.out),
            false => self.out.extend_from_slice(made),
        }
        let bytes = made.len() as u64;
        made.clear();
        Some(bytes)
    }
}

/// Whether a call with this status of HTTP has failed. A redirect is no answer to one, either.
fn is_failure(status: u16) -> bool {
    status >= 300
}

/// What `expires` says of a response.
#[inline]
fn cache_control<'e>(expiry: Option<Expiry<'e>>, head: &ResponseHead<'_>) -> Option<&'e [u8]> {
    let expiry = expiry?;
    let mut facts = Facts::new(head.status);
    head.for_each(|name, value| facts.note(name, value));
    expiry.of(facts)
}
