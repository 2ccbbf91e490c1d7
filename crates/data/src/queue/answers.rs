//! Answers as people and their tools write them down.

mod label_studio;
mod lines;
mod sheet;

use std::path::Path;

pub(super) use lines::parse;

use super::{Answer, Said};
use crate::{Error, Side};

/// Reads what people said about the tasks of a pool: `.jsonl` with one [`Answer`] a line, `.csv`
/// with a header (the sheet of [`write_csv`](super::write_csv), or any table with `id` and
/// `caption`, for text pools `id` and `image`), or `.json` as Label Studio exports it (JSON or
/// JSON-MIN). Rows that were left empty are no answers; whatever is wrong is an error with its
/// place.
pub fn read_answers(path: &Path, pool: Side) -> Result<Vec<Answer>, Error> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "jsonl" => lines::read(path, pool),
        "csv" => sheet::read(path, pool),
        "json" => label_studio::read(path, pool),
        _ => {
            let what = "answers are read from .jsonl, .csv and .json (an export of Label Studio)";
            Err(Error::format(path, what))
        }
    }
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
