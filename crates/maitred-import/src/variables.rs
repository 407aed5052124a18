//! Variables of the environment that the server is to take from its own, in values.

/// What stands for `${`, `:-` and `}` of a variable of the environment in a value, whose own `${` is no such.
const VARIABLE: [char; 3] = ['\u{4}', '\u{5}', '\u{6}'];

/// A variable that the server takes from its own environment, in a value; without it, `otherwise`.
pub(crate) fn one(name: &str, otherwise: &str) -> String {
    let [open, joint, close] = VARIABLE;
    format!("{open}{name}{joint}{otherwise}{close}")
}

/// Whether a variable stands in a text.
pub(crate) fn is_in(text: &str) -> bool {
    text.contains(VARIABLE[0])
}

/// Whether a variable ends a text.
pub(crate) fn is_at_end(text: &str) -> bool {
    text.ends_with(VARIABLE[2])
}

/// The text with what is taken in the place of variables that are not set, by what stands before them and behind them.
pub(crate) fn with_otherwise(text: &str, otherwise: impl Fn(&str, (&str, &str)) -> String) -> String {
    let [open, joint, close] = VARIABLE;
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(open) {
        out.push_str(before);
        let (inside, after) = behind.split_once(close).unwrap_or((behind, ""));
        let name = inside.split(joint).next().unwrap_or_default();
        out.push_str(&one(name, &otherwise(name, (before, after))));
        rest = after;
    }
    out + rest
}

/// The text with its variables as they are written.
pub(crate) fn written(text: &str) -> String {
    let [open, joint, close] = VARIABLE;
    match text.contains(VARIABLE) {
        true => text.replace(open, "${").replace(joint, ":-").replace(close, "}"),
        false => text.to_owned(),
    }
}
