//! The documentation as a site of HTML: the pages of the repository, as they lie there, through mdBook. What they link to comes
//! along, so that links lead to the same places as in the repository.

pub(crate) mod links;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::step::step;
use links::Link;

const VERSION: &str = "0.5.4";
/// The list of chapters, with links as they are in the repository.
const SUMMARY: &str = "book/SUMMARY.md";

/// Makes the site in `target/site`, and checks it.
pub(crate) fn run(target: &Path) -> Result<()> {
    let root = Path::new(".");
    let wrong = links::check(root, &links::documents(root)?)?;
    if !wrong.is_empty() {
        return Err(format!("links that lead nowhere:\n  {}", wrong.join("\n  ")).into());
    }
    let mdbook = mdbook(target)?;
    let (source, site) = (target.join("site-source"), target.join("site"));
    for directory in [&source, &site] {
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
    }
    println!("\n== pages, and what they link to, into {}", source.display());
    stage(root, &source)?;
    let site = std::path::absolute(site)?;
    step("site", Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&site))?;
    println!("\n== links of {}", site.display());
    let wrong = check_html(&site)?;
    if !wrong.is_empty() {
        return Err(format!("the site:\n  {}", wrong.join("\n  ")).into());
    }
    println!("\n{}", site.join("index.html").display());
    Ok(())
}

/// The program; installed below `target` the first time, which takes some minutes.
fn mdbook(target: &Path) -> Result<PathBuf> {
    let home = target.join("mdbook");
    let program = home.join("bin/mdbook");
    let there = Command::new(&program).arg("--version").output();
    if there.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim().ends_with(VERSION)) {
        return Ok(program);
    }
    let mut install = crate::step::cargo();
    install.args(["install", "--locked", "--version", VERSION, "mdbook", "--root"]).arg(&home);
    println!(
        "\n== the site is made by mdBook {VERSION}, which is compiled now; this takes minutes, the first time only"
    );
    step("mdbook", &mut install)?;
    Ok(program)
}

/// Holds that each command `cargo xtask TASK …` in a document has arguments that this parser takes: of these tasks, or of all.
///
/// # Errors
/// Documents, lines, and what is wrong with them.
pub fn check_tasks_in_documents<P: clap::Parser>(tasks: &[&str]) -> Result<()> {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in links::documents(crate::root())? {
        let text = std::fs::read_to_string(crate::root().join(&path))?;
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("cargo xtask ")) {
            let words = line.split('#').next().unwrap_or_default().split_whitespace();
            if !tasks.is_empty() && words.clone().next().is_none_or(|task| !tasks.contains(&task)) {
                continue;
            }
            seen += 1;
            match P::try_parse_from(["xtask"].into_iter().chain(words)) {
                Err(error) if error.kind() != clap::error::ErrorKind::DisplayHelp => {
                    wrong.push(format!("{path}: {line}: {error}"));
                }
                _ => {}
            }
        }
    }
    if seen == 0 {
        return Err("no commands found: has their form changed?".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Where a page or file of the repository is in the site's source. mdBook makes `index.html` of `README.md`, but does not follow
/// links to it.
fn staged(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(directory) if directory.is_empty() || directory.ends_with('/') => format!("{directory}index.md"),
        _ => path.to_owned(),
    }
}

/// Copies all chapters, and whatever they link to, from the repository.
fn stage(root: &Path, source: &Path) -> Result<()> {
    let summary = std::fs::read_to_string(root.join(SUMMARY))?;
    let chapters: Vec<String> =
        links::links(&summary).iter().filter_map(|link| links::resolve(SUMMARY, &link.target)).collect();
    let (mut waiting, mut done) = (chapters.clone(), BTreeSet::new());
    let mut others = String::new();
    while let Some(path) = waiting.pop() {
        if !done.insert(path.clone()) {
            continue;
        }
        let to = source.join(staged(&path));
        std::fs::create_dir_all(to.parent().unwrap_or(source))?;
        if !path.ends_with(".md") {
            std::fs::copy(root.join(&path), to)?;
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path))?;
        let (text, linked) = rewritten(root, &path, &text)?;
        std::fs::write(to, &text)?;
        waiting.extend(linked);
        if !chapters.contains(&path) {
            let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&path);
            others += &format!("- [{}]({})\n", title.replace(['[', ']'], ""), staged(&path));
        }
    }
    let (summary, _) = rewritten(root, SUMMARY, &summary)?;
    let whole = format!("{}\n# Other documents\n\n{others}", summary.replace("](../", "]("));
    std::fs::write(source.join("SUMMARY.md"), whole)?;
    std::fs::copy(root.join("book/book.toml"), source.join("book.toml"))?;
    Ok(())
}

/// A page with its links as the site needs them, and what these lead to.
fn rewritten(root: &Path, page: &str, text: &str) -> Result<(String, Vec<String>)> {
    let (mut out, mut linked, mut copied) = (String::new(), Vec::new(), 0);
    for Link { at, target, .. } in links::links(text) {
        let Some(mut path) = links::resolve(page, &target) else { continue };
        let (before, fragment) = target.split_once('#').unwrap_or((&target, ""));
        let mut link = before.to_owned();
        if root.join(&path).is_dir() {
            path = format!("{path}/README.md");
            link = format!("{}/README.md", link.trim_end_matches('/'));
            if !root.join(&path).is_file() {
                return Err(format!(
                    "{page}: {target} is a directory without README.md: link to a file in it"
                )
                .into());
            }
        }
        out += text.get(copied..at).unwrap_or_default();
        out += &staged(&link);
        if !fragment.is_empty() {
            out.push('#');
            out += fragment;
        }
        copied = at + target.len();
        linked.push(path);
    }
    out += text.get(copied..).unwrap_or_default();
    Ok((out, linked))
}

/// All files below a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// What a page of HTML loads or links to: the tag, and the address.
fn addresses(html: &str) -> Vec<(&str, &str)> {
    let tags = html.split('<').skip(1).filter_map(|rest| rest.split('>').next());
    let address = |tag: &'_ str| -> Option<(usize, usize)> {
        let at = [" src=\"", " href=\""].iter().find_map(|name| Some(tag.find(name)? + name.len()))?;
        Some((at, at + tag.get(at..)?.find('"')?))
    };
    tags.filter_map(|tag| {
        let (from, to) = address(tag)?;
        Some((tag.split_whitespace().next()?, tag.get(from..to)?))
    })
    .collect()
}

/// Whether an address in a page leads to a file, and to a place in it.
fn leads(page: &Path, address: &str) -> bool {
    let (file, fragment) = address.split_once('#').unwrap_or((address, ""));
    let file = file.split('?').next().unwrap_or_default();
    let path = match page.parent() {
        Some(directory) if !file.is_empty() => directory.join(file),
        _ => page.to_owned(),
    };
    if fragment.is_empty() || path.extension().is_none_or(|ending| ending != "html") {
        return path.exists();
    }
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("id=\"{fragment}\"")))
}

/// What the site would load from elsewhere, and links between its files that lead nowhere.
fn check_html(site: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut pages = 0;
    for path in files(site)? {
        let kind = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if !matches!(kind, "html" | "css") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        if kind == "css" {
            let external = ["url(http", "url(\"http", "url('http", "url(//", "@import"];
            let found = external.iter().filter(|form| text.contains(*form));
            wrong.extend(found.map(|form| format!("{}: {form}", path.display())));
            continue;
        }
        pages += 1;
        for (tag, address) in addresses(&text) {
            let external = ["http://", "https://", "//"].iter().any(|begin| address.starts_with(begin));
            // The page about missing pages has addresses below `/`, since it is shown anywhere.
            let inside = !address.is_empty() && !address.starts_with('/') && !address.contains(':');
            if external && tag != "a" {
                wrong.push(format!("{}: <{tag}> loads {address}", path.display()));
            } else if !external && inside && !path.ends_with("404.html") && !leads(&path, address) {
                wrong.push(format!("{}: <{tag}> leads to {address}, which is not there", path.display()));
            }
        }
    }
    if pages == 0 {
        wrong.push(format!("no page in {}", site.display()));
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_page_of_docs_is_a_chapter() {
        let summary = std::fs::read_to_string(root().join(SUMMARY)).unwrap();
        let chapters: Vec<_> =
            links::links(&summary).iter().filter_map(|link| links::resolve(SUMMARY, &link.target)).collect();
        for path in links::documents(&root()).unwrap().iter().filter(|path| path.starts_with("docs/")) {
            assert!(chapters.contains(path), "{SUMMARY} does not have {path}");
        }
        assert!(chapters.len() > 40, "{chapters:?}");
    }

    #[test]
    fn the_source_of_the_site_is_whole() {
        let place = tempfile::tempdir().unwrap();
        stage(&root(), place.path()).unwrap();
        let pages: Vec<String> = files(place.path())
            .unwrap()
            .iter()
            .filter_map(|path| path.strip_prefix(place.path()).ok()?.to_str().map(str::to_owned))
            .filter(|path| path.ends_with(".md"))
            .collect();
        assert!(pages.contains(&"index.md".to_owned()) && pages.len() > 40, "{pages:?}");
        assert_eq!(links::check(place.path(), &pages).unwrap(), [""; 0]);
    }

    #[test]
    fn what_a_site_loads_from_elsewhere_is_found() {
        let place = tempfile::tempdir().unwrap();
        let check = |html: &str| {
            std::fs::write(place.path().join("index.html"), html).unwrap();
            check_html(place.path()).unwrap().len()
        };
        assert_eq!(
            check("<a href=\"https://a/\">a</a> <a href=\"index.html#x\" id=\"x\">b</a><img src=\"data:x\">"),
            0
        );
        assert_eq!(check("<script src=\"https://a/x.js\"></script>"), 1);
        assert_eq!(check("<link rel=\"stylesheet\" href=\"//a/x.css\">"), 1);
        assert_eq!(check("<img alt=\"\" src=\"http://a/x.png\">"), 1);
        assert_eq!(check("<a href=\"gone.html\">a</a>"), 1);
        assert_eq!(check("<a href=\"#gone\">a</a>"), 1);
        assert_eq!(check("<img src=\"gone.svg\">"), 1);
        std::fs::write(place.path().join("a.css"), "b { background: url(https://a/b.png) }").unwrap();
        assert_eq!(check("<p>"), 1);
    }

    /// Tasks of other crates pass here with any arguments; these crates have the same test.
    #[test]
    fn tasks_in_documents_can_be_done_as_shown() {
        check_tasks_in_documents::<crate::Arguments>(&[]).unwrap();
    }
}
