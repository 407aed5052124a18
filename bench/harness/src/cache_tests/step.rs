//! The step of the tests: Maitred's cache keeps every required rule, and most of the optimal ones.

use std::path::Path;

use super::report::{Kind, Measured, Verdict};
use super::servers::{Build, Server};
use super::suite::{Options, Suite};
use crate::Result;
use xtask::skips::{Kind as Skipped, skip};

const NAME: &str = "cache rules of others";
/// Optimal cases that have to pass.
///
/// As large a part as 90 of the 107 that the suite has in its repository. Of partial responses nothing is stored.
const OPTIMAL_MIN: usize = 84;
/// Why cases about a bad `Age` are not counted.
const OLD_AGE: &str = "RFC 9111, 5.1, says otherwise, and so does the suite since";
/// Required cases that may fail, or show nothing, and why.
///
/// The suite's repository has changed what it asks of `Age` since the release: to RFC 9111, section 5.1, by which the first
/// member of a list counts, and a value that is no number is ignored.
const NOT_COUNTED: [(&str, &str); 14] = [
    ("age-parse-nonnumeric", OLD_AGE),
    ("age-parse-negative", OLD_AGE),
    ("age-parse-float", OLD_AGE),
    ("age-parse-prefix-twoline", OLD_AGE),
    ("age-parse-dup-0", OLD_AGE),
    ("age-parse-dup-0-twoline", OLD_AGE),
    ("age-parse-dup-old", OLD_AGE),
    ("age-parse-parameter", OLD_AGE),
    ("age-parse-numeric-parameter", OLD_AGE),
    ("headers-store-Set-Cookie", "a shared cache may refuse to store what sets a cookie"),
    ("304-etag-update-response-Set-Cookie", "the same"),
    ("headers-store-Transfer-Encoding", "an unknown transfer coding may be refused (RFC 9112, 6.1)"),
    ("surrogate-fresh-cc-nostore", "a question without a kind, and Surrogate-Control is not HTTP's"),
    ("surrogate-no-store-cc-fresh", "Surrogate-Control is for those that announce it"),
];

/// Runs the suite on what was built last without `--release`, or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    xtask::test::built()?;
    println!("\n== {NAME}");
    if !["node", "npm"].into_iter().all(xtask::test_packages::has_program) {
        skip(Skipped::Missing, NAME, "node or npm is not installed");
        return Ok(());
    }
    let suite = match Suite::install(target) {
        Ok(suite) => suite,
        Err(why) => {
            skip(Skipped::Missing, NAME, &format!("the suite cannot be installed ({why})"));
            return Ok(());
        }
    };
    let build = Build { maitred: std::path::absolute(target.join("debug/maitred"))?, cache: true };
    let measured = super::examine(&suite, Server::Maitred, &build, &Options::default())?;
    println!("{}", measured.to_text(Server::Maitred.name()));
    judge(&measured).map_err(|why| format!("{NAME}: {why}").into())
}

/// Whether that is enough. A case that could not be set up has shown nothing, so it counts as failed.
fn judge(measured: &Measured) -> Result<(), String> {
    let counts = |id: &str| NOT_COUNTED.iter().all(|(known, _)| *known != id);
    let broken: Vec<&str> = measured
        .cases()
        .filter(|case| case.kind == Kind::Required && counts(&case.id))
        .filter(|case| matches!(case.verdict, Verdict::Fail | Verdict::Setup | Verdict::Retry))
        .map(|case| case.id.as_str())
        .collect();
    if !broken.is_empty() {
        return Err(format!("{} required cases fail: {}", broken.len(), broken.join(", ")));
    }
    let (required, optimal) = (measured.counts(Kind::Required).pass, measured.counts(Kind::Optimal).pass);
    if required == 0 || optimal < OPTIMAL_MIN {
        return Err(format!("{optimal} optimal cases pass, {OPTIMAL_MIN} have to"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_tests::report::Case;

    fn judged(id: &str, verdict: Verdict, optimal: usize) -> Result<(), String> {
        let of = |id: &str, kind, verdict| Case { id: id.to_owned(), kind, verdict, ..Case::default() };
        let mut cases = vec![of("first", Kind::Required, Verdict::Pass), of(id, Kind::Required, verdict)];
        cases.extend((0..optimal).map(|number| of(&number.to_string(), Kind::Optimal, Verdict::Pass)));
        judge(&Measured::new(String::new(), std::time::Duration::ZERO, cases))
    }

    #[test]
    fn required_cases_that_fail_and_too_few_optimal_ones_fail_the_tests() {
        let failed = Err("1 required cases fail: second".to_owned());
        for (verdict, expected) in [
            (Verdict::Pass, Ok(())),
            // The one that it depends on says more.
            (Verdict::Unreachable, Ok(())),
            (Verdict::Fail, failed.clone()),
            (Verdict::Setup, failed.clone()),
            (Verdict::Retry, failed),
        ] {
            assert_eq!(judged("second", verdict, OPTIMAL_MIN), expected, "{verdict:?}");
        }
        assert_eq!(judged("headers-store-Set-Cookie", Verdict::Setup, OPTIMAL_MIN), Ok(()));
        let few = judged("second", Verdict::Pass, OPTIMAL_MIN - 1).unwrap_err();
        assert!(few.ends_with(&format!("optimal cases pass, {OPTIMAL_MIN} have to")), "{few}");
    }
}
