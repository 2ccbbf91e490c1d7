//! Captions in JSON objects written by other programs.

use serde_json::{Map, Value};

/// Keys that may hold captions, the preferred first.
pub(super) const KEYS: [&str; 3] = ["caption", "text", "captions"];

/// Reads a caption or a list of them from `key`, or from the first of the usual keys that has any.
pub(super) fn captions(row: &Map<String, Value>, key: Option<&str>) -> Result<Vec<String>, String> {
    let given = |key: &str| row.get(key).filter(|value| !value.is_null());
    let value = match key {
        Some(key) => given(key),
        None => KEYS.iter().find_map(|key| given(key)),
    };
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("a caption must be a text, but is {other}")),
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(values)) => values.iter().map(one).collect(),
        Some(value) => Ok(vec![one(value)?]),
    }
}
