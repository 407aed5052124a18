//! The coding of a response that comes from an upstream.
//!
//! A coding is decided when the head goes to its encoder (`Encode::takes_coding`). Nothing of a response stays in an encoder when
//! its upstream pauses (`Exchanges::pass_on` of the worker), so that events arrive.

use maitred_http::fields::{FieldLines, FieldsRef};
use maitred_http::response::{ResponseHead, Then};

use maitred_policy::compress::{self, Coder, Encoders, Facts, Verdict, Wish};

/// What decides about the coding of one response, and carries it out.
#[derive(Debug)]
pub struct Coding<'t> {
    wish: Wish<'t>,
    encoders: &'t Encoders,
    coder: &'t mut Option<Box<Coder>>,
    /// What becomes of the response whose head comes next, and whether it says itself that it varies.
    verdict: (Verdict, bool),
}

impl<'t> Coding<'t> {
    /// `wish` is what request and route say, `encoders` are those of the thread, `coder` is that of this response, from its head
    /// to its end.
    pub fn new(wish: Wish<'t>, encoders: &'t Encoders, coder: &'t mut Option<Box<Coder>>) -> Coding<'t> {
        Coding { wish, encoders, coder, verdict: (Verdict::Never, false) }
    }

    /// As [`Encode::takes_coding`](maitred_http::response::Encode::takes_coding). `further` are fields that the response gets
    /// besides.
    pub(super) fn decide(
        &mut self,
        head: &ResponseHead<'_>,
        further: FieldsRef<'_>,
        has_content: bool,
        may: bool,
    ) -> bool {
        let mut facts = Facts::new(head.status);
        further.iter().for_each(|(name, value)| facts.note(name, value));
        head.for_each(|name, value| facts.note(name, value));
        let verdict = match self.wish.judge(&facts) {
            Verdict::Coded(coding) if may => {
                if has_content {
                    let level = self.wish.rules.level(coding);
                    *self.coder = self.encoders.begin(coding, level, facts.length()).map(Box::new);
                }
                match has_content && self.coder.is_none() {
                    true => Verdict::Plain,
                    false => Verdict::Coded(coding),
                }
            }
            Verdict::Coded(_) => Verdict::Plain,
            other => other,
        };
        self.verdict = (verdict, facts.varies);
        matches!(verdict, Verdict::Coded(_))
    }

    /// The fields of the head in place of its own; otherwise one that is added to it is put into `further`.
    pub(super) fn fields(&self, head: &ResponseHead<'_>, further: &mut FieldLines) -> Option<FieldLines> {
        let mut lines = FieldLines::default();
        match self.verdict {
            (Verdict::Never, _) => return None,
            (Verdict::Plain, varies) => {
                if !varies {
                    further.push(compress::head::VARY.0, compress::head::VARY.1);
                }
                return None;
            }
            (Verdict::Confirms, varies) => compress::head::put(head, varies, None, &mut lines),
            (Verdict::Coded(coding), varies) => compress::head::put(head, varies, Some(coding), &mut lines),
        }
        Some(lines)
    }

    pub(super) fn code(&mut self, content: &[u8]) {
        if let Some(coder) = &mut self.coder {
            coder.write(content);
        }
    }

    /// What was made of the content; `None` if the coding has failed.
    pub(super) fn made(&mut self, then: Then) -> Option<&mut Vec<u8>> {
        let coder = self.coder.as_mut()?;
        match then {
            Then::GoOn => {}
            Then::Flush => coder.flush(),
            Then::Finish => coder.finish(),
        }
        coder.made().ok()
    }
}
