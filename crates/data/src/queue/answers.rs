//! Answers in the formats of people and their tools.

mod coco;
mod label_studio;
mod lines;
mod sheet;

use std::collections::{HashMap, HashSet};
use std::path::Path;

pub(super) use lines::parse;
pub(crate) use lines::read_lines;

use super::{Answer, AnswerContent};
use crate::dataset::Dataset;
use crate::{Error, Side, mapping};

/// Reads answers to the tasks of a pool.
///
/// The file is `.jsonl` with one [`Answer`] per line; `.csv` with a header (the sheet of
/// [`write_csv`](super::write_csv), or any table with `id` and `caption`, for text pools `id` and
/// `image`); or `.json` in Label Studio's export formats (JSON or JSON-MIN) or in COCO's captions
/// layout. Empty rows are not answers. Errors name their place in the file. Only COCO's images are
/// looked up in the dataset.
pub fn read_answers(path: &Path, pool: Side, dataset: &Dataset) -> Result<Vec<Answer>, Error> {
    let placed = read_placed_answers(path, pool, dataset)?;
    Ok(placed.into_iter().map(|(_, answer)| answer).collect())
}

/// Like [`read_answers`], with the place of every answer for error messages.
pub fn read_placed_answers(
    path: &Path,
    pool: Side,
    dataset: &Dataset,
) -> Result<Vec<(FilePosition, Answer)>, Error> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "jsonl" => lines::read(path, pool),
        "csv" => sheet::read(path, pool),
        "json" if is_object(path)? => coco::read(path, pool, dataset),
        "json" => label_studio::read(path, pool),
        _ => {
            let what = "answers are read from .jsonl, .csv and .json (an export of Label Studio, \
                        or captions in COCO's layout)";
            Err(Error::format(path, what))
        }
    }
}

/// Reads the ids of the items that annotators refused; see [`refused`].
pub fn read_refused(path: &Path, pool: Side) -> Result<Vec<String>, Error> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let placed = match extension.to_ascii_lowercase().as_str() {
        "jsonl" => lines::read(path, pool)?,
        "csv" => sheet::read(path, pool)?,
        "json" if is_object(path)? => {
            return Err(Error::format(path, "captions in COCO's layout say nothing of skips"));
        }
        "json" => label_studio::read(path, pool)?,
        _ => {
            let what = "answers are read from .jsonl, .csv and .json (an export of Label Studio)";
            return Err(Error::format(path, what));
        }
    };
    Ok(refused(placed.into_iter().map(|(_, answer)| answer).collect()))
}

/// Returns the ids of the items that were skipped with a reason and that no standing answer pairs, in
/// order of their first skip. A skip without a reason says nothing about the item.
pub fn refused(answers: Vec<Answer>) -> Vec<String> {
    let answers = standing(answers);
    let is_skip = |answer: &&Answer| matches!(answer.said, AnswerContent::Skip(_));
    let paired: HashSet<&str> =
        answers.iter().filter(|answer| !is_skip(answer)).map(|answer| answer.id.as_str()).collect();
    let mut seen = HashSet::new();
    let refused = answers.iter().filter(|answer| answer.refusal().is_some());
    let refused = refused.map(|answer| answer.id.as_str());
    refused.filter(|id| !paired.contains(id) && seen.insert(*id)).map(str::to_owned).collect()
}

/// Returns the valid answers: a skip revokes earlier answers of the same person to the item.
pub fn standing(answers: Vec<Answer>) -> Vec<Answer> {
    let mut last_skip: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for (at, answer) in answers.iter().enumerate() {
        if matches!(answer.said, AnswerContent::Skip(_)) {
            last_skip.insert((&answer.id, answer.annotator.as_deref()), at);
        }
    }
    let stands = |(at, answer): &(usize, &Answer)| {
        let skip = last_skip.get(&(answer.id.as_str(), answer.annotator.as_deref()));
        skip.is_none_or(|skip| skip <= at)
    };
    answers.iter().enumerate().filter(stands).map(|(_, answer)| answer.clone()).collect()
}

/// The place of an answer or a pick in its file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// A line of text.
    Line(usize),
    /// A Label Studio task.
    Task(usize),
    /// A COCO annotation.
    Annotation(usize),
    /// A row of a Parquet file.
    Row(usize),
}

impl FilePosition {
    /// Makes an error about this place of a file.
    pub fn error(self, path: &Path, what: impl AsRef<str>) -> Error {
        let what = what.as_ref();
        match self {
            FilePosition::Line(line) => Error::line(path, line, what),
            FilePosition::Task(task) => Error::format(path, format!("task {task}: {what}")),
            FilePosition::Row(row) => Error::format(path, format!("row {row}: {what}")),
            FilePosition::Annotation(number) => {
                Error::format(path, format!("annotation {number}: {what}"))
            }
        }
    }
}

/// COCO's layout is an object, Label Studio's a list.
fn is_object(path: &Path) -> Result<bool, Error> {
    let bytes = mapping::map(path)?;
    let bytes = bytes.as_slice();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Ok(bytes.trim_ascii_start().first() == Some(&b'{'))
}

/// Trims the answer, or returns an error if it does not fit this pool.
fn accepted(mut answer: Answer, pool: Side) -> Result<Answer, String> {
    let (AnswerContent::Caption(said) | AnswerContent::Image(said) | AnswerContent::Skip(said)) =
        &mut answer.said;
    if said.trim().len() < said.len() {
        *said = said.trim().to_owned();
    }
    match (&answer.said, pool) {
        (AnswerContent::Caption(_), Side::Text) => {
            return Err("a caption, but texts are paired with an image".to_owned());
        }
        (AnswerContent::Image(_), Side::Image) => {
            return Err("an image, but images are paired with a caption".to_owned());
        }
        _ => {}
    }
    answer.check().map(|()| answer)
}

/// Makes an answer from the other half of an item of this pool.
fn other_half(pool: Side, said: String) -> AnswerContent {
    match pool {
        Side::Image => AnswerContent::Caption(said),
        Side::Text => AnswerContent::Image(said),
    }
}

#[cfg(test)]
mod tests;
