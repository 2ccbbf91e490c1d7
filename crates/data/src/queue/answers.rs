//! Answers as people and their tools write them down.

mod coco;
mod label_studio;
mod lines;
mod sheet;

use std::path::Path;

pub(super) use lines::parse;

use super::{Answer, Said};
use crate::dataset::Dataset;
use crate::{Error, Side, mapping};

/// Reads what people said about the tasks of a pool: `.jsonl` with one [`Answer`] a line, `.csv`
/// with a header (the sheet of [`write_csv`](super::write_csv), or any table with `id` and
/// `caption`, for text pools `id` and `image`), or `.json` as Label Studio exports it (JSON or
/// JSON-MIN) or in the captions layout of COCO. Rows that were left empty are no answers; whatever
/// is wrong is an error with its place. COCO's images are looked for in the dataset; nothing else
/// is.
pub fn read_answers(path: &Path, pool: Side, dataset: &Dataset) -> Result<Vec<Answer>, Error> {
    let placed = read_placed_answers(path, pool, dataset)?;
    Ok(placed.into_iter().map(|(_, answer)| answer).collect())
}

/// The same as [`read_answers`], with the place of every answer for whoever has to complain.
pub fn read_placed_answers(
    path: &Path,
    pool: Side,
    dataset: &Dataset,
) -> Result<Vec<(Place, Answer)>, Error> {
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

/// Where an answer stands in its file. All count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of text.
    Line(usize),
    /// A task of Label Studio.
    Task(usize),
    /// An annotation of COCO.
    Annotation(usize),
}

impl Place {
    /// Something is wrong at this place of a file.
    pub fn error(self, path: &Path, what: impl AsRef<str>) -> Error {
        let what = what.as_ref();
        match self {
            Place::Line(line) => Error::line(path, line, what),
            Place::Task(task) => Error::format(path, format!("task {task}: {what}")),
            Place::Annotation(number) => {
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

/// The answer without blanks around what was said, if it is one for this pool.
fn accepted(mut answer: Answer, pool: Side) -> Result<Answer, String> {
    let (Said::Caption(said) | Said::Image(said) | Said::Skip(said)) = &mut answer.said;
    if said.trim().len() < said.len() {
        *said = said.trim().to_owned();
    }
    match (&answer.said, pool) {
        (Said::Caption(_), Side::Text) => {
            return Err("a caption, but texts are paired with an image".to_owned());
        }
        (Said::Image(_), Side::Image) => {
            return Err("an image, but images are paired with a caption".to_owned());
        }
        _ => {}
    }
    answer.check().map(|()| answer)
}

/// Something said of an item of this pool: its other half.
fn other_half(pool: Side, said: String) -> Said {
    match pool {
        Side::Image => Said::Caption(said),
        Side::Text => Said::Image(said),
    }
}

#[cfg(test)]
mod tests;
