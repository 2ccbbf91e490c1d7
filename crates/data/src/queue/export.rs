//! What was asked and what was said, in the forms that other programs read.

mod coco;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use super::shown::Queue;
use super::{Answer, Said, Task, label_studio, sheet};
use crate::dataset::Dataset;
use crate::{Error, Side};

/// A form in which answers leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One [`Answer`] a line.
    Jsonl,
    /// One row per answer: the sheet of [`write_csv`](super::write_csv), filled in.
    Csv,
    /// The captions layout of COCO. It has no place for items that were skipped, and the dataset none
    /// for images that people brought: they are counted in its `info` and left out.
    Coco,
    /// The tasks of [`write_label_studio`](super::write_label_studio) with their annotations.
    LabelStudio,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 4] = [Form::Jsonl, Form::Csv, Form::Coco, Form::LabelStudio];

    /// What files of this form are called by default. Errors call an export so, too.
    pub fn file_name(self) -> &'static str {
        match self {
            Form::Jsonl => "answers.jsonl",
            Form::Csv => "answers.csv",
            Form::Coco => "answers.coco.json",
            Form::LabelStudio => "answers.label-studio.json",
        }
    }

    /// The extension of its files, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Form::Jsonl => "jsonl",
            Form::Csv => "csv",
            Form::Coco | Form::LabelStudio => "json",
        }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Jsonl => "application/x-ndjson",
            Form::Csv => "text/csv; charset=utf-8",
            Form::Coco | Form::LabelStudio => "application/json",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Jsonl => "jsonl",
            Form::Csv => "csv",
            Form::Coco => "coco",
            Form::LabelStudio => "label-studio",
        })
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Form::ALL.into_iter().find(|form| form.to_string() == text).ok_or_else(|| {
            let names = Form::ALL.map(|form| form.to_string()).join(", ");
            Error::Argument { name: "form", what: format!("{text:?} is none of {names}") }
        })
    }
}

/// Writes answers to tasks of a pool. [`read_answers`](super::read_answers) reads every form
/// again: the same answers in the same order, without blanks around what was said. In COCO's there
/// are no skips, and in Label Studio's the order goes by tasks. Every answer must be about one of
/// the tasks.
pub fn export(
    out: &mut dyn Write,
    form: Form,
    tasks: &[Task],
    answers: &[Answer],
    dataset: &Dataset,
    pool: Side,
) -> Result<(), Error> {
    let path = Path::new(form.file_name());
    let queue = Queue::of(path, tasks, dataset)?;
    for (row, answer) in answers.iter().enumerate() {
        check(answer, &queue, pool).map_err(|what| Error::row(path, row, what))?;
    }
    match form {
        Form::Jsonl => write_lines(out, answers),
        Form::Csv => {
            let questions = sheet::Questions::of(path, dataset, pool)?;
            sheet::write_answers(out, &queue, answers, &questions)
        }
        Form::Coco => return coco::write(out, path, answers, dataset),
        Form::LabelStudio => {
            let form = label_studio::Form::of(path, tasks, dataset, pool)?;
            label_studio::write_annotations(out, &queue, answers, &form)
        }
    }
    .map_err(|e| Error::io(path, e))
}

fn check(answer: &Answer, queue: &Queue<'_>, pool: Side) -> Result<(), String> {
    answer.check()?;
    match (&answer.said, pool) {
        (Said::Caption(_), Side::Text) | (Said::Image(_), Side::Image) => {
            return Err(format!("not an answer about {pool}s: {:?}", answer.said));
        }
        _ => {}
    }
    match queue.has(&answer.id) {
        true => Ok(()),
        false => Err(format!("an answer about {:?}, which is no task", answer.id)),
    }
}

fn write_lines(out: &mut dyn Write, answers: &[Answer]) -> std::io::Result<()> {
    for answer in answers {
        serde_json::to_writer(&mut *out, answer)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
