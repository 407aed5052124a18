//! Fields by which proxies and login services inform an application about the client: user, address, and the original request.
//!
//! An application that trusts one of them trusts its sender, so none of them may come from a client. The list is without those
//! that Maitred writes itself (`worker::origin`): `X-Forwarded-*`, `X-Real-IP`, `X-SSL-*`.

use super::super::origin::starts_alike;

/// Names in small letters; with `*` at the end, all that begin so.
type Names = [&'static str];

/// Those that begin with `x-`.
const X: &Names = &[
    // The user: Kubernetes' authenticating proxy, and CGI's variable as a field; Grafana; oauth2-proxy; authentik; Kong.
    "x-remote-*",
    "x-webauth-*",
    "x-auth-request-*",
    "x-authentik-*",
    "x-authenticated-*",
    "x-auth-user",
    "x-auth-email",
    "x-auth-groups",
    // Google's IAP, Azure's App Service, the load balancers of AWS.
    "x-goog-authenticated-user-*",
    "x-ms-client-principal*",
    "x-amzn-oidc-*",
    "x-amzn-mtls-*",
    // The address of the client: what request-ip (npm), django-ipware and the remote_ip of many frameworks read; App Engine,
    // Azure, Envoy, Vercel, Netlify.
    "x-client-ip",
    "x-cluster-client-ip",
    "x-forwarded",
    "x-original-forwarded-for",
    "x-originating-ip",
    "x-appengine-*",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-envoy-external-address",
    "x-envoy-internal",
    "x-vercel-forwarded-for",
    "x-nf-client-connection-ip",
    // The original request: IIS and its successors (Symfony, Zend), ingress-nginx, Envoy; WSGI below a prefix; frameworks that
    // take the host from any field that has one.
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-original-method",
    "x-rewrite-url",
    "x-envoy-original-*",
    "x-script-name",
    "x-host",
    "x-http-host-override",
    // The scheme: fields of Microsoft and others for https.
    "x-scheme",
    "x-url-scheme",
    "x-https",
    "x-arr-ssl",
    // Certificates of clients: Azure, HAProxy's and nginx' usual examples.
    "x-arr-clientcert",
    "x-client-cert*",
    "x-client-dn",
    "x-client-verify",
    // Messages of a framework to the server in front, or to itself: Rack::Sendfile (CVE-2025-61780), Next.js (CVE-2025-29927).
    "x-sendfile-type",
    "x-accel-*",
    "x-middleware-subrequest*",
];

/// The others, by first letter.
const C: &Names = &[
    // Cloudflare, CloudFront; RFC 9440.
    "cf-connecting-*",
    "cf-pseudo-ipv4",
    "cf-visitor",
    "cf-access-authenticated-user-email",
    "cloudfront-forwarded-proto",
    "cloudfront-viewer-address",
    "client-cert",
    "client-cert-chain",
    "client-ip",
];
const D: &Names = &["do-connecting-ip"];
const F: &Names = &[
    "front-end-https",
    "fastly-client-ip",
    "fastly-ssl",
    "fly-client-ip",
    "fly-forwarded-*",
    "forwarded-for",
];
const I: &Names = &["incap-client-ip"];
/// CGI's variables as fields; Authelia.
const R: &Names = &["remote-*"];
/// ingress-nginx; Shibboleth's module with fields.
const S: &Names = &["ssl-client-*", "shib-*"];
/// Akamai and Cloudflare; Tailscale.
const T: &Names = &["true-client-ip", "tailscale-user-*"];

/// Whether a field is one of these, letter case and the difference of `_`, `.` and `-` aside.
#[inline]
pub(super) fn is_identity(name: &str) -> bool {
    let names = match name.as_bytes() {
        [b'x' | b'X', b'-' | b'_' | b'.', ..] => X,
        [b'c' | b'C', ..] => C,
        [b'd' | b'D', ..] => D,
        [b'f' | b'F', ..] => F,
        [b'i' | b'I', ..] => I,
        [b'r' | b'R', ..] => R,
        [b's' | b'S', ..] => S,
        [b't' | b'T', ..] => T,
        _ => return false,
    };
    let name = name.as_bytes();
    names.iter().any(|known| match known.as_bytes() {
        [start @ .., b'*'] => starts_alike(name, start),
        known => name.len() == known.len() && starts_alike(name, known),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxies_say_is_known_in_all_spellings() {
        for name in [
            "X-Remote-User",
            "x_remote_user",
            "X.Remote-User",
            "Remote-User",
            "REMOTE_ADDR",
            "x-original-url",
            "X-Rewrite-URL",
            "Front-End-Https",
            "X-Scheme",
            "x-url-scheme",
            "True-Client-IP",
            "X-Client-IP",
            "ssl-client-cert",
            "SSL_CLIENT_VERIFY",
            "Client-Cert",
            "X-Client-Cert-Chain",
            "CF-Connecting-IPv6",
            "x-middleware-subrequest",
            "X-Accel-Mapping",
        ] {
            assert!(is_identity(name), "{name}");
        }
    }

    #[test]
    fn what_clients_say_is_not() {
        for name in [
            "",
            "x",
            "X-",
            "Accept",
            "Cookie",
            "Content-Type",
            "Range",
            "Referer",
            "Sec-Fetch-Site",
            "TE",
            "Cache-Control",
            "X-Requested-With",
            "X-CSRF-Token",
            "X-Api-Key",
            "X-HTTP-Method-Override",
            "X-User-Agent",
            "If-Range",
            "DNT",
            "Trailer",
            "X-Amz-Date",
            "X-Remote",
            "Client-Certificate",
            "X-Hosts",
            "Clear-Site-Data",
            "Depth",
            "Destination",
        ] {
            assert!(!is_identity(name), "{name}");
        }
    }

    /// Otherwise a comparison would not find them.
    #[test]
    fn the_list_is_in_small_letters_and_in_its_place() {
        for (first, names) in
            [(b'x', X), (b'c', C), (b'd', D), (b'f', F), (b'i', I), (b'r', R), (b's', S), (b't', T)]
        {
            for name in names {
                let text = name.strip_suffix('*').unwrap_or(name);
                let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                assert!(name.as_bytes().first() == Some(&first) && text.bytes().all(plain), "{name}");
            }
        }
    }
}
