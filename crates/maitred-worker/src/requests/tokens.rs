//! `jwt`: a gate that checks a signed token.
//!
//! A token is checked by the event loop: the check takes a fraction of what a handshake of TLS does, which an event loop does
//! as well.

use maitred_http::request::Request;

use super::Requests;
use crate::connection::gated::{Denial, Verdict};
use crate::connection::refusal::RETRY_SOON;
use crate::facts::identity::Source;
use crate::keys::ConnKey;
use crate::shared::Outgoing;
use maitred_base::jwt::token::{Refusal, check};
use maitred_config::TokenPlace;
use maitred_control::FromWorker;
use maitred_files::exchange::Field;
use maitred_policy::access::jwt::Tokens;
use maitred_policy::rewrite::{cookie, parameters};

impl Requests {
    /// Checks the token of a request.
    pub(super) fn ask_for_token(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        tokens: &Tokens,
    ) -> Verdict {
        let refuse = |refusal: Option<Refusal>| {
            let (status, challenge) = tokens.challenge(refusal);
            Verdict::Refuse(Denial::with(status, vec![Field::of("WWW-Authenticate", challenge.as_bytes())]))
        };
        let Some(token) = tokens.from.iter().find_map(|place| token_at(place, request)) else {
            return refuse(None);
        };
        let ring = self.shared.key_rings.get(tokens.keys);
        if ring.is_empty() {
            self.ask_for_keys(tokens.keys);
            self.log_limited(|| tracing::warn!("503: there are no keys yet that tokens could be checked by"));
            return Verdict::Refuse(Denial::with(503, RETRY_SOON.to_vec()));
        }
        let claims = match check(token, &ring, &tokens.rules, self.clock.unix_secs) {
            Ok(claims) => claims,
            Err(refusal) => {
                if refusal == Refusal::UnknownKey {
                    self.ask_for_keys(tokens.keys);
                }
                return refuse(Some(refusal));
            }
        };
        let gated = self.gated(index);
        gated.decided = true;
        for (name, value) in tokens.fields(&claims) {
            gated.fields.push(name.as_bytes(), value.as_bytes());
        }
        if let Some(user) = tokens.user(&claims) {
            self.identify(index, user.as_bytes(), Source::Jwt);
        }
        Verdict::Pass
    }

    /// Has keys fetched that are missing, where that can be.
    fn ask_for_keys(&self, set: usize) {
        if self.shared.key_rings.asks(set, self.clock.unix_secs) {
            self.shared.outbox.send(Outgoing::Tell(FromWorker::KeyWanted(set)));
        }
    }
}

/// What stands in this place. Two fields of the name say nothing for sure.
fn token_at<'a>(place: &TokenPlace, request: &Request<'_, 'a>) -> Option<&'a [u8]> {
    let field = |name: &str| {
        let mut found = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let (first, None) = (found.next()?, found.next()) else { return None };
        Some(first.value)
    };
    let token = match place {
        TokenPlace::Bearer => bearer(field("authorization")?)?,
        TokenPlace::Header(name) => field(name).map(|value| bearer(value).unwrap_or(value))?,
        TokenPlace::Cookie(name) => cookie(request, name)?,
        TokenPlace::Query(name) => {
            parameters(request.query).find(|(found, _)| *found == name.as_str())?.1.as_bytes()
        }
    };
    (!token.is_empty()).then_some(token)
}

/// What stands behind the scheme, which is compared without case (9110-11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest.trim_ascii())
}
