//! Handshakes in memory: which certificate, which protocol, what can be resumed, which clients are admitted.

use std::path::Path;

use maitred_sys::memfile;
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ClientConfig, SignatureScheme as S};

use super::*;
use crate::client::Identity;
use crate::quic::secrets::Secret;
use crate::tickets::Seed;
use maitred_testing::{Authority, Session, config, connect, write};

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

struct Stage {
    dir: tempfile::TempDir,
    authority: Authority,
    seed: Seed,
}

impl Stage {
    fn new() -> Stage {
        let now = rustls::pki_types::UnixTime::now().as_secs();
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage { dir, authority: Authority::new("Test"), seed: Seed::new(now).unwrap() };
        std::fs::write(stage.path("ca.pem"), &stage.authority.pem).unwrap();
        stage
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn make(&self, file: &str, names: &[&str], algorithm: &'static SignatureAlgorithm) {
        write(self.dir.path(), file, &self.authority.sign(names, algorithm));
    }

    fn material(&self, config: &Config) -> Material {
        let made = Material::load(config, None, self.seed.clone(), Secret::new().unwrap()).unwrap();
        // As a worker process gets it.
        Material::open(made.seal().unwrap()).unwrap()
    }

    /// A server with these listeners and sites.
    fn server(&self, text: &str) -> TlsServer {
        let config = config(self.dir.path(), text);
        TlsServer::new(&config, &self.material(&config), Vec::new()).unwrap()
    }

    /// A server with a certificate for localhost, and these keys of `tls`.
    fn simple(&self, keys: &str) -> TlsServer {
        self.make("simple", &["localhost"], &PKCS_ECDSA_P256_SHA256);
        self.server(&format!("{}[[site]]\nroot = \".\"\n{}", listen(keys), certificate("simple")))
    }

    fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
        Arc::new(self.authority.client(versions, None))
    }
}

fn listen(keys: &str) -> String {
    format!("listen = [{{ address = \":1\", tls = {{ {keys} }} }}]\n")
}

fn certificate(file: &str) -> String {
    format!("certificates = [{{ certificate = \"{file}.pem\", key = \"{file}-key.pem\" }}]\n")
}

fn session(client: &Arc<ClientConfig>, server: &TlsServer) -> Session {
    connect(client, server.config(0).unwrap(), "localhost").unwrap()
}

#[test]
fn the_name_decides_which_certificate_a_client_gets() {
    let stage = Stage::new();
    for (file, names) in [
        ("first", &["first.example", "localhost"][..]),
        ("exact", &["a.example.com"]),
        ("wild", &["*.example.com"]),
        ("deep", &["*.b.example.com"]),
    ] {
        stage.make(file, names, &PKCS_ECDSA_P256_SHA256);
    }
    let site = |hosts: &str, file: &str| {
        format!("[[site]]\nroot = \".\"\nhosts = [\"{hosts}\"]\n{}", certificate(file))
    };
    let server = stage.server(
        &[
            listen(""),
            // Without a certificate: it shares those of the first that has some.
            "[[site]]\nroot = \".\"\nhosts = [\"localhost\"]\n".into(),
            site("first.example", "first"),
            site("*.example.com", "wild"),
            site("a.example.com", "exact"),
            site("*.b.example.com", "deep"),
        ]
        .concat(),
    );
    let client = stage.client(&BOTH);
    for (asked, shown) in [
        ("a.example.com", "a.example.com"),
        ("c.example.com", "*.example.com"),
        ("x.b.example.com", "*.b.example.com"),
        ("first.example", "first.example"),
        ("LOCALHOST", "first.example"),
    ] {
        let session = connect(&client, server.config(0).unwrap(), asked).unwrap();
        assert_eq!(session.names()[0], shown, "{asked}");
    }
    let resolver = Resolver::new(
        server.config.as_ref().unwrap(),
        &stage.material(server.config.as_ref().unwrap()),
        &Arc::default(),
    );
    let resolver = resolver.unwrap();
    let schemes = [S::ECDSA_NISTP256_SHA256];
    for name in [None, Some("no.such.name"), Some("example.com")] {
        let chosen = resolver.choose(0, name, &schemes).unwrap();
        assert_eq!(names(&chosen.cert[0])[0], "first.example", "{name:?}");
    }
}

#[test]
fn a_site_of_another_listener_shows_no_certificate() {
    let stage = Stage::new();
    for (file, name) in
        [("public", "public.example"), ("internal", "internal.example"), ("own", "both.example")]
    {
        stage.make(file, &[name], &PKCS_ECDSA_P256_SHA256);
    }
    let site = |host: &str, listen: &str, file: &str| {
        format!(
            "[[site]]\nroot = \".\"\nhosts = [\"{host}\"]\nlisten = \"{listen}\"\n\
             certificates = [{{ certificate = \"{file}.pem\", key = \"{file}-key.pem\" }}]\n"
        )
    };
    let at =
        |name: &str, port: u16| format!("[[listen]]\nname = \"{name}\"\naddress = \":{port}\"\ntls = {{}}\n");
    let text = at("outside", 1)
        + &at("inside", 2)
        + &site("public.example", "outside", "public")
        + &site("internal.example", "inside", "internal")
        + &site("both.example", "outside", "public")
        + &site("both.example", "inside", "own");
    let server = stage.server(&text);
    let config = server.config.as_ref().unwrap();
    let resolver = Resolver::new(config, &stage.material(config), &Arc::default()).unwrap();
    for (listener, name, expected) in [
        (0, Some("public.example"), "public.example"),
        (0, Some("internal.example"), "public.example"),
        (0, Some("both.example"), "public.example"),
        (0, None, "public.example"),
        (1, Some("internal.example"), "internal.example"),
        (1, Some("public.example"), "internal.example"),
        (1, Some("both.example"), "both.example"),
        (1, Some("no.such.name"), "internal.example"),
    ] {
        let chosen = resolver.choose(listener, name, &[S::ECDSA_NISTP256_SHA256]).unwrap();
        assert_eq!(names(&chosen.cert[0])[0], expected, "{listener} {name:?}");
    }
}

fn names(der: &CertificateDer<'_>) -> Vec<String> {
    maitred_base::pki::files::Leaf::read(der).unwrap().names
}

#[test]
fn the_signatures_that_a_client_knows_decide_between_keys() {
    let stage = Stage::new();
    stage.make("rsa", &["localhost", "rsa"], &PKCS_RSA_SHA256);
    stage.make("ecdsa", &["localhost", "ecdsa"], &PKCS_ECDSA_P256_SHA256);
    stage.make("ed25519", &["localhost", "ed25519"], &PKCS_ED25519);
    let entry = |file: &str| format!("{{ certificate = \"{file}.pem\", key = \"{file}-key.pem\" }}");
    let all = [entry("rsa"), entry("ecdsa"), entry("ed25519")].join(", ");
    let server = stage.server(&format!("{}[[site]]\nroot = \".\"\ncertificates = [{all}]\n", listen("")));
    let config = server.config.as_ref().unwrap();
    let resolver = Resolver::new(config, &stage.material(config), &Arc::default()).unwrap();
    for (schemes, expected) in [
        (&[S::RSA_PSS_SHA256, S::ECDSA_NISTP256_SHA256, S::ED25519][..], Some("ecdsa")),
        (&[S::RSA_PSS_SHA256, S::ED25519], Some("ed25519")),
        (&[S::RSA_PSS_SHA256], Some("rsa")),
        (&[S::ECDSA_NISTP384_SHA384], None),
    ] {
        let chosen = resolver.choose(0, Some("localhost"), schemes);
        let name = chosen.map(|chosen| names(&chosen.cert[0])[1].clone());
        assert_eq!(name.as_deref(), expected, "{schemes:?}");
    }
    // TLS 1.2 says by its suites which keys it knows.
    let mut provider = (**maitred_base::pki::provider()).clone();
    provider
        .cipher_suites
        .retain(|suite| suite.suite() == CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);
    let base = stage.authority.client(&[&TLS12], None);
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(maitred_base::pki::files::certificates(stage.authority.pem.as_bytes()).unwrap().remove(0))
        .unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    assert_eq!(session(&Arc::new(client), &server).names()[1], "rsa");
    assert_eq!(session(&Arc::new(base), &server).names()[1], "ecdsa");
}

#[test]
fn protocols_are_agreed_on() {
    let stage = Stage::new();
    stage.make("a", &["localhost"], &PKCS_ECDSA_P256_SHA256);
    for (http2, offered, agreed) in [
        (true, &["http/1.1", "h2"][..], Some("h2")),
        (false, &["http/1.1", "h2"], Some("http/1.1")),
        (true, &["http/1.1"], Some("http/1.1")),
        (true, &[], None),
    ] {
        let listen = format!("listen = [{{ address = \":1\", tls = {{}}, http2 = {http2} }}]\n");
        let server = stage.server(&format!("{listen}[[site]]\nroot = \".\"\n{}", certificate("a")));
        let mut client = stage.authority.client(&BOTH, None);
        client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let session = session(&Arc::new(client), &server);
        assert_eq!(session.server.alpn_protocol(), agreed.map(str::as_bytes), "{http2} {offered:?}");
    }
}

#[test]
fn versions_that_are_left_out_are_not_spoken() {
    let stage = Stage::new();
    for (versions, spoken, refused) in [("\"1.2\"", &TLS12, &TLS13), ("\"1.3\"", &TLS13, &TLS12)] {
        let server = stage.simple(&format!("versions = [{versions}]"));
        let session = session(&stage.client(&[spoken]), &server);
        assert_eq!(session.server.protocol_version(), Some(spoken.version));
        let other = connect(&stage.client(&[refused]), server.config(0).unwrap(), "localhost");
        assert!(other.is_err(), "{versions}");
    }
}

#[test]
fn sessions_are_resumed_by_the_next_generation_too() {
    let stage = Stage::new();
    for version in BOTH {
        let client = stage.client(&[version]);
        let (first, second) = (stage.simple(""), stage.simple(""));
        assert!(!session(&client, &first).resumed());
        assert!(session(&client, &first).resumed(), "{version:?}");
        assert!(session(&client, &second).resumed(), "{version:?}, another process with the same seed");
        let config = first.config.as_ref().unwrap();
        let material = Material { tickets: Stage::new().seed, ..stage.material(config) };
        let stranger = TlsServer::new(config, &material, Vec::new()).unwrap();
        assert!(!session(&client, &stranger).resumed(), "{version:?}, another master");
    }
}

#[test]
fn without_tickets_nothing_is_resumed() {
    let stage = Stage::new();
    for version in BOTH {
        let client = stage.client(&[version]);
        let server = stage.simple("tickets = false");
        assert!(!session(&client, &server).resumed());
        assert!(!session(&client, &server).resumed(), "{version:?}");
    }
    // Nor by a session id, for clients of TLS 1.2 without tickets.
    let mut client = stage.authority.client(&[&TLS12], None);
    client.resumption =
        Resumption::in_memory_sessions(8).tls12_resumption(rustls::client::Tls12Resumption::SessionIdOnly);
    let (client, server) = (Arc::new(client), stage.simple("tickets = false"));
    session(&client, &server);
    assert!(!session(&client, &server).resumed());
}

#[test]
fn early_data_is_taken_once() {
    let stage = Stage::new();
    let mut client = stage.authority.client(&[&TLS13], None);
    client.enable_early_data = true;
    let client = Arc::new(client);
    let server = stage.simple("early_data = true");
    assert_eq!(server.config(0).unwrap().max_early_data_size, SKIPPED_BYTES_MAX);
    session(&client, &server);
    assert!(session(&client, &server).resumed());
    // Sessions stay valid over new certificates, and are those of this process only.
    server.replace(&stage.material(server.config.as_ref().unwrap())).unwrap();
    assert!(session(&client, &server).resumed());
    assert!(!session(&client, &stage.simple("early_data = true")).resumed());
    assert_eq!(stage.simple("").config(0).unwrap().max_early_data_size, 0, "off by default");
}

#[test]
fn clients_with_certificates_are_known_and_others_are_let_in_or_not() {
    let stage = Stage::new();
    let own = stage.authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256);
    let foreign = Authority::new("Foreign").sign(&["mallory"], &PKCS_ECDSA_P256_SHA256);
    for version in BOTH {
        let with = |made| Arc::new(stage.authority.client(&[version], made));
        for (keys, anonymous, known) in [
            ("", true, false),
            ("client_auth = \"optional\", client_ca = \"ca.pem\"", true, true),
            ("client_auth = \"required\", client_ca = \"ca.pem\"", false, true),
        ] {
            let server = stage.simple(keys);
            let connect = |client| connect(&client, server.config(0).unwrap(), "localhost");
            assert_eq!(connect(with(None)).is_ok(), anonymous, "{keys} {version:?}");
            let session = connect(with(Some(&own))).unwrap();
            assert_eq!(Identity::of(&session.server).is_some(), known, "{keys} {version:?}");
            assert_eq!(connect(with(Some(&foreign))).is_err(), known, "{keys} {version:?}");
        }
    }
}

/// A ticket of a listener that asks for no certificate must not open one that does, and a certificate stays known when a
/// session is resumed.
#[test]
fn a_ticket_carries_nobody_past_a_check_of_certificates() {
    let stage = Stage::new();
    let own = stage.authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256);
    let required = "client_auth = \"required\", client_ca = \"ca.pem\"";
    for version in BOTH {
        let (open, closed) = (stage.simple(""), stage.simple(required));
        let client = stage.client(&[version]);
        session(&client, &open);
        assert!(connect(&client, closed.config(0).unwrap(), "localhost").is_err(), "{version:?}");

        let alice = Arc::new(stage.authority.client(&[version], Some(&own)));
        session(&alice, &closed);
        let again = session(&alice, &closed);
        assert!(again.resumed() && Identity::of(&again.server).is_some(), "{version:?}");
        // With other authorities, each client has to show a certificate again.
        std::fs::write(
            stage.path("ca.pem"),
            [&stage.authority.pem[..], &Authority::new("More").pem].concat(),
        )
        .unwrap();
        assert!(!session(&alice, &stage.simple(required)).resumed(), "{version:?}");
        std::fs::write(stage.path("ca.pem"), &stage.authority.pem).unwrap();
    }
}

#[test]
fn new_certificates_are_for_the_next_session_and_bad_ones_for_none() {
    let stage = Stage::new();
    let server = stage.simple("");
    let client = stage.client(&BOTH);
    assert_eq!(session(&client, &server).names(), ["localhost"]);
    let before = server.config(0).unwrap();
    stage.make("simple", &["localhost", "new"], &PKCS_ECDSA_P256_SHA256);
    let mut material = stage.material(server.config.as_ref().unwrap());
    server.replace(&material).unwrap();
    let fresh = stage.client(&BOTH);
    assert_eq!(session(&fresh, &server).names(), ["localhost", "new"]);
    assert_eq!(connect(&stage.client(&BOTH), before, "localhost").unwrap().names(), ["localhost"]);
    material.sites[0][0].key = Bytes(vec![0x30, 0]);
    assert!(server.replace(&material).is_err());
    assert_eq!(session(&stage.client(&BOTH), &server).names(), ["localhost", "new"]);
}

#[test]
fn a_challenge_is_answered_by_its_name_and_protocol() {
    let stage = Stage::new();
    let server = stage.simple("");
    let mut material = stage.material(server.config.as_ref().unwrap());
    let mut client = stage.authority.client(&BOTH, None);
    client.alpn_protocols = vec![ACME_TLS.to_vec()];
    let client = Arc::new(client);
    let asked = |name: &str| connect(&client, server.config(0).unwrap(), name);
    assert!(asked("localhost").is_err(), "nothing is being challenged");
    stage.make("challenge", &["localhost", "challenge"], &PKCS_ECDSA_P256_SHA256);
    let read = |path: &Path| maitred_base::pki::files::read(path);
    let (pair, _) = maitred_base::pki::files::load(
        &stage.path("challenge.pem"),
        &stage.path("challenge-key.pem"),
        None,
        &read,
    )
    .unwrap();
    material.challenges.push(("LocalHost".into(), pair));
    server.replace(&material).unwrap();
    let session = asked("localhost").unwrap();
    assert_eq!(session.names()[1], "challenge");
    assert_eq!(session.server.alpn_protocol(), Some(ACME_TLS));
    assert!(asked("other").is_err());
    assert_eq!(self::session(&stage.client(&BOTH), &server).names(), ["localhost"], "for all others");
}

#[test]
fn material_that_is_none_is_refused_and_keys_are_not_shown() {
    let stage = Stage::new();
    let server = stage.simple("");
    let material = stage.material(server.config.as_ref().unwrap());
    let shown = format!("{material:?}");
    let key = &material.sites[0][0].key.0;
    let secret = [format!("{key:?}"), maitred_base::pki::hex(key)];
    assert!(shown.contains(" bytes") && !secret.iter().any(|text| shown.contains(text)), "{shown}");
    for text in [&b""[..], b"{}", b"\xff"] {
        let file = memfile::sealed("test", text).unwrap();
        let refused = Material::open(file).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    }
}

#[test]
fn session_secrets_are_written_only_where_they_are_asked_for() {
    let stage = Stage::new();
    stage.make("simple", &["localhost"], &PKCS_ECDSA_P256_SHA256);
    let text = format!("{}[[site]]\nroot = \".\"\n{}", listen("keylog = \"keys\""), certificate("simple"));
    let config = config(stage.dir.path(), &text);
    let file = std::fs::File::create(stage.path("keys")).unwrap();
    let server = TlsServer::new(&config, &stage.material(&config), vec![(0, file.into())]).unwrap();
    session(&stage.client(&[&TLS13]), &server);
    let written = std::fs::read_to_string(stage.path("keys")).unwrap();
    let labels: Vec<_> = written.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(labels.contains(&"CLIENT_TRAFFIC_SECRET_0"), "{written}");
    assert!(written.lines().all(|line| line.split(' ').count() == 3), "{written}");
}
