//! Files: those that a program has made, and those that lie there.

use super::place::Place;
use super::{Advice, Application, Files, Kind};

/// Files that a command has made, in the first of `roots` that is there. What is tried besides the path is what the files have: a
/// page for what is no file only if it is there.
pub fn files(
    name: &'static str,
    seen: &str,
    place: Place<'_>,
    roots: &[&str],
    tries: &[&str],
    build: &str,
) -> Result<Application, Advice> {
    let Some(root) = roots.iter().find_map(|root| page_below(place, root)) else {
        let wanted = roots.first().copied().unwrap_or_default();
        return Err(Advice::new(
            format!("{name}, because of {seen}, is not built: there is no {wanted}/index.html"),
            format!("{build}, and then `maitred init` again"),
        ));
    };
    let is_there = |path: &&&str| path.starts_with('{') || place.has(&format!("{root}{path}"));
    let tries = tries.iter().filter(is_there).map(|path| (*path).to_owned()).collect();
    let because = format!("{seen}, and {root}/");
    Ok(Application::new(name, because, Kind::Files(Files { root, tries })))
}

/// Files in the first of these directories that has an index.html.
pub fn plain(name: &'static str, place: Place<'_>, roots: &[&str]) -> Option<Application> {
    let root = roots.iter().copied().find(|root| place.path(root).join("index.html").is_file())?;
    let because = if root == "." { "index.html".to_owned() } else { format!("{root}/index.html") };
    Some(Application::new(name, because, Kind::Files(Files { root: root.to_owned(), tries: Vec::new() })))
}

/// The directory of this name that has an index.html; `*` in it is the first one that has.
fn page_below(place: Place<'_>, root: &str) -> Option<String> {
    let has_page = |root: &String| place.has(&format!("{root}/index.html"));
    let Some((before, after)) = root.split_once('*') else {
        return Some(root.to_owned()).filter(has_page);
    };
    let above = place.path(before);
    let names = Place::new(&above).directories();
    names.into_iter().map(|name| format!("{before}{name}{after}")).find(has_page)
}

/// The paths that a browser's program asks the application for: those that its development server passes on, or the usual one.
pub fn paths_of_application(place: Place<'_>, root: &str, application: &str) -> Vec<String> {
    let project = root.rsplit_once('/').map_or("", |(project, _)| project);
    let configurations = ["vite.config.ts", "vite.config.js", "vite.config.mjs"];
    let mut paths = configurations
        .iter()
        .find_map(|name| place.text(&format!("{project}/{name}")))
        .map_or_else(Vec::new, |text| proxied(&text));
    if paths.is_empty() {
        paths.push("/api/*".to_owned());
    }
    if application == "Django" {
        paths.push("/admin/*".to_owned());
    }
    paths
}

/// The keys of `proxy: { '/api': … }`.
fn proxied(text: &str) -> Vec<String> {
    let Some((_, table)) = text.split_once("proxy:") else { return Vec::new() };
    let mut found = Vec::new();
    let mut before = "";
    for piece in table.split(['\'', '"']) {
        // What stands between quotes is a key if a colon follows it.
        if piece.trim_start().starts_with(':') && before.starts_with('/') && !before.contains(['*', '{', '}'])
        {
            found.push(format!("{}/*", before.trim_end_matches('/')));
        }
        before = piece;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_a_development_server_are_read() {
        let text = "server: { port: 5173, proxy: {\n '/api': 'http://127.0.0.1:8000',\n \"/auth/\": { target: 'http://x/y' } } }";
        assert_eq!(proxied(text), ["/api/*", "/auth/*"]);
        assert!(proxied("export default {}").is_empty());
    }
}
