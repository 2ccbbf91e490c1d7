//! Answers as JSON lines.

use std::path::Path;

use super::{Place, accepted};
use crate::dataset::without_place;
use crate::lines::{Line, Lines};
use crate::queue::Answer;
use crate::{Error, Side};

pub(super) fn read(path: &Path, pool: Side) -> Result<Vec<(Place, Answer)>, Error> {
    read_by(path, |answer| accepted(answer, pool))
}

/// Reads answers about items of both sides, as they are.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<Answer>, Error> {
    let placed = read_by(path, |answer| answer.check().map(|()| answer))?;
    Ok(placed.into_iter().map(|(_, answer)| answer).collect())
}

fn read_by(
    path: &Path,
    accept: impl Fn(Answer) -> Result<Answer, String>,
) -> Result<Vec<(Place, Answer)>, Error> {
    let (mut lines, mut answers) = (Lines::open(path)?, Vec::new());
    while let Some(Line { number, text }) = lines.next()? {
        let answer = text.and_then(|text| accept(parse(&text)?));
        let place = Place::Line(number);
        answers.push((place, answer.map_err(|what| place.error(path, what))?));
    }
    Ok(answers)
}

/// Parses one line as an answer, without checking it.
pub(in crate::queue) fn parse(line: &str) -> Result<Answer, String> {
    if line.trim().is_empty() {
        return Err("the line is empty".to_owned());
    }
    serde_json::from_str(line).map_err(|e| match without_place(&e) {
        // Serde's message names our types; describe the line instead.
        what if what.contains("enum Said") => {
            "not an answer: neither a caption, nor an image, nor a skip".to_owned()
        }
        what => format!("not an answer: {what}"),
    })
}
