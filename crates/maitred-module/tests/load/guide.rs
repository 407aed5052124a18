//! The guide shows code that these tests have run.

use std::fs;

use crate::support::home;

/// The fenced blocks of a text that are marked so.
fn blocks<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let open = format!("```{mark}\n");
    text.split(&open).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn it_shows_the_examples_as_they_are() {
    let page = home().join("../../docs/modules.md");
    // The crate's package comes without the guide.
    let Ok(page) = fs::read_to_string(page) else { return };
    let examples = home().join("examples");
    let mut sources = Vec::new();
    for directory in [examples.clone(), examples.join("c")] {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                sources.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    for (mark, least) in [("rust", 4), ("c", 1)] {
        let shown = blocks(&page, mark);
        assert!(shown.len() >= least, "{} blocks of {mark}", shown.len());
        for block in shown {
            assert!(sources.iter().any(|source| source.contains(block)), "no example has this:\n{block}");
        }
    }
}

/// Each example is named in the guide.
#[test]
fn it_names_all_examples() {
    let Ok(page) = fs::read_to_string(home().join("../../docs/modules.md")) else { return };
    for entry in fs::read_dir(home().join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".rs");
        assert!(page.contains(&format!("| `{name}` |")) || name == "c", "{name} is not in docs/modules.md");
    }
}
