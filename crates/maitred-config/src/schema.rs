//! The JSON Schema of a configuration file (draft 2020-12), made from the declared keys. Editors use it for
//! completion and for checks while typing.

use serde_json::{Map, Value, json};

use super::keys::{Default, Key, Kind, Table};
use super::tables::ROOT;

/// `${NAME}`, somewhere in a string.
const PLACEHOLDER: &str = "\\$\\{.+\\}";

/// The whole schema.
pub fn schema() -> Value {
    let mut schema = table(&ROOT);
    if let Value::Object(object) = &mut schema {
        // What one file lacks may be in another one.
        object.remove("required");
        object.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        object.insert("title".into(), "Configuration of Maitred".into());
    }
    schema
}

fn table(spec: &Table) -> Value {
    let properties: Map<String, Value> =
        spec.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<_> = required(spec).collect();
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if let (Value::Object(object), false) = (&mut schema, required.is_empty()) {
        object.insert("required".into(), required.into());
    }
    schema
}

fn required(spec: &Table) -> impl Iterator<Item = &'static str> {
    spec.keys.iter().filter(|key| matches!(key.default, Default::Required)).map(|key| key.name)
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    if let Value::Object(object) = &mut schema {
        object.insert("description".into(), key.doc.into());
        if let Some(default) = default(&key.default) {
            object.insert("default".into(), default);
        }
    }
    schema
}

/// A string with a placeholder can stand for anything but arrays and tables.
fn kind(kind: &Kind) -> Value {
    let placeholder = || json!({ "type": "string", "pattern": PLACEHOLDER });
    let mut schema = plain(kind);
    match kind {
        Kind::Choices(words) => {
            let items = json!({ "anyOf": [{ "enum": words }, placeholder()] });
            schema["items"] = items;
        }
        Kind::Choice(_) | Kind::Flag | Kind::FlagOrChoice(_) | Kind::Whole { .. } => {
            schema = json!({ "anyOf": [schema, placeholder()] });
        }
        Kind::WordOrWhole { .. }
        | Kind::WholeOrSection { .. }
        | Kind::ChoiceOrSection { .. }
        | Kind::FlagOrSection(_)
        | Kind::FlagOrWordOrSection { .. }
        | Kind::Size { .. }
        | Kind::Time { .. } => {
            if let Some(any) = schema["anyOf"].as_array_mut() {
                any.push(placeholder());
            }
        }
        _ => {}
    }
    schema
}

fn plain(kind: &Kind) -> Value {
    match kind {
        Kind::Text(_) => json!({ "type": "string" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::FlagOrChoice(words) => json!({ "anyOf": [{ "type": "boolean" }, { "enum": words }] }),
        Kind::FlagOrText(_) => json!({ "type": ["boolean", "string"] }),
        Kind::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::WordOrWhole { words, min, max } => {
            json!({ "anyOf": [{ "enum": words }, { "type": "integer", "minimum": min, "maximum": max }] })
        }
        Kind::WholeOrSection { min, max, table: spec } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, table(spec)] })
        }
        Kind::ChoiceOrSection { words, table: spec } => json!({ "anyOf": [{ "enum": words }, table(spec)] }),
        Kind::FlagOrSection(spec) => json!({ "anyOf": [{ "type": "boolean" }, table(spec)] }),
        Kind::FlagOrWordOrSection { words, table: spec } => {
            json!({ "anyOf": [{ "type": "boolean" }, { "enum": words }, table(spec)] })
        }
        Kind::Size { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            { "type": "string", "pattern": "^[0-9]+(\\.[0-9]{1,9})? ?(B|[kKmMgG]|KiB|MiB|GiB|kB|MB|GB)?$" },
        ] }),
        Kind::Time { min, max } => json!({ "anyOf": [
            { "type": "integer", "minimum": min.as_secs(), "maximum": max.as_secs() },
            { "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|min|h)$" },
        ] }),
        Kind::Texts(_) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::TextOrTexts(_) => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": "string" } }] })
        }
        Kind::Choices(words) => {
            json!({ "type": "array", "items": { "enum": words }, "uniqueItems": true })
        }
        Kind::TextsOrSections(_, spec) => {
            let one = json!({ "anyOf": [{ "type": "string" }, table(spec)] });
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": one }] })
        }
        Kind::Map(_) => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::TextOrMap(..) => json!({
            "anyOf": [{ "type": "string" }, { "type": "object", "additionalProperties": { "type": "string" } }],
        }),
        Kind::Lists(_) => json!({
            "type": "object",
            "additionalProperties": { "type": "array", "items": { "type": "string" } },
        }),
        Kind::Section(spec) => table(spec),
        Kind::Sections(spec) => json!({ "type": "array", "minItems": 1, "items": table(spec) }),
        Kind::SectionOrSections(spec) => {
            let one = table(spec);
            json!({ "anyOf": [one, { "type": "array", "minItems": 1, "items": one }] })
        }
        Kind::Free(_) => json!({ "type": "object" }),
        Kind::Named(spec) => json!({ "type": "object", "additionalProperties": table(spec) }),
    }
}

fn default(default: &Default) -> Option<Value> {
    match default {
        Default::Required | Default::Absent(_) => None,
        Default::Text(text) => Some((*text).into()),
        Default::Flag(flag) => Some((*flag).into()),
        Default::Whole(number) | Default::Size(number) => Some((*number).into()),
        Default::Time(time) => Some(super::values::show_duration(*time).into()),
        Default::Texts(texts) => Some(json!(texts)),
    }
}
