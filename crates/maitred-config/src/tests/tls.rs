//! What the configuration says about TLS, and about the files that it names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

use super::*;
use maitred_testing::Authority;

/// The present time of these tests: in January 2027.
pub(super) const NOW: u64 = 1_800_000_000;

/// The files of the machine. `cert.pem` is good for example.com and the names directly below.
pub(super) static FILES: LazyLock<BTreeMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
    let authority = Authority::new("Test");
    let names = ["example.com", "*.example.com"];
    let good = authority.sign(&names, &PKCS_ECDSA_P256_SHA256);
    let other = authority.sign(&["other.example"], &PKCS_ED25519);
    let old = authority.sign_for(&names, &PKCS_ECDSA_P256_SHA256, 2020, 2026);
    let young = authority.sign_for(&names, &PKCS_ECDSA_P256_SHA256, 2028, 2040);
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let text = |text: &str| text.as_bytes().to_vec();
    BTreeMap::from([
        ("ca.pem", text(&authority.pem)),
        ("crl.pem", text(&authority.revocation_list(2040))),
        ("old-crl.pem", text(&authority.revocation_list(2026))),
        ("other-crl.pem", text(&Authority::new("Other").revocation_list(2040))),
        ("cert.pem", text(&good.certificate)),
        ("key.pem", text(&good.key)),
        ("public-key.pem", text(&good.key)),
        ("chain.pem", text(&[&good.certificate[..], &authority.pem].concat())),
        ("disorder.pem", text(&[&good.certificate[..], &other.certificate, &authority.pem].concat())),
        ("fullchain.pem", text(&good.certificate)),
        ("privkey.pem", text(&good.key)),
        ("other.pem", text(&other.certificate)),
        ("other-key.pem", text(&other.key)),
        ("old.pem", text(&old.certificate)),
        ("old-key.pem", text(&old.key)),
        ("young.pem", text(&young.certificate)),
        ("young-key.pem", text(&young.key)),
        ("encrypted.pem", text(encrypted)),
        ("text.pem", text("nothing of the kind")),
        ("cert.der", vec![0x30, 0x82]),
        ("resp.der", vec![0x30, 3, 0x0a, 1, 0]),
        ("refused.der", vec![0x30, 3, 0x0a, 1, 6]),
    ])
});

const TLS: &str = "listen = [{ address = \":443\", tls = {} }]\n";

/// A site with this certificate and key; its `certificates` stand in line 4.
fn with_files(certificate: &str, key: &str, rest: &str) -> String {
    format!(
        "{TLS}[[site]]\nroot = \"www\"\ncertificates = [{{ certificate = \"{certificate}\", key = \"{key}\"{rest} }}]\n"
    )
}

#[track_caller]
pub(super) fn warnings(text: &str) -> Vec<String> {
    match read_as(text, true) {
        Ok((_, warnings)) => warnings.iter().map(|warning| one_line(&warning.0)).collect(),
        Err(errors) => panic!("{errors}"),
    }
}

#[test]
fn the_place_of_a_bad_file_is_shown() {
    assert_eq!(
        errors(&with_files("cert.pem", "other-key.pem", "")),
        "\
error: `key`: this is not the key of the certificate
 --> maitred.toml:4:51
  |
4 | certificates = [{ certificate = \"cert.pem\", key = \"other-key.pem\" }]
  |                                                   ^^^^^^^^^^^^^^^
  = help: `certificate` begins with the site's own certificate, and those of its issuers follow

maitred.toml: 1 error
"
    );
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    for (certificate, key, rest, expected) in [
        ("none.pem", "key.pem", "", "4:33 `certificate`: there is no such file: /etc/maitred/none.pem"),
        ("cert.pem", "none.pem", "", "4:51 `key`: there is no such file: /etc/maitred/none.pem"),
        (
            "text.pem",
            "key.pem",
            "",
            "4:33 `certificate`: there is no certificate in PEM in it | it starts with -----BEGIN CERTIFICATE-----",
        ),
        (
            "cert.der",
            "key.pem",
            "",
            "4:33 `certificate`: there is no certificate in PEM in it | this looks like DER: `openssl x509 -inform der \
             -in FILE -out FILE.pem` converts it",
        ),
        (
            "cert.pem",
            "cert.pem",
            "",
            "4:51 `key`: there is no private key in PEM in it | it starts with -----BEGIN PRIVATE KEY-----, or with the \
             kind of key before PRIVATE",
        ),
        (
            "cert.pem",
            "encrypted.pem",
            "",
            "4:51 `key`: the key is encrypted with a passphrase; Maitred needs a key without one | `openssl pkey -in FILE \
             -out FILE.plain` takes it off; keep that file readable by root only",
        ),
        (
            "cert.pem",
            "key.pem",
            ", ocsp = \"text.pem\"",
            "4:69 `ocsp`: this is not an OCSP response in DER | `openssl ocsp -issuer CA.pem -cert CERT.pem -url URL \
             -respout FILE` gets one",
        ),
        (
            "cert.pem",
            "key.pem",
            ", ocsp = \"refused.der\"",
            "4:69 `ocsp`: the responder did not answer well | ask it again",
        ),
    ] {
        assert_eq!(brief(&with_files(certificate, key, rest)), [expected]);
    }
    let missing = format!("{TLS}[[site]]\nroot = \"www\"\ncertificates = [{{ key = \"key.pem\" }}]\n");
    assert_eq!(
        brief(&missing),
        ["4:17 [[site.certificates]] has no `certificate` | `certificate` takes a file"]
    );
}

#[test]
fn certificates_that_clients_will_refuse_are_warned_of() {
    assert!(warnings(&with_files("cert.pem", "key.pem", "")).is_empty());
    assert_eq!(
        warnings(&with_files("old.pem", "old-key.pem", "")),
        ["4:33 the certificate has expired 379 days ago | clients will refuse it"]
    );
    // Once, for as many sites as have it.
    let site = with_files("old.pem", "old-key.pem", "");
    let another = site.replacen(TLS, "", 1).replacen("[[site]]", "[[site]]\nhosts = [\"a.example\"]", 1);
    let said = warnings(&format!("{site}{another}"));
    assert_eq!(said.iter().filter(|line| line.contains("has expired")).count(), 1, "{said:?}");
    assert_eq!(
        warnings(&with_files("young.pem", "young-key.pem", "")),
        ["4:33 the certificate is not good yet: 350 days to go | clients will refuse it"]
    );
    assert!(warnings(&with_files("chain.pem", "key.pem", "")).is_empty());
    assert_eq!(
        warnings(&with_files("disorder.pem", "key.pem", "")),
        [
            "4:33 the certificates of this file are not in order | the site's own comes first, and each is signed by the one \
          behind it: some clients will refuse it"
        ]
    );
    assert_eq!(
        warnings(&with_files("cert.pem", "public-key.pem", "")),
        [
            "4:51 `key`: all users of this machine can read this file | `chmod 600`: only the master, which may be root, \
          reads it"
        ]
    );
    let hosts = "hosts = [\"example.com\", \"a.example.com\", \"*.example.com\", \"*.a.example.com\", \"b.example\", \"127.0.0.1\"]\n";
    assert_eq!(
        warnings(&(with_files("cert.pem", "key.pem", "") + hosts)),
        [
            "4:33 the certificate is not good for \"*.a.example.com\", \"b.example\", \"127.0.0.1\" | clients will refuse \
          it there; it is good for example.com, *.example.com"
        ]
    );
}

#[test]
fn a_site_without_certificates_is_held_against_those_of_the_default() {
    let second = "[[site]]\nroot = \"www\"\nhosts = [\"a.example.com\", \"other.example\"]\n";
    assert_eq!(
        warnings(&(with_files("cert.pem", "key.pem", "") + second)),
        [
            "5:1 over TLS, no certificate is good for \"other.example\" | this site has no `certificates`, and those of \
          the first site that has some do not name it"
        ]
    );
}

#[test]
fn listeners_and_sites_have_to_go_together() {
    let site = "[[site]]\nroot = \"www\"\n";
    assert_eq!(
        brief(&format!("{TLS}{site}")),
        [
            "1:31 `tls` needs a certificate, and no site has one | add certificates = [{ certificate = \"fullchain.pem\", \
          key = \"privkey.pem\" }] to a [[site]], or acme = true"
        ]
    );
    assert_eq!(
        brief(&format!("listen = [{{ address = \":80\", redirect_http = true }}]\n{site}")),
        [
            "1:30 `redirect_http` leads nowhere: no [[listen]] has `tls` | add [[listen]] with address = \":443\" and tls = {}"
        ]
    );
    let status = |keys: &str| {
        let cleartext = format!("{{ address = \":80\", {keys} }}, {{ address");
        with_files("cert.pem", "key.pem", "").replacen("{ address", &cleartext, 1)
    };
    let wrong = brief(&status("redirect_http = true, redirect_status = 303"));
    assert!(
        wrong[0].ends_with("303 is no status of a redirect | it takes 301, 302, 307 or 308"),
        "{wrong:?}"
    );
    assert!(warnings(&status("redirect_http = true, redirect_status = 301")).is_empty());
    let both = with_files("cert.pem", "key.pem", "").replace("tls = {}", "tls = {}, redirect_http = true");
    assert_eq!(
        brief(&both),
        [
            "1:41 an address with `tls` has nothing to redirect from | `redirect_http` belongs to an address in cleartext"
        ]
    );
    let cleartext =
        with_files("cert.pem", "key.pem", "").replace(", tls = {}", "") + "hsts = \"max-age=1\"\n";
    assert_eq!(
        warnings(&cleartext),
        [
            "4:1 `certificates` has no effect | no [[listen]] has `tls`",
            "5:1 `hsts` has no effect | no [[listen]] has `tls`",
        ]
    );
}

#[test]
fn keys_of_tls_have_to_go_together() {
    let tls = |keys: &str| {
        with_files("cert.pem", "key.pem", "").replace("tls = {}", &format!("tls = {{ {keys} }}"))
    };
    for (keys, expected) in [
        (
            "client_auth = \"required\"",
            "1:53 `client_auth` needs `client_ca`, the certificates of the trusted authorities | add client_ca = \"ca.pem\"",
        ),
        (
            "client_auth = \"optional\", client_ca = \"none.pem\"",
            "1:77 `client_ca`: there is no such file: /etc/maitred/none.pem",
        ),
        (
            "client_auth = \"optional\", client_ca = \"key.pem\"",
            "1:77 `client_ca`: there is no certificate in PEM in it | it starts with -----BEGIN CERTIFICATE-----",
        ),
        (
            "client_auth = \"optional\", client_ca = \"ca.pem\", client_crl = \"ca.pem\"",
            "1:100 `client_crl`: there is no revocation list in PEM in it | it starts with -----BEGIN X509 CRL-----",
        ),
        (
            "versions = []",
            "1:50 `versions` is empty, so that no client could connect | name one, or take it out",
        ),
        (
            "ciphers = [\"TLS13_AES_128_GCM_SHA256\"]",
            "1:49 `ciphers` has none of TLS 1.2, so that no client could use it | add one, or leave \"1.2\" out of \
             `versions`",
        ),
        (
            "versions = [\"1.3\"], ciphers = []",
            "1:69 `ciphers` has none of TLS 1.3, so that no client could use it | add one, or leave \"1.3\" out of \
             `versions`",
        ),
        (
            "ciphers = [\"RC4\", \"TLS13_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"]",
            "1:50 `ciphers` does not take \"RC4\" | it takes \"TLS13_AES_256_GCM_SHA384\", \"TLS13_AES_128_GCM_SHA256\", \
             \"TLS13_CHACHA20_POLY1305_SHA256\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\", \
             \"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\", \"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256\", \
             \"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\", \
             \"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\"",
        ),
        ("curves = []", "1:48 `curves` is empty, so that no client could connect | name one, or take it out"),
        (
            "curves = [\"X25519MLKEM768\"]",
            "1:48 `curves` has none of TLS 1.2, so that no client could use it | add one, or leave \"1.2\" out of \
             `versions`",
        ),
        (
            "curves = [\"X22519\", \"secp384r1\"]",
            "1:49 `curves` does not take \"X22519\" | did you mean \"X25519\"?",
        ),
        ("versions = [\"1.1\"]", "1:51 `versions` does not take \"1.1\" | did you mean \"1.2\"?"),
        (
            "early_data = true, tickets = false",
            "1:52 `early_data` comes with a resumed session, and `tickets = false` forbids those | take one of them out",
        ),
        (
            "early_data = true, versions = [\"1.2\"]",
            "1:52 `early_data` needs TLS 1.3, which `versions` leaves out | add \"1.3\" to `versions`",
        ),
    ] {
        assert_eq!(brief(&tls(keys)), [expected], "{keys}");
    }
    let required = |list: &str| {
        tls(&format!("client_auth = \"required\", client_ca = \"ca.pem\", client_crl = \"{list}\""))
    };
    assert_eq!(warnings(&required("crl.pem")), [""; 0]);
    let shut_out = "every client with a certificate of this authority is refused";
    for (list, said) in [
        ("old-crl.pem", "the revocation list of CN=Test went out of date 379 days ago"),
        ("other-crl.pem", "`client_crl` has no list of CN=Test"),
    ] {
        assert_eq!(warnings(&required(list)), [format!("1:100 {said} | {shut_out}")], "{list}");
    }
    assert_eq!(
        warnings(&tls("client_crl = \"crl.pem\"")),
        ["1:52 `client_crl` has no effect | `client_auth` is \"off\""]
    );
    assert_eq!(
        warnings(&tls(
            "versions = [\"1.2\"], ciphers = [\"TLS13_AES_128_GCM_SHA256\", \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"]"
        )),
        ["1:69 `ciphers` has some of TLS 1.3, which `versions` leaves out | they have no effect"]
    );
    assert_eq!(
        warnings(&tls("client_ca = \"ca.pem\", keylog = \"k\"")),
        [
            "1:51 `client_ca` has no effect | `client_auth` is \"off\"",
            "1:70 the secrets of all sessions of this address are written to a file | this is for debugging; any reader of \
             that file can decrypt all connections",
        ]
    );
}

#[test]
fn hsts_is_checked() {
    let hsts = |value: &str| with_files("cert.pem", "key.pem", "") + &format!("hsts = \"{value}\"\n");
    for good_one in
        ["max-age=0", "max-age=31536000; includeSubDomains; preload", "Max-Age=1;includesubdomains"]
    {
        assert!(warnings(&hsts(good_one)).is_empty(), "{good_one}");
    }
    for (value, why) in [
        ("", "it has `max-age=SECONDS`, and perhaps `includeSubDomains` and `preload`"),
        ("includeSubDomains", "`max-age` is missing: max-age=31536000 is a year"),
        ("max-age=year", "`max-age` is a number of seconds: max-age=31536000"),
        ("max-age=1; max-age=2", "`max-age` stands there twice"),
        ("max-age=1\\r\\nX-A: b", "`max-age` is a number of seconds: max-age=31536000"),
    ] {
        let found = brief(&hsts(value));
        assert!(found.len() == 1 && found[0].ends_with(&format!(" | {why}")), "{value}: {found:?}");
    }
    assert_eq!(
        warnings(&hsts("max-age=300; preload")),
        [
            "5:8 `hsts`: browsers will not take the site into their lists | `preload` needs `includeSubDomains` and a \
          `max-age` of at least 31536000"
        ]
    );
}

#[test]
fn http3_needs_an_ip_address_with_tls_1_3() {
    let with = |from: &str, to: &str| with_files("cert.pem", "key.pem", "").replace(from, to);
    let good_one = with("tls = {}", "tls = {}, http3 = true");
    assert!(warnings(&good_one).is_empty());
    for (text, expected) in [
        (with("tls = {}", "http3 = true"), vec!["`http3` needs `tls` | add tls = {}, or take `http3` out"]),
        (
            with("tls = {}", "tls = { versions = [\"1.2\"] }, http3 = true"),
            vec![
                "`http3` needs TLS 1.3, which `versions` leaves out | add \"1.3\" to `versions`, or take `http3` out",
            ],
        ),
        (
            with("tls = {}", "tls = {}, proxy_protocol = true, http3 = true"),
            vec![
                "`http3` cannot be combined with `proxy_protocol`: QUIC has no PROXY header | clients come to an address with \
                 `http3` themselves; take one of them out",
            ],
        ),
        (
            with("tls = {}", "redirect_http = true, http3 = true"),
            vec!["an address with `redirect_http` has no HTTP/3 | `http3` belongs to an address with `tls`"],
        ),
        (
            with("\":443\", tls = {}", "[\":443\", \"unix:x.sock\"], tls = {}, http3 = true"),
            vec![
                "`http3` needs IP addresses: QUIC goes over UDP | move the Unix socket to a [[listen]] of its own",
            ],
        ),
    ] {
        let found: Vec<String> = brief(&text).into_iter().filter(|line| line.contains("http3")).collect();
        let column = text.find("true }]").unwrap() + 1;
        let expected: Vec<String> = expected.iter().map(|text| format!("1:{column} {text}")).collect();
        assert_eq!(found, expected, "{text}");
    }
}
