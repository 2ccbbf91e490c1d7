//! Answers in Label Studio's exports: complete (JSON) or flattened (JSON-MIN).

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{FilePosition, accepted, other_half};
use crate::import::json;
use crate::queue::label_studio::SKIP;
use crate::queue::shown::wanted;
use crate::queue::{Answer, AnswerContent, Provenance};
use crate::{Error, Side};

/// A task with all its annotations.
#[derive(Deserialize)]
struct AnnotatedTask {
    data: Map<String, Value>,
    annotations: Vec<Annotation>,
}

/// The answer of one annotator.
#[derive(Deserialize)]
struct Annotation {
    was_cancelled: Option<bool>,
    completed_by: Option<Value>,
    result: Option<Vec<Region>>,
    /// Only in our own exports.
    provenance: Option<Provenance>,
}

/// The entry of one control.
#[derive(Deserialize)]
struct Region {
    r#type: Option<String>,
    from_name: Option<String>,
    value: Option<Value>,
}

pub(super) fn read(path: &Path, pool: Side) -> Result<Vec<(FilePosition, Answer)>, Error> {
    let tasks: Vec<Box<RawValue>> = json::read(path)?;
    let mut answers = Vec::new();
    let (mut flattened, mut with_answer) = (false, false);
    for (at, raw) in tasks.iter().enumerate() {
        let mut answers_of = || {
            let task: Map<String, Value> = json::entry(raw)?;
            if task.contains_key("annotations") {
                return whole(json::entry(raw)?, pool);
            }
            if !task.contains_key("annotation_id") {
                return Err("no annotations: this is not an export of answers".to_owned());
            }
            flattened = true;
            with_answer |= task.contains_key(wanted(pool));
            flat(&task, pool)
        };
        let place = FilePosition::Task(at + 1);
        let found = answers_of().map_err(|what| place.error(path, what))?;
        answers.extend(found.into_iter().map(|answer| (place, answer)));
    }
    if flattened && !with_answer {
        let what = format!(
            "no task has a {0}; a text area of another name than {0} is found in the JSON export only",
            wanted(pool)
        );
        return Err(Error::format(path, what));
    }
    Ok(answers)
}

/// The answers in one task of the JSON export.
fn whole(task: AnnotatedTask, pool: Side) -> Result<Vec<Answer>, String> {
    let id = match (task.data.get("item"), task.data.get("id")) {
        (Some(id), _) | (None, Some(id)) => name(id),
        (None, None) => None,
    };
    let id = id.ok_or("its data have no item or id")?;
    let mut answers = Vec::new();
    for annotation in task.annotations {
        let annotator = annotation.completed_by.as_ref().and_then(person);
        let said = match annotation.was_cancelled {
            Some(true) => {
                vec![AnswerContent::Skip(reason(&annotation.result.unwrap_or_default())?)]
            }
            _ => entered(&annotation.result.unwrap_or_default(), pool)?,
        };
        for said in said {
            let (id, annotator) = (id.clone(), annotator.clone());
            answers.push(accepted(
                Answer { id, said, annotator, provenance: annotation.provenance },
                pool,
            )?);
        }
    }
    Ok(answers)
}

/// The reason for a skip, or nothing: Label Studio does not ask for one, but our own exports have it.
fn reason(regions: &[Region]) -> Result<String, String> {
    let skip = regions.iter().find(|region| region.from_name.as_deref() == Some(SKIP));
    let Some(value) = skip.and_then(|region| region.value.as_ref()) else {
        return Ok(String::new());
    };
    let mut said = Vec::new();
    texts(value, &mut said)?;
    Ok(said.join("\n"))
}

/// The entries of the text area with the expected name, or else of the only text area.
fn entered(regions: &[Region], pool: Side) -> Result<Vec<AnswerContent>, String> {
    let areas = || regions.iter().filter(|region| region.r#type.as_deref() == Some("textarea"));
    let named = |region: &&Region| region.from_name.as_deref() == Some(wanted(pool));
    let has_name = areas().any(|region| named(&region));
    let areas: Vec<&Region> = areas().filter(|region| !has_name || named(region)).collect();
    if areas.iter().any(|region| region.from_name != areas[0].from_name) {
        return Err(format!("several text areas, none of which is called {}", wanted(pool)));
    }
    let mut said = Vec::new();
    for value in areas.iter().filter_map(|region| region.value.as_ref()) {
        texts(value, &mut said)?;
    }
    Ok(said.into_iter().map(|text| other_half(pool, text)).collect())
}

/// The answers in one task of the JSON-MIN export.
fn flat(task: &Map<String, Value>, pool: Side) -> Result<Vec<Answer>, String> {
    let id = match (task.get("item"), task.get("id")) {
        (Some(id), _) => name(id),
        // A numeric id is Label Studio's own.
        (None, Some(Value::String(id))) => Some(id.clone()),
        (None, _) => None,
    };
    let id = id.ok_or("there is no item in it, and its id is not that of an item")?;
    let annotator = task.get("annotator").and_then(person);
    let mut said = Vec::new();
    if let Some(value) = task.get(wanted(pool)) {
        texts(value, &mut said)?;
    }
    let answer = |text| Answer {
        id: id.clone(),
        said: other_half(pool, text),
        annotator: annotator.clone(),
        provenance: None,
    };
    said.into_iter().map(|text| accepted(answer(text), pool)).collect()
}

/// The texts in a value of a text area: one, a list of them, or an object that has either.
fn texts(value: &Value, found: &mut Vec<String>) -> Result<(), String> {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => return values.iter().try_for_each(|value| texts(value, found)),
        Value::Object(area) if area.contains_key("text") => return texts(&area["text"], found),
        other => {
            let seen: String = other.to_string().chars().take(40).collect();
            return Err(format!("what was said must be a text, but is {seen}"));
        }
    }
    Ok(())
}

/// An annotator: a name or number, or an object with an email or an id.
fn person(value: &Value) -> Option<String> {
    match value {
        Value::Object(person) => ["email", "id"].iter().find_map(|key| name(person.get(*key)?)),
        value => name(value),
    }
}

/// A name, or a number that serves as one.
pub(super) fn name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
