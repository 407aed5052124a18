//! What kind of application a directory holds. Files are read, nothing is run or imported.

use std::path::{Path, PathBuf};

use super::layouts::{BACKENDS, FRONTENDS, LAYOUTS, Layout, SOURCES, Serve};
use super::place::Place;
use super::{Advice, Application, Kind, built, executable, listening, node, php, python};

/// Around the directory.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// The interpreter of Python, if it is known.
    pub python: Option<PathBuf>,
    /// The socket of php-fpm.
    pub socket: Option<PathBuf>,
}

/// What a look at a directory comes to: an application, or why there is none.
type Outcome = Option<Result<Application, Advice>>;

/// What the directory holds; `None` if nothing in it is known.
///
/// # Errors
/// What was found cannot be served as it is.
pub fn application(dir: &Path, around: &Around) -> Outcome {
    let place = Place::new(dir);
    let own = look(place, around, |layout| !is_last_resort(layout));
    if let Some(Ok(_)) = own {
        return own;
    }
    let parts = two_halves(place, around).or_else(|| sources(place, around));
    match (parts, own) {
        (Some(Ok(found)), _) => Some(Ok(found)),
        (_, Some(advice)) | (Some(advice), None) => Some(advice),
        (None, None) => look(place, around, is_last_resort),
    }
}

/// The files or the program of a directory in which nothing else is.
fn is_last_resort(layout: &Layout) -> bool {
    matches!(layout.serve, Serve::Files(_) | Serve::Executable)
}

/// The first layout that can be served, or else what the first one lacks.
fn look(place: Place<'_>, around: &Around, wanted: impl Fn(&Layout) -> bool) -> Outcome {
    let package = place.text("package.json").and_then(|text| serde_json::from_str(&text).ok());
    let mut advice = None;
    for layout in LAYOUTS.iter().filter(|layout| wanted(layout)) {
        let Some(seen) = layout.seen(place, package.as_ref()) else { continue };
        match serve(layout, &seen.join(" and "), place, package.as_ref(), around) {
            Some(Ok(mut found)) => {
                found.assets.extend(place.assets(layout.assets));
                return Some(Ok(found));
            }
            Some(Err(why)) => advice = advice.or(Some(Err(why))),
            None => {}
        }
    }
    advice
}

fn serve(
    layout: &Layout,
    seen: &str,
    place: Place<'_>,
    package: Option<&serde_json::Value>,
    around: &Around,
) -> Outcome {
    let python = around.python.as_deref();
    let name = layout.name;
    match layout.serve {
        Serve::Django => Some(python::django(place, python)),
        Serve::Python => python::application(place, python),
        Serve::Node(programs, build) => Some(node::built(name, seen, place, programs, build)),
        Serve::Package(programs) => node::package(name, seen, place, package?, programs),
        Serve::Php(roots) => php::application(name, seen, place, roots, around.socket.as_deref()).map(Ok),
        Serve::Listens(port, start) => Some(Ok(listening::server(name, seen, port, start))),
        Serve::Go => listening::go(place),
        Serve::Cargo => Some(Ok(listening::cargo(place))),
        Serve::Jar(below, build) => Some(Ok(listening::jar(name, seen, place, below, build))),
        Serve::Built(roots, tries, build) => Some(built::files(name, seen, place, roots, tries, build)),
        Serve::Files(roots) => built::plain(name, place, roots).map(Ok),
        Serve::Executable => executable::only(place),
    }
}

/// A repository of an application and a browser's program, or of one of them below a directory.
fn two_halves(place: Place<'_>, around: &Around) -> Outcome {
    let back = half(place, around, BACKENDS, |kind| !matches!(kind, Kind::Files(_)));
    let front = half(place, around, FRONTENDS, |_| true);
    let (mut back, front) = match (back, front) {
        (Some(Ok(back)), Some(front)) => (back, front),
        (Some(back), None) | (None, Some(back)) | (Some(back @ Err(_)), _) => return Some(back),
        (None, None) => return None,
    };
    let front = match front {
        Ok(front) => front,
        Err(advice) => return Some(Err(advice)),
    };
    match front.kind {
        Kind::Files(files) => {
            back.because = format!("{}, and {}", back.because, front.because);
            let paths = built::paths_of_application(place, &files.root, back.name);
            // The browser's program has the root of the site.
            back.assets.retain(|(path, _)| path != "/");
            back.front = Some((files, paths));
            Some(Ok(back))
        }
        _ => Some(Err(Advice::new(
            format!(
                "there are two applications here: {} ({}), {} ({})",
                back.name, back.because, front.name, front.because
            ),
            "run `maitred init` in each of the two directories, and make one file of both: [pool.NAME] and its routes, docs/routing.md",
        ))),
    }
}

/// What the first of these directories holds that holds something.
fn half(place: Place<'_>, around: &Around, names: &[&str], wanted: impl Fn(&Kind) -> bool) -> Outcome {
    let mut advice = None;
    for name in names.iter().filter(|name| place.has_directory(name)) {
        let dir = place.path(name);
        let found = look(Place::new(&dir), around, |layout| !matches!(layout.serve, Serve::Executable));
        match found.or_else(|| sources(Place::new(&dir), around)) {
            Some(Ok(found)) if wanted(&found.kind) => return Some(Ok(below(name, found, place))),
            Some(Err(Advice { why, help })) => {
                advice = advice
                    .or(Some(Err(Advice::new(format!("{name}/: {why}"), format!("in {name}/: {help}")))));
            }
            _ => {}
        }
    }
    advice
}

/// An application of Python whose modules are not at the top.
fn sources(place: Place<'_>, around: &Around) -> Outcome {
    SOURCES.iter().filter(|name| place.has_directory(name)).find_map(|name| {
        let dir = place.path(name);
        let found =
            look(Place::new(&dir), around, |layout| matches!(layout.serve, Serve::Python | Serve::Django));
        found.map(|found| found.map(|found| below(name, found, place)))
    })
}

/// What was found in the directory `name` of a place, as seen from that place.
pub fn below(name: &str, mut found: Application, place: Place<'_>) -> Application {
    found.because = format!("{} in {name}/", found.because);
    let inside = |path: &str| match path {
        "." => name.to_owned(),
        path => format!("{name}/{path}"),
    };
    for (_, root) in &mut found.assets {
        *root = inside(root);
    }
    for step in &mut found.first {
        *step = format!("cd {name} && {step}");
    }
    match &mut found.kind {
        Kind::Command(_) => {
            let cwd = found.cwd.as_deref().map_or_else(|| name.to_owned(), inside);
            if !cwd.starts_with('/') && !cwd.contains("..") {
                python::use_environment_above(&mut found, place, &cwd);
            }
            found.cwd = Some(cwd);
        }
        Kind::Files(files) => files.root = inside(&files.root),
        Kind::Php { root, .. } => *root = inside(root),
        Kind::Server { start, .. } => *start = format!("cd {name} && {start}"),
    }
    found
}
