//! What the profiles are about: a data set of fifty items, and twenty files with compressed ones beside them. Data set and
//! files have the shape and the sizes that HttpArena's documentation gives for its own; what stands in them is made here, from
//! a fixed seed.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;

/// Changes with what is made, so that a scratch directory of an older version is not taken.
const VERSION: &str = "1";
const SEED: u64 = 20_261_127;
/// Items of the data set.
pub(super) const ITEMS: usize = 50;
/// Name and kilobytes of each file: 966 KB of text, and 200 KB that do not compress.
pub(super) const FILES: [(&str, usize); 20] = [
    ("page-1.css", 8),
    ("page-2.css", 20),
    ("page-3.css", 30),
    ("page-4.css", 42),
    ("page-5.css", 55),
    ("script-1.js", 15),
    ("script-2.js", 60),
    ("script-3.js", 93),
    ("script-4.js", 160),
    ("script-5.js", 400),
    ("part-1.html", 5),
    ("part-2.html", 8),
    ("letters-1.woff2", 20),
    ("letters-2.woff2", 25),
    ("drawing-1.svg", 12),
    ("drawing-2.svg", 55),
    ("photo-1.webp", 15),
    ("photo-2.webp", 20),
    ("photo-3.webp", 120),
    ("about.json", 3),
];

/// Where the data lie.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// The data set.
    pub(super) items: PathBuf,
    /// A tree whose directory `static` has the files.
    pub(super) root: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
struct Rating {
    score: u64,
    count: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Item {
    id: u64,
    name: String,
    category: &'static str,
    price: u64,
    quantity: u64,
    active: bool,
    tags: Vec<&'static str>,
    rating: Rating,
}

/// A linear congruential generator (the constants of Knuth's MMIX): it has only to give the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From the first number to the one before the second.
    fn within(&mut self, least: u64, end: u64) -> u64 {
        least + self.next() % (end - least)
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = self.within(0, words.len().max(1) as u64) as usize;
        words.get(at).copied().unwrap_or_default()
    }
}

const KINDS: [&str; 6] = ["garden", "kitchen", "office", "workshop", "travel", "music"];
const MATERIALS: [&str; 8] = ["Oak", "Steel", "Linen", "Glass", "Cork", "Copper", "Slate", "Wool"];
const THINGS: [&str; 8] = ["Lamp", "Shelf", "Kettle", "Chair", "Basket", "Clock", "Tray", "Stand"];
const TAGS: [&str; 7] = ["light", "heavy", "reduced", "handmade", "last ones", "folding", "boxed"];

fn items() -> Vec<Item> {
    let mut random = Random(SEED);
    let item = |id| Item {
        id,
        name: format!("{} {}", random.of(&MATERIALS), random.of(&THINGS)),
        category: random.of(&KINDS),
        price: random.within(10, 500),
        quantity: random.within(1, 60),
        active: random.within(0, 3) > 0,
        tags: (0..random.within(1, 4)).map(|_| random.of(&TAGS)).collect(),
        rating: Rating { score: random.within(10, 51), count: random.within(1, 400) },
    };
    (1..=ITEMS as u64).map(item).collect()
}

/// What a server has to answer for the first `count` items and a factor.
pub(super) fn answer(count: usize, factor: u64) -> Result<Value> {
    let mut chosen = Vec::new();
    for item in items().into_iter().take(count) {
        let total = item.price * item.quantity * factor;
        let mut value = serde_json::to_value(item)?;
        value["total"] = total.into();
        chosen.push(value);
    }
    Ok(json!({ "items": chosen, "count": count }))
}

/// Makes what is not there yet.
pub(super) fn make(directory: &Path) -> Result<Data> {
    let data = Data { items: directory.join("items.json"), root: directory.join("root") };
    let note = directory.join("version");
    if fs::read_to_string(&note).is_ok_and(|version| version == VERSION) {
        return Ok(data);
    }
    let files = data.root.join("static");
    fs::create_dir_all(&files)?;
    fs::write(&data.items, serde_json::to_string_pretty(&items())?)?;
    for (name, kilobytes) in FILES {
        let content = content(name, kilobytes * 1000);
        fs::write(files.join(name), &content)?;
        if is_text(name) {
            fs::write(files.join(format!("{name}.br")), brotli(&content)?)?;
            fs::write(files.join(format!("{name}.gz")), gzip(&content)?)?;
        }
    }
    fs::write(note, VERSION)?;
    Ok(data)
}

/// Mean length of what a client gets that takes Brotli.
pub(super) fn mean_bytes(data: &Data) -> u64 {
    let files = data.root.join("static");
    let length = |name: &str| {
        let compressed = fs::metadata(files.join(format!("{name}.br")));
        compressed.or_else(|_| fs::metadata(files.join(name))).map_or(0, |metadata| metadata.len())
    };
    FILES.iter().map(|(name, _)| length(name)).sum::<u64>() / FILES.len() as u64
}

/// Whether the file has compressed ones beside it.
pub(super) fn is_text(name: &str) -> bool {
    !name.ends_with(".woff2") && !name.ends_with(".webp")
}

fn brotli(content: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = Vec::new();
    // The greatest quality, and the window that it has by default.
    let mut writer = brotli::CompressorWriter::new(&mut compressed, 4096, 11, 22);
    writer.write_all(content)?;
    drop(writer);
    Ok(compressed)
}

fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(content)?;
    Ok(writer.finish()?)
}

const NAMES: [&str; 12] = [
    "header", "menu", "card", "table", "field", "button", "notice", "footer", "column", "label", "panel",
    "list",
];
const PROPERTIES: [&str; 10] = [
    "margin",
    "padding",
    "border-radius",
    "font-size",
    "line-height",
    "min-width",
    "top",
    "left",
    "gap",
    "max-height",
];
const CALLS: [&str; 8] = ["read", "write", "find", "show", "hide", "count", "merge", "split"];

/// So many bytes that look like a file of the kind, and compress about as well.
fn content(name: &str, bytes: usize) -> Vec<u8> {
    let seed = name.bytes().fold(SEED, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let mut random = Random(seed);
    if !is_text(name) {
        return (0..bytes).map(|_| random.next() as u8).collect();
    }
    let mut text = String::new();
    while text.len() < bytes {
        let line = match name.rsplit('.').next() {
            Some("css") => rule(&mut random),
            Some("js") => function(&mut random),
            Some("html") => paragraph(&mut random),
            Some("svg") => path(&mut random),
            _ => format!("{{\"{}\": {}}},\n", random.of(&NAMES), random.within(0, 100_000)),
        };
        text.push_str(&line);
    }
    text.truncate(bytes);
    text.into_bytes()
}

fn rule(random: &mut Random) -> String {
    let mut text = format!(".{}-{} .{} {{\n", random.of(&NAMES), random.within(0, 90), random.of(&NAMES));
    for _ in 0..random.within(2, 6) {
        let _ = writeln!(text, "  {}: {}px;", random.of(&PROPERTIES), random.within(0, 120));
    }
    let _ = writeln!(text, "  color: #{:06x};\n}}", random.within(0, 1 << 24));
    text
}

fn function(random: &mut Random) -> String {
    let mut name = || format!("{}{}{}", random.of(&CALLS), random.of(&NAMES), random.within(0, 400));
    let (own, other, third) = (name(), name(), name());
    format!(
        "function {own}(value, next) {{\n  if (value.{} > {}) {{\n    return {other}(value, next + {});\n  }}\n  \
         return {third}(value.{}, {{ {}: next }});\n}}\n",
        random.of(&NAMES),
        random.within(0, 1000),
        random.within(0, 64),
        random.of(&NAMES),
        random.of(&NAMES),
    )
}

fn paragraph(random: &mut Random) -> String {
    let mut text = format!("<div class=\"{}-{}\">\n", random.of(&NAMES), random.within(0, 90));
    for _ in 0..random.within(2, 6) {
        let (name, thing) = (random.of(&NAMES), random.of(&THINGS));
        let _ = writeln!(text, "  <a href=\"/{name}/{}\">{thing}</a>", random.within(0, 5000));
    }
    text.push_str("</div>\n");
    text
}

fn path(random: &mut Random) -> String {
    let mut text = "<path d=\"M".to_owned();
    for _ in 0..random.within(4, 12) {
        let _ = write!(text, " {}.{} {}", random.within(0, 512), random.within(0, 10), random.within(0, 512));
    }
    let _ = writeln!(text, "\" fill=\"#{:06x}\"/>", random.within(0, 1 << 24));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_asks_for_all_files() {
        let script = include_str!("../../../../wrk/arena-static.lua");
        assert!(FILES.iter().all(|(name, _)| script.contains(&format!("\"{name}\""))));
        assert_eq!(script.matches(".css\"").count() + script.matches(".js\"").count(), 10);
        let text: usize = FILES.iter().filter(|(name, _)| is_text(name)).map(|(_, bytes)| bytes).sum();
        assert_eq!((text, FILES.iter().map(|(_, bytes)| bytes).sum()), (966, 1166));
    }

    #[test]
    fn data_are_the_same_each_time_and_compress_as_text_does() {
        let (css, again) = (content("page-1.css", 8000), content("page-1.css", 8000));
        assert!(css == again && css.len() == 8000 && css != content("page-2.css", 8000));
        let compressed = gzip(&css).unwrap().len();
        assert!((1000..4000).contains(&compressed), "{compressed}");
        let binary = content("photo-1.webp", 8000);
        assert!(gzip(&binary).unwrap().len() > 7900);
    }

    #[test]
    fn an_answer_has_the_first_items_with_their_totals() {
        let answer = answer(5, 7).unwrap();
        assert_eq!(answer["count"], 5);
        let items = answer["items"].as_array().unwrap();
        assert_eq!(items.len(), 5);
        for item in items {
            let of = |key: &str| item[key].as_u64().unwrap();
            assert_eq!(of("total"), of("price") * of("quantity") * 7);
            assert!(
                item["rating"]["score"].is_u64() && item["tags"].is_array() && item["active"].is_boolean()
            );
        }
        assert_eq!(items[0]["id"], 1);
    }
}
