//! Which step runs which test executable. All that this table does not name is run by the step `tests`.

use crate::test::runner::Part;

/// An executable of tests, or some of its tests, that another step than `tests` runs.
pub(crate) struct Row {
    /// The directory of the package: `maitred` for crates/maitred.
    pub(crate) package: &'static str,
    /// As `--test` has it; `lib` for the tests in the library.
    pub(crate) target: &'static str,
    /// The step.
    pub(crate) of: Part,
    /// Parts of names of tests; nothing for the whole executable.
    pub(crate) only: &'static [&'static str],
    /// What keeps them from being like the others.
    pub(crate) why: &'static str,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.package, self.target, self.only.join(" ")).trim_end().to_owned()
    }
}

const fn whole(package: &'static str, target: &'static str, of: Part, why: &'static str) -> Row {
    Row { package, target, of, only: &[], why }
}

const fn some(
    package: &'static str,
    target: &'static str,
    only: &'static [&'static str],
    why: &'static str,
) -> Row {
    Row { package, target, of: Part::Programs, only, why }
}

const RULE: &str = "a rule of the sources";
const COUNTS: &str = "it counts system calls, which other work disturbs";
const BROWSER: &str = "it takes a browser";

/// What other steps run.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    whole("tidy", "absent", Part::Rules, RULE),
    whole("tidy", "order", Part::Rules, RULE),
    whole("tidy", "readme", Part::Rules, RULE),
    whole("tidy", "style", Part::Rules, RULE),
    whole("tidy", "words", Part::Rules, RULE),
    whole("maitred", "generated", Part::Rules, "generated documents"),
    whole("maitred", "alone", Part::Alone, COUNTS),
    whole("maitred-load", "costs", Part::Alone, COUNTS),
    whole("maitred-load", "specweb", Part::Programs, "it takes Apache with PHP"),
    some("maitred", "processes", &["acme::"], "it takes Pebble, an authority in Go"),
    some("maitred", "processes", &["gunicorn_as_it_is"], "it takes gunicorn"),
    some("maitred", "upstreams", &["grpc::interop", "grpc::python", "grpc::web"], "it takes grpc-go, grpcio and Connect's client"),
    some("maitred", "upstreams", &["import::oracle::"], "it takes crossplane, a Python package"),
    some("maitred", "wire", &["access::oauth2_proxy::"], "it takes oauth2-proxy"),
    some("maitred", "wire", &["http::admin::promtool"], "it takes Prometheus' promtool"),
    some("maitred", "wire", &["cors::a_browser"], BROWSER),
    some("maitred", "wire", &["the_page_is_live_in_a_browser"], BROWSER),
    some("dist", "bin maitred-dist", &["dist::tests::"], "it takes rpmbuild and skopeo"),
];

/// What a step does with an executable: nothing, or these arguments.
pub(crate) fn arguments(part: Part, package: &str, target: &str) -> Option<Vec<String>> {
    let mut rows = ROWS.iter().filter(|row| row.package == package && row.target == target);
    if let Some(row) = rows.clone().find(|row| row.only.is_empty()) {
        return (row.of == part).then(Vec::new);
    }
    let filters = |rows: &mut dyn Iterator<Item = &Row>| -> Vec<String> {
        rows.flat_map(|row| row.only).map(|&filter| filter.to_owned()).collect()
    };
    if part == Part::Tests {
        let left_out = filters(&mut rows);
        return Some(left_out.into_iter().flat_map(|filter| ["--skip".to_owned(), filter]).collect());
    }
    let wanted = filters(&mut rows.filter(|row| row.of == part));
    (!wanted.is_empty()).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::test::runner::name_of_target;

    /// Package and target of all executables of the workspace's tests, as Cargo has them.
    fn all() -> Vec<(String, String)> {
        let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
        let output = crate::step::cargo().args(metadata).output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut found = Vec::new();
        for package in metadata["packages"].as_array().unwrap() {
            let targets = package["targets"].as_array().unwrap();
            for target in targets.iter().filter(|target| target["test"].as_bool().unwrap()) {
                found.push(name_of_target(package["manifest_path"].as_str().unwrap(), target).unwrap());
            }
        }
        found
    }

    #[test]
    fn each_row_names_an_executable_and_none_twice() {
        let all = all();
        assert!(all.len() > 20, "{all:?}");
        for (at, row) in ROWS.iter().enumerate() {
            let is = |(package, target): &(String, String)| package == row.package && target == row.target;
            assert!(all.iter().any(is), "no executable {} {}", row.package, row.target);
            let alike =
                ROWS[..at].iter().filter(|other| (other.package, other.target) == (row.package, row.target));
            for other in alike {
                let differ = !row.only.is_empty() && !other.only.is_empty();
                assert!(
                    differ && row.only.iter().all(|only| !other.only.contains(only)),
                    "{} twice",
                    row.name()
                );
            }
        }
    }

    #[test]
    fn each_executable_is_run_by_one_step_or_shared_by_filters() {
        for (package, target) in all() {
            let parts = [Part::Rules, Part::Tests, Part::Alone, Part::Programs];
            let runs: Vec<_> =
                parts.into_iter().filter_map(|part| arguments(part, &package, &target)).collect();
            let whole = runs.iter().filter(|arguments| arguments.is_empty()).count();
            let skipped: Vec<_> = runs.iter().flatten().filter(|word| *word != "--skip").collect();
            match runs.len() {
                1 => assert_eq!(whole, 1, "{package} {target}: {runs:?}"),
                2 => assert!(whole == 0 && skipped.len() % 2 == 0, "{package} {target}: {runs:?}"),
                _ => panic!("{package} {target} is run by {} steps", runs.len()),
            }
        }
    }

    #[test]
    fn what_one_step_leaves_out_another_runs() {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            arguments(Part::Tests, "maitred", "upstreams"),
            words(&[
                "--skip",
                "grpc::interop",
                "--skip",
                "grpc::python",
                "--skip",
                "grpc::web",
                "--skip",
                "import::oracle::"
            ])
        );
        assert_eq!(
            arguments(Part::Programs, "maitred", "upstreams"),
            words(&["grpc::interop", "grpc::python", "grpc::web", "import::oracle::"])
        );
        assert_eq!(arguments(Part::Tests, "tidy", "style"), None);
        assert_eq!(arguments(Part::Rules, "tidy", "style"), words(&[]));
        assert_eq!(arguments(Part::Tests, "maitred-http", "lib"), words(&[]));
        assert_eq!(arguments(Part::Alone, "maitred-http", "lib"), None);
    }
}
