//! Answers as JSON lines.

use std::path::Path;

use super::{FilePosition, accepted};
use crate::dataset::without_place;
use crate::lines::{Line, Lines};
use crate::queue::Answer;
use crate::queue::export::OpenTask;
use crate::{Error, Side};

/// Reads answers, and passes over the tasks of an export that have none.
pub(super) fn read(path: &Path, pool: Side) -> Result<Vec<(FilePosition, Answer)>, Error> {
    read_by(path, |line| match serde_json::from_str::<OpenTask<'_>>(line) {
        Ok(task) if task.status.is_open() => Ok(None),
        _ => accepted(parse(line)?, pool).map(Some),
    })
}

/// Reads answers about items of both sides, as they are.
pub(crate) fn read_lines(path: &Path) -> Result<Vec<Answer>, Error> {
    let placed = read_by(path, |line| {
        let answer = parse(line)?;
        answer.check().map(|()| Some(answer))
    })?;
    Ok(placed.into_iter().map(|(_, answer)| answer).collect())
}

fn read_by(
    path: &Path,
    read: impl Fn(&str) -> Result<Option<Answer>, String>,
) -> Result<Vec<(FilePosition, Answer)>, Error> {
    let (mut lines, mut answers) = (Lines::open(path)?, Vec::new());
    while let Some(Line { number, text }) = lines.next()? {
        let place = FilePosition::Line(number);
        let answer = text.and_then(|text| read(&text));
        let answer = answer.map_err(|what| place.error(path, what))?;
        answers.extend(answer.map(|answer| (place, answer)));
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
        what if what.contains("enum AnswerContent") => {
            "not an answer: neither a caption, nor an image, nor a skip".to_owned()
        }
        what => format!("not an answer: {what}"),
    })
}
