//! Which clients the cache of responses tells apart: by what gates of the route have said, by certificates, and by what a trusted
//! proxy says of either.

use maitred_http::claims::{self, Claim};
use maitred_http::request::Request;

use super::Clients;
use crate::kept::ToldApart;
use crate::keys::ConnKey;
use maitred_policy::filter::cache::{Caching, Digest};
use maitred_policy::plan::Plan;

impl Clients {
    /// Whom the response to a request is for. The gates of its route have been asked.
    pub(crate) fn told_apart(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        plan: &Plan,
        caching: &Caching,
    ) -> ToldApart {
        let connection = &self.connections[index];
        let gated = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.gated.as_deref());
        let decided = gated.filter(|gated| gated.decided);
        let identity = self.identity(index);
        let told = self.fields_of_proxies(index, request);
        if decided.is_none() && !identity.has_certificate() && told.is_empty() {
            return ToldApart::NoOne;
        }
        // A gate that has named no user has told clients apart by something that only it knows.
        let known = decided.is_none_or(|_| identity.user().is_some());
        if !caching.key_identity || !known {
            return ToldApart::Someone;
        }
        let mut digest = Digest::default();
        if let Some(user) = identity.user() {
            digest.add(user.source().auth_type().as_bytes());
            digest.add(user.name().as_bytes());
        }
        // Fields that gates have added are what the application knows the client by.
        let fields = gated.map(|gated| gated.fields.all()).unwrap_or_default();
        let of_client =
            request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("authorization"));
        let of_client = of_client.filter(|_| !plan.requests.fields.drops("authorization"));
        let of_client = of_client.map(|field| (field.name.as_bytes(), field.value));
        for part in [fields.iter().collect(), of_client.collect(), told] as [Vec<(&[u8], &[u8])>; 3] {
            digest.add(&part.len().to_be_bytes());
            for (name, value) in part {
                digest.add(&name.to_ascii_lowercase());
                digest.add(value);
            }
        }
        identity.certificate_parts(|value| digest.add(value));
        ToldApart::By(digest.hex(32).into())
    }

    /// What a trusted proxy says of who the client is.
    fn fields_of_proxies<'r>(&self, index: ConnKey, request: &Request<'_, 'r>) -> Vec<(&'r [u8], &'r [u8])> {
        let address = self.connections[index].remote.address.map(|address| address.ip());
        if !self.shared.start.config.server.trusted_proxies.trusts(address) {
            return Vec::new();
        }
        // What it says of the address, and of the original request, tells no users apart.
        let is_one = |name: &str| matches!(claims::claim(name), Some(Claim::User | Claim::Certificate));
        // A proxy that says that there is no user tells no clients apart.
        let names_one = |value: &[u8]| !value.is_empty() && !value.eq_ignore_ascii_case(b"none");
        let fields = request.fields.iter().filter(|field| is_one(field.name) && names_one(field.value));
        fields.map(|field| (field.name.as_bytes(), field.value)).collect()
    }
}
