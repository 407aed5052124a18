//! `jwt`: signed tokens.

use maitred_base::jwt::claims::Claims;
use maitred_base::jwt::token::{Refusal, Rules};
use maitred_config::{Jwt, TokenPlace};

/// Whose tokens are taken, and what they say.
#[derive(Debug)]
pub struct Tokens {
    /// Index of the set of keys.
    pub keys: usize,
    /// What a token has to be.
    pub rules: Rules,
    /// Where it may be, in this order.
    pub from: Vec<TokenPlace>,
    /// Pools do not get `Authorization`.
    pub remove_authorization: bool,
    realm: Box<str>,
    user_claim: Box<str>,
    claim_headers: Vec<(Box<str>, Box<str>)>,
}

impl Tokens {
    /// Compiles them.
    pub fn new(settings: &Jwt) -> Tokens {
        let pair = |(name, claim): &(String, String)| (name.as_str().into(), claim.as_str().into());
        Tokens {
            keys: settings.keys,
            rules: settings.rules.clone(),
            from: settings.from.clone(),
            remove_authorization: settings.remove_authorization,
            realm: settings.realm.as_str().into(),
            user_claim: settings.user_claim.as_str().into(),
            claim_headers: settings.claim_headers.iter().map(pair).collect(),
        }
    }

    /// The user that a token is of.
    pub fn user(&self, claims: &Claims) -> Option<String> {
        claims.field(&self.user_claim)
    }

    /// The fields that pools get: names in small letters, and values.
    pub fn fields(&self, claims: &Claims) -> impl Iterator<Item = (&str, String)> {
        self.claim_headers.iter().filter_map(|(name, claim)| Some((&**name, claims.field(claim)?)))
    }

    /// Status and `WWW-Authenticate` of a request without a token, or with one that is refused (RFC 6750 section 3).
    pub fn challenge(&self, refusal: Option<Refusal>) -> (u16, String) {
        let start = format!("Bearer realm=\"{}\"", self.realm);
        let (status, error) = match refusal {
            // Who has shown nothing is not told what is wrong with it (3.1).
            None => return (401, start),
            Some(Refusal::Claims) => (403, "insufficient_scope"),
            Some(_) => (401, "invalid_token"),
        };
        let description = refusal.map(Refusal::description).unwrap_or_default();
        (status, format!("{start}, error=\"{error}\", error_description=\"{description}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_is_wrong_with_its_token() {
        let rules =
            Rules { algorithms: Vec::new(), issuers: None, audiences: None, leeway: 0, require: Vec::new() };
        let tokens = Tokens::new(&Jwt {
            realm: "Api".to_owned(),
            keys: 0,
            rules,
            from: vec![TokenPlace::Bearer],
            user_claim: "sub".to_owned(),
            claim_headers: Vec::new(),
            remove_authorization: false,
        });
        assert_eq!(tokens.challenge(None), (401, "Bearer realm=\"Api\"".to_owned()));
        let expired =
            "Bearer realm=\"Api\", error=\"invalid_token\", error_description=\"the token has expired\"";
        assert_eq!(tokens.challenge(Some(Refusal::Expired)), (401, expired.to_owned()));
        assert_eq!(tokens.challenge(Some(Refusal::Claims)).0, 403);
        assert!(tokens.challenge(Some(Refusal::Claims)).1.contains("insufficient_scope"));
    }
}
