//! What the configuration itself answers with, coded when it is loaded.

use super::rules::{self, Rules};
use super::whole;
use maitred_config::Coding;

/// The codings of a body that never changes.
#[derive(Debug)]
pub struct Constant {
    /// In order of preference.
    codings: Vec<Coding>,
    bodies: Vec<Vec<u8>>,
}

impl Constant {
    /// The encodings of `body` that its route asks for, and that save something. `None` if the body is to stay as it is, no
    /// matter what clients accept.
    pub(crate) fn new(rules: &Rules, content_type: &str, body: &[u8]) -> Option<Constant> {
        if !rules.takes_file(content_type.as_bytes(), body.len() as u64) {
            return None;
        }
        let made = rules.kept().iter().filter_map(|coding| Some((*coding, whole::encode(*coding, body)?)));
        let (codings, bodies): (Vec<_>, Vec<_>) = made.unzip();
        (!codings.is_empty()).then_some(Constant { codings, bodies })
    }

    /// The body for a client, by its `Accept-Encoding`; `None` if it is to get the plain one.
    pub fn choose(&self, accepted: Option<&[u8]>) -> Option<(Coding, &[u8])> {
        let best = rules::best(&self.codings, accepted)?;
        let at = self.codings.iter().position(|coding| *coding == best)?;
        Some((best, self.bodies.get(at)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::coder::decoding::decoded;
    use super::*;
    use maitred_config::Compress;

    #[test]
    fn a_body_that_is_worth_it_has_every_coding() {
        let rules = Rules::new(Compress::default());
        let body = "<p>the same again and again</p>".repeat(50);
        let constant = Constant::new(&rules, "text/html; charset=utf-8", body.as_bytes()).unwrap();
        for (accepted, expected) in
            [("br, gzip", Coding::Brotli), ("zstd;q=0.9, gzip;q=0.8", Coding::Zstd), ("gzip", Coding::Gzip)]
        {
            let (coding, made) = constant.choose(Some(accepted.as_bytes())).unwrap();
            assert_eq!((coding, decoded(coding, made)), (expected, body.clone().into_bytes()), "{accepted}");
        }
        for accepted in [None, Some(b"identity".as_slice()), Some(b"deflate"), Some(b"br;q=0")] {
            assert!(constant.choose(accepted).is_none(), "{accepted:?}");
        }
        assert!(Constant::new(&rules, "text/html", b"short").is_none());
        assert!(Constant::new(&rules, "image/png", body.as_bytes()).is_none());
        let all = Rules::new(Compress { bytes_min: 0, ..Compress::default() });
        assert!(Constant::new(&all, "text/html", b"").is_none(), "nothing saves nothing");
        assert!(Constant::new(&all, "text/html", b"short").is_none(), "it would be longer");
    }
}
