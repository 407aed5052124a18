//! Fields of requests by which proxies, gateways and login services inform an application about a client: its user, its address,
//! its certificate, the original request.
//!
//! An application that trusts one of them trusts its sender, so none of them may come from a client. For an application that sees
//! fields as CGI variables (RFC 3875 section 4.1.18) `_` and `.` are the same as `-`, so that they are here, too.

use std::sync::LazyLock;

/// What a field claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Who the user is.
    User,
    /// The client's address, or where that is.
    Address,
    /// Whether the client uses TLS.
    Scheme,
    /// The host that the client has asked for.
    Host,
    /// The path or the target.
    Target,
    /// The client's certificate, or its TLS.
    Certificate,
    /// The way of the request so far.
    Past,
    /// What programs say to one another, or to themselves.
    Internal,
}

/// Names in small letters; with `*` at the end, all that begin so.
type Names = &'static [&'static str];

/// All that is documented, by what it claims.
const FAMILIES: [(Claim, Names); 8] = [
    (Claim::User, USERS),
    (Claim::Address, ADDRESSES),
    (Claim::Scheme, SCHEMES),
    (Claim::Host, HOSTS),
    (Claim::Target, TARGETS),
    (Claim::Certificate, CERTIFICATES),
    (Claim::Past, PAST),
    (Claim::Internal, INTERNAL),
];

const USERS: Names = &[
    // CGI's variables as fields, Authelia; Kubernetes' authenticating proxy; Grafana.
    "remote-*",
    "x-remote-*",
    "x-webauth-*",
    // oauth2-proxy, also behind nginx' auth_request; louketo; examples of Traefik's ForwardAuth; authentik.
    "x-auth-request-*",
    "x-auth-audience",
    "x-auth-email",
    "x-auth-groups",
    "x-auth-name",
    "x-auth-roles",
    "x-auth-subject",
    "x-auth-user*",
    "x-authenticated-*",
    "x-authentik-*",
    "x-forwarded-access-token",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-preferred-username",
    "x-forwarded-user",
    // Kong and its modules.
    "x-anonymous-consumer",
    "x-consumer-*",
    "x-credential-identifier",
    "x-userinfo",
    // Vouch, Pomerium, Teleport, Tailscale, Kubeflow, Red Hat, WSO2.
    "x-vouch-*",
    "x-pomerium-*",
    "teleport-*",
    "tailscale-*",
    "kubeflow-userid",
    "x-rh-identity",
    "x-jwt-assertion",
    // Modules of Apache: OpenID Connect, Mellon, CAS, Shibboleth with its attributes.
    "oidc-*",
    "mellon-*",
    "cas-*",
    "shib-*",
    "eppn",
    "persistent-id",
    "targeted-id",
    // Google's IAP and API gateways, App Engine; Azure's App Service; load balancers of AWS; Cloudflare; Vercel; Istio.
    "x-goog-authenticated-user-*",
    "x-goog-iap-*",
    "x-apigateway-api-userinfo",
    "x-endpoint-api-userinfo",
    "x-appengine-*",
    "x-ms-client-principal*",
    "x-ms-token-*",
    "x-amzn-oidc-*",
    "cf-access-authenticated-user-email",
    "cf-access-jwt-assertion",
    "x-vercel-oidc-token",
    "sec-istio-auth-userinfo",
    // IBM's WebSEAL and WebSphere; SiteMinder; Oracle's access managers; ClearTrust.
    "iv-*",
    "$ws*",
    "sm-*",
    "smuser",
    "oam-*",
    "osso-*",
    "proxy-remote-user",
    "proxy-user",
    "ct-remote-user",
];

const ADDRESSES: Names = &[
    // What request-ip (npm), django-ipware and the remote_ip of many frameworks read.
    "client-ip",
    "cluster-client-ip",
    "forwarded-for",
    "proxy-client-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-custom-ip-authorization",
    "x-forward-for",
    "x-forwarded",
    "x-forwarded-for",
    "x-originating-ip",
    "x-proxyuser-ip",
    "x-real-*",
    "x-true-client-ip",
    "x-trusted-ip",
    // WebLogic's plug-ins; Cloudflare; CloudFront; Azure; Fastly; Fly; DigitalOcean; Imperva; Sucuri; Netlify; Vercel; Akamai;
    // Alibaba.
    "wl-proxy-*",
    "cf-connecting-*",
    "cf-ip*",
    "cf-pseudo-ipv4",
    "cloudfront-*",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-fd-clientip",
    "fastly-client-ip",
    "fastly-temp-xff",
    "fly-client-ip",
    "do-connecting-ip",
    "incap-client-ip",
    "x-sucuri-*",
    "x-nf-*",
    "x-vercel-forwarded-for",
    "x-vercel-ip-*",
    "x-vercel-proxied-for",
    "x-akamai-edgescape",
    "ali-cdn-real-ip",
    "cdn-src-ip",
    "l5d-remote-ip",
];

/// Fields of Microsoft and others for https.
const SCHEMES: Names = &[
    "cf-visitor",
    "fastly-ssl",
    "forwarded-proto",
    "front-end-https",
    "x-appservice-proto",
    "x-arr-ssl",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-https",
    "x-scheme",
    "x-ssl",
    "x-url-scheme",
];

/// Frameworks take the host from any field that has one.
const HOSTS: Names = &[
    "disguised-host",
    "forwarded-host",
    "forwarded-server",
    "was-default-hostname",
    "x-forwarded-host",
    "x-forwarded-server",
    "x-host",
    "x-http-host-override",
    "x-original-host",
];

/// IIS and its successors (Symfony, Zend), ingress-nginx; WSGI below a prefix; Next.js.
const TARGETS: Names = &[
    "x-forwarded-path",
    "x-forwarded-prefix",
    "x-forwarded-uri",
    "x-invoke-*",
    "x-matched-path",
    "x-middleware-rewrite",
    "x-original-uri",
    "x-original-url",
    "x-override-url",
    "x-rewrite-url",
    "x-script-name",
];

const CERTIFICATES: Names = &[
    // RFC 9440; Apache's and ingress-nginx' variables as fields; HAProxy's, nginx' and Traefik's usual examples; Envoy and Istio.
    "client-cert",
    "client-cert-chain",
    "proxy-ssl-id",
    "ssl-*",
    "x-certificate-*",
    "x-client-cert*",
    "x-client-cn",
    "x-client-dn",
    "x-client-fingerprint",
    "x-client-issuer*",
    "x-client-s-dn",
    "x-client-serial*",
    "x-client-ssl-*",
    "x-client-subject*",
    "x-client-tls-*",
    "x-client-verify",
    "x-clientcert*",
    "x-forwarded-client-cert",
    "x-forwarded-tls-*",
    "x-ssl-*",
    "x-tls-*",
    // Azure, AWS, Cloudflare, Linkerd.
    "x-arr-clientcert",
    "x-amzn-mtls-*",
    "cf-cert-*",
    "cf-client-cert-*",
    "l5d-client-id",
    "l5d-server-id",
];

const PAST: Names = &[
    "early-data",
    "fly-forwarded-*",
    "forwarded",
    "x-forwarded-*",
    "x-original-*",
    "x-queue-start",
    "x-request-id",
    "x-request-start",
    "x-waws-*",
];

const INTERNAL: Names = &[
    // Messages of a framework to the server in front, or to itself: Rack::Sendfile (CVE-2025-61780), Next.js (CVE-2025-29927),
    // Passenger, GitLab's Workhorse.
    "x-accel-*",
    "x-sendfile-type",
    "x-middleware-invoke",
    "x-middleware-next",
    "x-middleware-override-headers",
    "x-middleware-request-*",
    "x-middleware-set-cookie",
    "x-middleware-subrequest*",
    "!~*",
    "gitlab-workhorse*",
    // Envoy and Istio, of the mesh; Azure's Front Door; Lambda; Fastly; Vercel.
    "x-envoy-*",
    "x-istio-attributes",
    "x-azure-fdid",
    "x-amzn-lambda-context",
    "x-amzn-request-context",
    "fastly-ff",
    "x-vercel-id",
];

/// What Maitred itself tells applications.
const TOLD: Names = &[
    "early-data",
    "forwarded",
    "x-forwarded-*",
    "x-queue-start",
    "x-real-ip",
    "x-request-id",
    "x-request-start",
    "x-ssl-*",
];

/// What trusted proxies say where a pool does not name what they may: users, addresses and original requests by the fields of
/// authenticating proxies and of content delivery networks that are documented best.
const USUAL: Names = &[
    "x-remote-*",
    "x-webauth-*",
    "x-auth-request-*",
    "x-authentik-*",
    "x-authenticated-*",
    "x-auth-user",
    "x-auth-email",
    "x-auth-groups",
    "x-goog-authenticated-user-*",
    "x-ms-client-principal*",
    "x-amzn-oidc-*",
    "x-amzn-mtls-*",
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
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-original-method",
    "x-rewrite-url",
    "x-envoy-original-*",
    "x-script-name",
    "x-host",
    "x-http-host-override",
    "x-scheme",
    "x-url-scheme",
    "x-https",
    "x-arr-ssl",
    "x-arr-clientcert",
    "x-client-cert*",
    "x-client-dn",
    "x-client-verify",
    "x-sendfile-type",
    "x-accel-*",
    "x-middleware-subrequest*",
    "cf-connecting-*",
    "cf-pseudo-ipv4",
    "cf-visitor",
    "cf-access-authenticated-user-email",
    "cloudfront-forwarded-proto",
    "cloudfront-viewer-address",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "do-connecting-ip",
    "front-end-https",
    "fastly-client-ip",
    "fastly-ssl",
    "fly-client-ip",
    "fly-forwarded-*",
    "forwarded-for",
    "incap-client-ip",
    "remote-*",
    "ssl-client-*",
    "shib-*",
    "true-client-ip",
    "tailscale-user-*",
];

/// Whether a trusted proxy may say a field of this name where no pool names what it may say.
#[cold]
pub fn is_usual(name: &str) -> bool {
    USUAL.iter().any(|known| is_one(name.as_bytes(), known))
}

/// Whether Maitred itself writes a field of this name, in whatever spelling.
pub fn is_told(name: &str) -> bool {
    TOLD.iter().any(|told| is_one(name.as_bytes(), told))
}

/// By the first byte, of names that begin with `x-` by the third.
type Places = [Vec<(&'static str, Claim)>; 256];

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let mut places: Places = std::array::from_fn(|_| Vec::new());
    for (claim, names) in FAMILIES {
        for name in names {
            if let Some(place) = place(name.as_bytes()).and_then(|place| places.get_mut(place)) {
                place.push((*name, claim));
            }
        }
    }
    // What names more decides.
    places
        .iter_mut()
        .for_each(|place| place.sort_by_key(|(name, _)| (name.ends_with('*'), usize::MAX - name.len())));
    places
});

fn place(name: &[u8]) -> Option<usize> {
    let (byte, further) = match name {
        [b'x' | b'X', b'-' | b'_' | b'.', third, ..] => (third, 128),
        [first, ..] => (first, 0),
        [] => return None,
    };
    Some(usize::from(byte.to_ascii_lowercase() & 0x7f) + further)
}

/// What a field of this name claims, letter case and the difference of `_`, `.` and `-` aside; `None` if it is a client's own.
pub fn claim(name: &str) -> Option<Claim> {
    let bytes = name.as_bytes();
    let known = PLACES.get(place(bytes)?)?.iter().find(|(known, _)| is_one(bytes, known));
    known.map(|(_, claim)| *claim)
}

/// Whether a name is this one, which is in small letters, or begins with it if that has `*` at its end; likewise.
pub fn is_one(name: &[u8], known: &str) -> bool {
    match known.as_bytes() {
        [start @ .., b'*'] => starts_alike(name, start),
        known => name.len() == known.len() && starts_alike(name, known),
    }
}

/// Whether `name` starts with `known`, letter case and the difference of `_`, `.` and `-` aside.
pub fn starts_alike(name: &[u8], known: &[u8]) -> bool {
    let plain = |byte: u8| if matches!(byte, b'_' | b'.') { b'-' } else { byte };
    let alike = |(byte, known): (&u8, &u8)| plain(byte.to_ascii_lowercase()) == plain(*known);
    name.len() >= known.len() && name.iter().zip(known).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxies_say_is_known_in_all_spellings() {
        for (name, expected) in [
            ("X-Remote-User", Claim::User),
            ("x_remote_user", Claim::User),
            ("X.Remote-User", Claim::User),
            ("Remote-User", Claim::User),
            ("REMOTE_ADDR", Claim::User),
            ("x-original-url", Claim::Target),
            ("X-Original-Method", Claim::Past),
            ("X-Rewrite-URL", Claim::Target),
            ("Front-End-Https", Claim::Scheme),
            ("X-Scheme", Claim::Scheme),
            ("x-url-scheme", Claim::Scheme),
            ("True-Client-IP", Claim::Address),
            ("X-Client-IP", Claim::Address),
            ("ssl-client-cert", Claim::Certificate),
            ("SSL_CLIENT_VERIFY", Claim::Certificate),
            ("X-SSL-Client-Verify", Claim::Certificate),
            ("Client-Cert", Claim::Certificate),
            ("X-Client-Cert-Chain", Claim::Certificate),
            ("X-TLS-Client-Cert", Claim::Certificate),
            ("X-Forwarded-Client-Cert", Claim::Certificate),
            ("CF-Connecting-IPv6", Claim::Address),
            ("x-middleware-subrequest", Claim::Internal),
            ("X-Accel-Mapping", Claim::Internal),
            ("X-Consumer-Username", Claim::User),
            ("X_Consumer.Custom-ID", Claim::User),
            ("OIDC_CLAIM_sub", Claim::User),
            ("OIDC-CLAIM-email", Claim::User),
            ("WL-Proxy-Client-IP", Claim::Address),
            ("Proxy-Client-IP", Claim::Address),
            ("iv-user", Claim::User),
            ("IV_GROUPS", Claim::User),
            ("SM_USER", Claim::User),
            ("X-Vouch-User", Claim::User),
            ("X-Pomerium-Jwt-Assertion", Claim::User),
            ("X-Matched-Path", Claim::Target),
            ("x-invoke-path", Claim::Target),
            ("X-Amzn-Oidc-Data", Claim::User),
            ("X-Goog-Authenticated-User-Email", Claim::User),
            ("X-Goog-IAP-JWT-Assertion", Claim::User),
            ("Tailscale-User-Login", Claim::User),
            ("X-Auth-Request-Email", Claim::User),
            ("X-Forwarded-For", Claim::Address),
            ("X_Forwarded_For", Claim::Address),
            ("X-Forwarded-Proto", Claim::Scheme),
            ("X-Forwarded-Port", Claim::Past),
            ("X-Forwarded-User", Claim::User),
            ("Forwarded", Claim::Past),
            ("X-Real-IP", Claim::Address),
            ("$WSRU", Claim::User),
            ("!~Passenger-Client-Address", Claim::Internal),
        ] {
            assert_eq!(claim(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_clients_say_is_not() {
        for name in [
            "",
            "x",
            "X-",
            "é",
            "X-é",
            "Accept",
            "Cookie",
            "Content-Type",
            "Range",
            "Referer",
            "Sec-Fetch-Site",
            "Sec-WebSocket-Key",
            "TE",
            "Cache-Control",
            "X-Requested-With",
            "X-CSRF-Token",
            "X-Api-Key",
            "X-HTTP-Method-Override",
            "X-User-Agent",
            "X-User-Id",
            "X-Auth-Token",
            "X-Access-Token",
            "X-Middleware-Prefetch",
            "X-Goog-Api-Key",
            "X-Client-Data",
            "X-Client-Version",
            "X-B3-TraceId",
            "CF-Access-Client-Id",
            "Fastly-Key",
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
            "Proxy-Authorization",
        ] {
            assert_eq!(claim(name), None, "{name}");
        }
    }

    #[test]
    fn what_this_server_says_is_claimed_by_others_too() {
        for told in TOLD {
            let name = told.replace('*', "for");
            assert!(is_told(&name) && claim(&name).is_some(), "{name}");
        }
        assert!(is_told("X_Real_IP") && !is_told("X-Real-Port") && !is_told("X-Remote-User"));
    }

    /// Otherwise a comparison would not find them.
    #[test]
    fn the_lists_are_in_small_letters_and_name_each_once() {
        let all: Vec<&str> = FAMILIES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for name in &all {
            let text = name.strip_suffix('*').unwrap_or(name);
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-$!~".contains(&byte);
            assert!(!text.is_empty() && text.bytes().all(plain), "{name}");
            assert_eq!(all.iter().filter(|other| other == &name).count(), 1, "{name}");
            assert!(claim(&name.replace('*', "z")).is_some(), "{name}");
        }
    }
}
