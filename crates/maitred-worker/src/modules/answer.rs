//! The answer of a module.

use maitred_http::fields::{FieldLines, FieldsRef, Line, is_token, is_value};
use maitred_http::h1;
use maitred_sys::module::abi::{Field, Response};

use maitred_files::Summary;
use maitred_files::exchange::ResponseWriter;
use maitred_files::fixed::pass_on;
use maitred_policy::plan::Plan;

/// The answer of a module.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The status of the answer; 0 as long as there is none.
    pub(crate) status: u16,
    /// The fields of the answer, without those of framing.
    pub(crate) fields: FieldLines,
    /// The content of the answer.
    pub(crate) content: Vec<u8>,
    /// All fields that it came with are among `fields`, and `Content-Type` is one of them.
    whole: bool,
    /// What was answered last with these fields.
    last: Option<Key>,
    /// The head of that, if it was answered more than once.
    head: Option<Head>,
}

/// What a head depends on besides the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The number of the plan, whose edits are in it.
    plan: usize,
    bytes: usize,
}

/// A head with 200, as far as it is the same each time.
#[derive(Debug)]
struct Head {
    text: Vec<u8>,
    lines: Box<[Line]>,
}

/// Fields of a module's answer that are not taken: they are the server's.
const OURS: [&[u8]; 8] = [
    b"connection",
    b"content-length",
    b"date",
    b"keep-alive",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Date, Connection and the empty line are less than this.
const REST_BYTES_MAX: usize = 96;
/// Content of which the memory is kept for the next answer.
const CONTENT_KEPT: usize = 256 << 10;

impl Answer {
    /// Takes a response. False, with nothing taken, if it cannot be one.
    #[inline]
    pub(crate) fn take(&mut self, response: &Response<'_>) -> bool {
        // Most modules answer with the same fields each time: these were checked.
        if (200..=599).contains(&response.status) && self.has_fields(response.fields()) {
            self.content.clear();
            self.content.extend_from_slice(response.content.get());
            self.status = response.status;
            return true;
        }
        self.take_checked(response)
    }

    /// Whether these fields are the ones of the answer before, all of which were taken; and say what the content is.
    #[inline]
    fn has_fields(&self, fields: &[Field<'_>]) -> bool {
        self.whole
            && self.fields.len() == fields.len()
            && self
                .fields
                .all()
                .iter()
                .zip(fields)
                .all(|((name, value), field)| name == field.name.get() && value == field.value.get())
    }

    fn take_checked(&mut self, response: &Response<'_>) -> bool {
        self.clear();
        let fields = response.fields();
        let valid = fields.iter().all(|field| is_token(field.name.get()) && is_value(field.value.get()));
        if !(200..=599).contains(&response.status) || !valid {
            return false;
        }
        let mut typed = false;
        for field in fields {
            let (name, value) = (field.name.get(), field.value.get());
            typed |= name.eq_ignore_ascii_case(b"content-type");
            if !OURS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                self.fields.push(name, value);
            }
        }
        let content = response.content.get();
        if !typed && !content.is_empty() {
            self.fields.push(b"Content-Type", b"application/octet-stream");
        }
        self.content.extend_from_slice(content);
        self.whole = typed && self.fields.len() == fields.len();
        self.status = response.status;
        true
    }

    /// Writes it. The head of an answer that comes again and again, with the same fields and as much content, is written as it
    /// was made the time before.
    pub(crate) fn write(&mut self, plan: &Plan, writer: &mut ResponseWriter<'_>) -> Summary {
        let key = Key { plan: plan.number, bytes: self.content.len() };
        let again = self.last.replace(key) == Some(key) && self.status == 200 && self.whole;
        if !again || !writer.takes_prepared() {
            self.head = if again { self.head.take() } else { None };
            return pass_on(self.status, &self.fields, &self.content, writer);
        }
        let head = self.head.get_or_insert_with(|| Head::new(plan, &self.fields, self.content.len()));
        let sent = if writer.head_only() { b"" } else { self.content.as_slice() };
        writer.reserve(head.text.len() + REST_BYTES_MAX + sent.len());
        writer.prepared(&head.text, FieldsRef::of_parts(&head.text, &head.lines), sent.is_empty());
        writer.put(sent);
        Summary { status: 200, body_bytes: sent.len() as u64 }
    }

    /// Forgets it, and keeps the memory unless that is much.
    fn clear(&mut self) {
        (self.status, self.whole) = (0, false);
        (self.last, self.head) = (None, None);
        self.fields.clear();
        self.content.clear();
        self.content.shrink_to(CONTENT_KEPT);
    }
}

impl Head {
    fn new(plan: &Plan, fields: &FieldLines, bytes: usize) -> Head {
        let (mut own, mut edited) = (FieldLines::default(), FieldLines::behind(h1::prepare(200)));
        own.push_number(b"Content-Length", bytes as u64);
        own.extend(fields.all());
        plan.prepared_edits().apply(own.all(), &mut edited);
        let (text, lines) = edited.into_parts();
        Head { text, lines }
    }
}

#[cfg(test)]
mod tests {
    use maitred_http::h1::Persistence;

    use super::*;
    use maitred_config::{ResponseHeaders, Site};
    use maitred_files::exchange::ReplyContext;
    use maitred_policy::filter::Scope;

    #[test]
    fn an_answer_that_breaks_a_rule_is_not_taken() {
        let mut answer = Answer::default();
        let good = [Field::new("Content-Type", b"text/plain"), Field::new("content-length", b"77")];
        assert!(answer.take(&Response::new(200, &good, b"text")));
        let names = |answer: &Answer| -> Vec<Vec<u8>> {
            answer.fields.all().iter().map(|(name, _)| name.to_vec()).collect()
        };
        assert_eq!(
            (answer.status, names(&answer)),
            (200, vec![b"Content-Type".to_vec()]),
            "the server says how long"
        );
        for (name, value) in
            [("", "x"), ("a b", "x"), ("a:", "x"), ("a", "x\r\nb: c"), ("a", " x"), ("a", "x\0")]
        {
            let fields = [Field::new(name, value.as_bytes())];
            assert!(!answer.take(&Response::new(200, &fields, b"text")), "{name:?}: {value:?}");
            assert_eq!((answer.status, answer.content.len()), (0, 0));
        }
        for status in [0, 100, 199, 600] {
            assert!(!answer.take(&Response::new(status, &[], b"")), "{status}");
        }
        let typed = [Field::new("Content-Type", b"text/plain"), Field::new("X-A", b"1")];
        for content in [&b"first"[..], b"", b"second"] {
            assert!(answer.take(&Response::new(201, &typed, content)), "the same fields again");
            assert_eq!((answer.status, answer.content.as_slice(), answer.fields.len()), (201, content, 2));
        }
        let other = [typed[0], Field::new("X-A", b"1\n")];
        assert!(!answer.take(&Response::new(201, &other, b"")), "almost the same");
        assert!(answer.take(&Response::new(404, &[], b"x")));
        assert_eq!(answer.fields.all().get(b"content-type"), Some(&b"application/octet-stream"[..]));
    }

    /// What is sent of it, in cleartext.
    fn sent(answer: &mut Answer, plan: &Plan, head_only: bool) -> String {
        let (mut out, mut lines) = (Vec::new(), FieldLines::default());
        let context = ReplyContext {
            date: *b"Sun, 06 Nov 1994 08:49:37 GMT",
            persistence: Persistence::Implied,
            head_only,
            edits: plan.edits(false),
            late_edits: plan.late_edits(false),
            expiry: None,
            further: false,
            altered: false,
            may_name_file: false,
            call: None,
        };
        let summary = answer.write(plan, &mut ResponseWriter::new(&mut out, None, &mut lines, context));
        assert_eq!(summary.body_bytes as usize, if head_only { 0 } else { answer.content.len() });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_that_comes_again_is_the_same() {
        let set = vec![("X-Of-The-Route".to_owned(), "1".to_owned())];
        let rules = ResponseHeaders { set, remove: vec!["x-removed".into()], ..ResponseHeaders::default() };
        let site = Site { response_headers: rules, ..Site::default() };
        let plans = [None, Some(&site)].map(|site| {
            let mut plan = Plan::new(0, &Scope { server_header: true, site, route: None });
            plan.number = usize::from(site.is_some());
            plan
        });
        let fields = [Field::new("Content-Type", b"text/plain"), Field::new("X-Removed", b"1")];
        let others = [Field::new("Content-Type", b"text/html"), fields[1]];
        let mut kept = Answer::default();
        for (fields, content, plan, head_only) in [
            (&fields, "first", 0, false),
            (&fields, "again", 0, false),
            (&fields, "third", 0, false),
            (&fields, "third", 0, true),
            (&fields, "third", 1, false),
            (&fields, "third", 1, false),
            (&fields, "longer than before", 1, false),
            (&fields, "as long as before.", 1, false),
            (&others, "as long as before.", 1, false),
            (&others, "as long as before.", 1, false),
            (&others, "", 1, false),
            (&others, "", 1, false),
        ] {
            for status in [200, 404, 200] {
                let response = Response::new(status, fields, content.as_bytes());
                let mut fresh = Answer::default();
                assert!(kept.take(&response) && fresh.take(&response));
                let (again, anew) =
                    (sent(&mut kept, &plans[plan], head_only), sent(&mut fresh, &plans[plan], head_only));
                let sorted = |text: &str| {
                    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                    lines.sort();
                    lines
                };
                assert_eq!(sorted(&again), sorted(&anew), "{content}, plan {plan}, HEAD: {head_only}");
            }
        }
    }
}
