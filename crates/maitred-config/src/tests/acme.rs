//! Automatic certificates: what `[acme]` means, and which sites can have one.

use super::*;

const SITE: &str = "[[listen]]\naddress = \":80\"\n[[site]]\nroot = \"www\"\nacme = true\n";

fn with_site(hosts: &str, acme: &str) -> String {
    format!("{SITE}hosts = {hosts}\n{acme}")
}

#[test]
fn a_short_table_has_the_usual_defaults() {
    let config = good(&with_site("[\"a.example\"]", "[acme]\nagree = true\n"));
    let acme = config.acme.unwrap();
    assert!(config.sites[0].acme);
    assert_eq!(acme.authorities.len(), 1);
    let first = &acme.authorities[0];
    assert_eq!(first.directory, "https://acme-v02.api.letsencrypt.org/directory");
    assert_eq!((acme.challenge, acme.key), (ChallengeChoice::Auto, KeyType::P256));
    assert_eq!(acme.retry.as_secs(), 120);
    assert_eq!((&first.ca_file, &first.profile, &first.external_account), (&None, &None, &None));
    assert_eq!(config.server.state, Path::new("/var/lib/maitred"));
}

#[test]
fn every_key_is_read() {
    let config = good(&with_site(
        "[\"a.example\", \"b.example\"]",
        "[acme]\nagree = true\ncontact = [\"me@a.example\"]\ndirectory = \"https://ca.example:14000/dir\"\n\
         challenge = \"tls-alpn-01\"\nkey = \"rsa2048\"\nuser = \"app\"\nprofile = \"short\"\nca_file = \"ca.pem\"\nretry = \"5s\"\n\
         external_account = { key_id = \"k\", hmac_key_file = \"k.key\" }\n[server]\nstate = \"state\"\n",
    ));
    let acme = config.acme.unwrap();
    assert_eq!(acme.contact, ["me@a.example"]);
    assert_eq!((acme.challenge, acme.key), (ChallengeChoice::TlsAlpn01, KeyType::Rsa2048));
    assert_eq!(acme.user.map(|user| user.uid), Some(1001));
    let first = &acme.authorities[0];
    assert_eq!(first.profile.as_deref(), Some("short"));
    assert_eq!(first.ca_file.as_deref(), Some(Path::new("/etc/maitred/ca.pem")));
    let external = first.external_account.as_ref().unwrap();
    assert_eq!(
        (external.key_id.as_str(), external.hmac_key_file.as_path()),
        ("k", Path::new("/etc/maitred/k.key"))
    );
    assert_eq!(config.server.state, Path::new("/etc/maitred/state"));
}

#[test]
fn names_that_cannot_be_proved_are_refused_with_the_reason() {
    let agree = "[acme]\nagree = true\n";
    let found = brief(&with_site("[\"*.a.example\", \"a.example\", \"127.0.0.1\", \"[::1]\"]", agree));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[0].starts_with("6:10 \"*.a.example\" cannot have an automatic certificate: a wildcard takes a proof in the DNS (DNS-01) | add [[acme.dns]]"),
        "{found:#?}"
    );
    assert!(found[1].contains("\"127.0.0.1\" cannot") && found[2].contains("\"[::1]\" cannot"));
    let many: Vec<String> = (0..101).map(|number| format!("\"a{number}.example\"")).collect();
    let found = brief(&with_site(&format!("[{}]", many.join(", ")), agree));
    assert!(found[0].contains("at most 100 names"), "{found:?}");
    let found = brief(&format!("{SITE}{agree}"));
    assert!(found[0].contains("without `hosts`"), "{found:?}");
}

#[test]
fn nothing_is_agreed_to_by_accident() {
    let hosts = "[\"a.example\"]";
    let found = brief(&with_site(hosts, ""));
    assert_eq!(
        found,
        ["5:8 `acme` takes a table [acme] | add [acme] with agree = true and contact = [\"…\"]"]
    );
    for lines in ["[acme]\n", "[acme]\nagree = false\n"] {
        let found = brief(&with_site(hosts, lines));
        assert!(found[0].contains("terms of service are not agreed to"), "{found:?}");
    }
}

#[test]
fn addresses_of_people_and_authorities_are_checked() {
    let acme = |line: &str| brief(&with_site("[\"a.example\"]", &format!("[acme]\nagree = true\n{line}\n")));
    for url in ["http://ca.example/dir", "ca.example", "https://", "https:///dir", "https://a b/"] {
        let found = acme(&format!("directory = \"{url}\""));
        assert!(found[0].contains("is not the URL of an authority"), "{url}: {found:?}");
    }
    for address in ["mailto:me@a.example", "me", "me@", "@a.example", "a@b@c", "a b@c", "a@c,b@c"] {
        let found = acme(&format!("contact = [\"{address}\"]"));
        assert!(found[0].contains("is not an e-mail address"), "{address}: {found:?}");
    }
    assert!(acme("external_account = { key_id = \"k\" }")[0].contains("hmac_key_file"));
    assert!(acme("retry = \"10ms\"")[0].contains("retry"));
}

#[test]
fn records_for_wildcards_are_made_in_one_way_for_each_name() {
    let with = |hosts: &str, dns: &str| with_site(hosts, &format!("[acme]\nagree = true\n{dns}"));
    let update = "[[acme.dns]]\ndomains = [\"A.example.\"]\nserver = \"2001:db8::53\"\nkey_file = \"k\"\nzone = \"a.example\"\n";
    let both = format!(
        "{update}[[acme.dns]]\nhook = [\"/bin/hook\"]\nenv_inherit = [\"DNS_*\"]\ncheck = [\"192.0.2.1\", \"192.0.2.1:54\"]\n"
    );
    let config = good(&with("[\"*.a.example\", \"*.b.example\"]", &both));
    let acme = config.acme.unwrap();
    let DnsBy::Update(found) = &acme.dns_for("*.a.example").unwrap().by else { panic!("{acme:?}") };
    assert_eq!(found.server, "[2001:db8::53]:53".parse().unwrap());
    assert_eq!((found.zone.as_deref(), found.key_file.to_str()), (Some("a.example"), Some("/etc/maitred/k")));
    assert_eq!((found.ttl, found.algorithm), (60, TsigAlgorithm::HmacSha256));
    let other = acme.dns_for("ba.example").unwrap();
    let (command, env_inherit) = (vec!["/bin/hook".to_owned()], vec!["DNS_*".to_owned()]);
    assert_eq!(other.by, DnsBy::Hook(DnsHook { command, env_inherit }));
    assert_eq!(other.check, ["192.0.2.1:53".parse().unwrap(), "192.0.2.1:54".parse().unwrap()]);
    let file = |path: &str| Certificate::Automatic(Path::new("/var/lib/maitred/certificates").join(path));
    assert_eq!(config.sites[0].certificates, [file("_.a.example.pem")]);
    for (dns, why) in [
        (update, "\"*.b.example\" cannot have an automatic certificate: no [[acme.dns]] covers it"),
        ("[[acme.dns]]\n", "makes no records"),
        ("[[acme.dns]]\nserver = \"192.0.2.1\"\n", "needs a `key_file`"),
        ("[[acme.dns]]\nserver = \"ns.example\"\nkey_file = \"k\"\n", "is not the address of a name server"),
        ("[[acme.dns]]\nserver = \"192.0.2.1:0\"\nkey_file = \"k\"\n", "is not the address of a name server"),
        ("[[acme.dns]]\nserver = \"192.0.2.1\"\nkey_file = \"k\"\nhook = [\"/h\"]\n", "exclude one another"),
        ("[[acme.dns]]\nhook = [\"/h\"]\nttl = 5\n", "`ttl` has no meaning with `hook`"),
        ("[[acme.dns]]\nhook = []\n", "`hook` is empty"),
        ("[[acme.dns]]\nhook = [\"dns-hook\"]\n", "is not the path of a program"),
        ("[[acme.dns]]\nhook = [\"/h\"]\ndomains = [\"a b\"]\n", "is not a name"),
        ("[[acme.dns]]\nhook = [\"/h\"]\ndomains = [\"a..b\"]\n", "is not a name"),
    ] {
        let found = brief(&with("[\"a.example\", \"*.b.example\"]", dns));
        assert!(found.iter().any(|line| line.contains(why)), "{dns}: {found:?}");
    }
    let found = brief(&with("[\"a.example\"]", "challenge = \"dns-01\"\n"));
    assert!(found[0].contains("needs [[acme.dns]]"), "{found:?}");
}

#[test]
fn sites_on_demand_take_a_service_that_is_asked() {
    let start = "[[listen]]\naddress = \":80\"\n[[listen]]\naddress = \":443\"\ntls = {}\n";
    let with = |site: &str, acme: &str| {
        format!("{start}[[site]]\nroot = \"www\"\nacme = \"on-demand\"\n{site}\n[acme]\nagree = true\n{acme}")
    };
    let ask =
        "on_demand = { ask = \"http://127.0.0.1:9000/allowed?k=1\", names_max = 7, refused_time = \"9s\" }";
    let other = "[[site]]\nhosts = [\"own.a.example\", \"*.b.a.example\"]\nroot = \"www\"\n";
    let config = good(&with(&format!("hosts = [\"*.a.example\"]\n{other}"), ask));
    let site = &config.sites[0];
    assert!(site.on_demand && !site.acme && site.certificates.is_empty());
    assert_eq!(config.on_demand_names_max(), Some(7));
    for (name, is) in [
        ("x.a.example", true),
        ("b.a.example", true),
        ("own.a.example", false),
        ("x.b.a.example", false),
        ("a.example", false),
        ("x.c.example", false),
    ] {
        assert_eq!(config.is_on_demand(name), is, "{name}");
    }
    let on_demand = config.acme.unwrap().on_demand.unwrap();
    assert_eq!((on_demand.orders_per_minute_max, on_demand.refused_time.as_secs()), (10, 9));
    assert!(good(&with("", ask)).is_on_demand("x.c.example"), "a site without hosts has all other names");
    for (acme, why) in [
        ("", "takes `on_demand` in [acme]"),
        ("on_demand = {}", "ask"),
        ("on_demand = { ask = \"https://a.example/\" }", "is not the URL of a service"),
        ("on_demand = { ask = \"http:///x\" }", "is not the URL of a service"),
        ("on_demand = { ask = \"http://a/\", names_max = 0 }", "names_max"),
    ] {
        let found = brief(&with("", acme));
        assert!(found.iter().any(|line| line.contains(why)), "{acme}: {found:?}");
    }
    let none = brief("[[listen]]\naddress = \":80\"\n[[site]]\nroot = \"www\"\nacme = \"on-demand\"\n");
    assert!(none[0].contains("takes `on_demand` in [acme]"), "{none:?}");
    let own = "certificates = [{ certificate = \"a.pem\", key = \"a.key\" }]";
    let found = brief(&with(own, ask));
    assert!(found.iter().any(|line| line.contains("has none on demand")), "{found:?}");
}

#[test]
fn authorities_have_an_order_and_are_named_once() {
    let with = |lines: &str| {
        with_site("[\"a.example\"]", &format!("[acme]\nagree = true\nprofile = \"p\"\n{lines}"))
    };
    let other = "[[acme.fallback]]\ndirectory = \"https://b.example/\"\nca_file = \"b.pem\"\n";
    let config = good(&with(&format!("fallback_after = 2\n{other}")));
    let acme = config.acme.unwrap();
    let [first, second] = &acme.authorities[..] else { panic!("{acme:?}") };
    assert_eq!((first.profile.as_deref(), second.profile.as_deref()), (Some("p"), None));
    assert_eq!((second.directory.as_str(), acme.fallback_after), ("https://b.example/", 2));
    let found = brief(&with(&format!("{other}{other}")));
    assert!(found[0].contains("is tried already"), "{found:?}");
    assert!(brief(&with("[[acme.fallback]]\n"))[0].contains("directory"));
    assert!(
        brief(&with("[[acme.fallback]]\ndirectory = \"http://b/\"\n"))[0].contains("URL of an authority")
    );
}

#[test]
fn the_examples_of_the_document_are_good() {
    let document = include_str!("../../../../docs/acme.md");
    let examples: Vec<&str> =
        document.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        let config = good(example);
        let site = &config.sites[0];
        assert!(config.acme.is_some() && (site.acme || site.on_demand));
        assert_eq!(site.certificates.len(), usize::from(site.acme));
    }
}
