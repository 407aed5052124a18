//! `module` of sites and routes.

use std::path::Path;
use std::time::Duration;

use super::meaning::EVERYTHING;
use super::{brief, good};
use crate::Target;

#[test]
fn modules_reach_their_meaning() {
    let config = good(EVERYTHING);
    let site = &config.sites[0];
    assert_eq!(site.modules.len(), 1);
    assert_eq!(site.modules[0].module.path, Path::new("/etc/maitred/modules/a.so"));
    let [first, second] = site.routes[3].modules.as_slice() else { panic!("{:?}", site.routes[3]) };
    assert_eq!(first.module.path, Path::new("/srv/b.so"));
    let json: serde_json::Value = serde_json::from_str(&first.module.config).unwrap();
    assert_eq!(json, serde_json::json!({ "n": 1, "list": [true, "x", 1.5] }));
    assert_eq!((first.timeout, first.body_bytes_max), (Duration::from_secs(2), 1024));
    assert_eq!(first.request_fields, ["x-user"]);
    assert_eq!((second.module.config.as_str(), second.body_bytes_max), ("{}", 64 << 10));
    assert_eq!(second.timeout, Duration::from_secs(30));
    let names: Vec<String> = config.modules().iter().map(|module| module.name()).collect();
    assert_eq!(names, ["a.so", "b.so"], "each once, in the order of the file");
}

fn with(route: &str) -> String {
    format!("[[listen]]\naddress = \":1\"\n[[site]]\nroot = \"a\"\n[[site.route]]\npath = \"/m\"\n{route}\n")
}

#[test]
fn a_route_answers_with_modules_if_it_has_nothing_else() {
    let config = good(&with("module = { path = \"a.so\" }"));
    assert_eq!(config.sites[0].routes[0].target, Target::Modules);
    let config = good(&with("module = { path = \"a.so\" }\nrespond = { body = \"x\" }"));
    assert!(matches!(config.sites[0].routes[0].target, Target::Respond { .. }));
    assert_eq!(config.sites[0].routes[0].modules.len(), 1);
}

#[test]
fn what_is_wrong_with_a_module_is_said() {
    let cases = [
        ("module = \"a.so\"", "`module`: expected a table or an array of tables, found a string"),
        ("module = { config = { a = 1 } }", "`module` has no `path`"),
        ("module = { path = \"a.so\", config = 3 }", "`config`: expected a table, found a whole number"),
        ("module = { path = \"a.so\", body_bytes_max = \"1GB\" }", "`body_bytes_max` is out of range"),
        (
            "module = { path = \"a.so\", request_fields = [\"a b\"] }",
            "\"a b\" cannot be the name of a header field",
        ),
        ("module = { path = \"a.so\", request_fields = [\"X-Forwarded-For\"] }", "says who the client is"),
        ("module = { path = \"a.so\" }\nreroute = \"/x\"", "`module` goes with"),
    ];
    for (route, wanted) in cases {
        let found = brief(&with(route));
        assert!(found.iter().any(|line| line.contains(wanted)), "{route}: {found:?}");
    }
}

#[test]
fn there_are_not_too_many_modules() {
    let text = |number: usize| {
        let uses: Vec<String> =
            (0..number).map(|n| format!("{{ path = \"a.so\", config = {{ n = {n} }} }}")).collect();
        with(&format!("module = [{}]", uses.join(", ")))
    };
    assert_eq!(good(&text(256)).modules().len(), 256);
    assert_eq!(brief(&text(257)).len(), 1);
}
