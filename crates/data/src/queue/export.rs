//! Tasks and answers in the formats of other programs.

mod coco;

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use super::shown::Queue;
use super::{Answer, Said, Task, label_studio, sheet};
use crate::dataset::Dataset;
use crate::{Error, Side};

/// A format for exporting answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One [`Answer`] per line.
    Jsonl,
    /// One row per answer: the sheet of [`write_csv`](super::write_csv), filled in.
    Csv,
    /// COCO's captions layout. It cannot hold skips, nor images that annotators uploaded: they are
    /// counted in `info` and left out.
    Coco,
    /// The tasks of [`write_label_studio`](super::write_label_studio) with their annotations.
    LabelStudio,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [ExportFormat; 4] =
        [ExportFormat::Jsonl, ExportFormat::Csv, ExportFormat::Coco, ExportFormat::LabelStudio];

    /// The default file name of this format. Errors about an export use it, too.
    pub fn file_name(self) -> &'static str {
        match self {
            ExportFormat::Jsonl => "answers.jsonl",
            ExportFormat::Csv => "answers.csv",
            ExportFormat::Coco => "answers.coco.json",
            ExportFormat::LabelStudio => "answers.label-studio.json",
        }
    }

    /// The file extension of this format, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            ExportFormat::Jsonl => "jsonl",
            ExportFormat::Csv => "csv",
            ExportFormat::Coco | ExportFormat::LabelStudio => "json",
        }
    }

    /// The media type of this format.
    pub fn media_type(self) -> &'static str {
        match self {
            ExportFormat::Jsonl => "application/x-ndjson",
            ExportFormat::Csv => "text/csv; charset=utf-8",
            ExportFormat::Coco | ExportFormat::LabelStudio => "application/json",
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExportFormat::Jsonl => "jsonl",
            ExportFormat::Csv => "csv",
            ExportFormat::Coco => "coco",
            ExportFormat::LabelStudio => "label-studio",
        })
    }
}

impl FromStr for ExportFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        ExportFormat::ALL.into_iter().find(|format| format.to_string() == text).ok_or_else(|| {
            let names = ExportFormat::ALL.map(|format| format.to_string()).join(", ");
            Error::Argument { name: "form", what: format!("{text:?} is none of {names}") }
        })
    }
}

/// Writes answers to tasks of a pool. Every answer must be about one of the tasks.
///
/// [`read_answers`](super::read_answers) reads every format back: the same answers in the same
/// order, trimmed. COCO's format loses skips, and Label Studio's orders answers by task.
pub fn export(
    out: &mut dyn Write,
    format: ExportFormat,
    tasks: &[Task],
    answers: &[Answer],
    dataset: &Dataset,
    pool: Side,
) -> Result<(), Error> {
    let path = Path::new(format.file_name());
    let queue = Queue::of(path, tasks, dataset)?;
    for (row, answer) in answers.iter().enumerate() {
        check(answer, &queue, pool).map_err(|what| Error::row(path, row, what))?;
    }
    match format {
        ExportFormat::Jsonl => write_lines(out, answers),
        ExportFormat::Csv => {
            let questions = sheet::Questions::of(dataset, pool);
            sheet::write_answers(out, &queue, answers, &questions)
        }
        ExportFormat::Coco => return coco::write(out, path, answers, dataset),
        ExportFormat::LabelStudio => {
            let layout = label_studio::Layout::of(path, tasks, dataset, pool)?;
            label_studio::write_annotations(out, &queue, answers, &layout)
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
    if !queue.has(&answer.id) {
        return Err(format!("an answer about {:?}, which is no task", answer.id));
    }
    Ok(())
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
