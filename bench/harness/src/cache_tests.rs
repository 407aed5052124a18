//! The cache's rules by the cases of others: `http-cache-tests`, whose author is an editor of RFC 9111, against Maitred and
//! against other caches. What a case means, and what follows from its result, is the suite's own: `bench/cache-tests/run.mjs`
//! only runs it.

mod report;
mod servers;
mod step;
mod suite;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Result;
use report::{Measured, Run};
use servers::{Build, Server};
use suite::{Options, Origin, Suite};

/// Arguments of `cargo xtask cache-tests`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Caches that are tested, one after the other
    #[arg(value_enum, default_value = "maitred")]
    servers: Vec<Server>,
    /// Only this case, such as freshness-max-age; may be given several times. Dependencies between cases are not heeded then
    #[arg(long = "case", value_name = "ID", conflicts_with = "write")]
    cases: Vec<String>,
    /// Cases that run at the same time
    #[arg(long, default_value_t = 50)]
    concurrency: u32,
    /// How long a request may take
    #[arg(long, default_value_t = 20)]
    timeout_seconds: u32,
    /// Do not run those again that have failed
    #[arg(long)]
    once: bool,
    /// The binary of Maitred [default: target/debug/maitred]
    #[arg(long)]
    maitred: Option<PathBuf>,
    /// Maitred without its cache: shows what a mere proxy passes
    #[arg(long)]
    without_cache: bool,
    /// Keep the results below bench/runs/, and put the tables of all kept results into docs/cache-tests.md
    #[arg(long)]
    write: bool,
    /// Judge Maitred's results: every required rule, and most of the optimal ones; a part of `test --full`
    #[arg(long, conflicts_with_all = ["write", "cases", "servers"])]
    judge: bool,
    /// Where they are kept [default: the newest bench/runs/*-cache-tests]
    #[arg(long, requires = "write")]
    out: Option<PathBuf>,
}

/// Tests the servers, prints what came out, and keeps it if that is wanted.
pub(crate) fn run_some(target: &Path, arguments: &Arguments) -> Result<()> {
    if arguments.judge {
        return step::run(target);
    }
    let suite = Suite::install(target)?;
    let options = Options {
        concurrency: arguments.concurrency.max(1),
        timeout_ms: u64::from(arguments.timeout_seconds.max(1)) * 1000,
        again: !arguments.once,
        only: arguments.cases.clone(),
    };
    let maitred = arguments.maitred.clone().unwrap_or_else(|| target.join("debug/maitred"));
    let build = Build { maitred: std::path::absolute(maitred)?, cache: !arguments.without_cache };
    let missing: Vec<&str> = arguments.servers.iter().filter_map(|server| server.missing()).collect();
    xtask::test_packages::install(&missing);
    let mut all = Vec::new();
    for server in &arguments.servers {
        let measured = examine(&suite, *server, &build, &options)?;
        println!("{}", measured.to_text(server.name()));
        all.push((*server, measured));
    }
    if !arguments.write {
        return Ok(());
    }
    let runs = xtask::root().join("bench/runs");
    let out = arguments.out.clone().map_or_else(|| report::newest(&runs), Ok)?;
    let mut run = Run::read(&out, suite.name())?;
    all.into_iter().for_each(|(server, measured)| run.take(server, measured));
    run.write(&out)?;
    run.write_document(&xtask::root().join("docs/cache-tests.md"), &out)?;
    println!("results: {}", out.display());
    Ok(())
}

/// Runs the suite on one server, which is started for it.
fn examine(suite: &Suite, server: Server, build: &Build, options: &Options) -> Result<Measured> {
    let began = Instant::now();
    let origin = Origin::start(suite)?;
    let running = server.start(build, origin.address())?;
    println!("\n== http-cache-tests, {}", server.name());
    let cases = suite.run(running.address(), options);
    let cases = match cases {
        Ok(cases) => cases,
        Err(error) => return Err(format!("{error}; {} said:\n{}", server.name(), running.said()).into()),
    };
    Ok(Measured::new(server.version(), began.elapsed(), cases))
}
