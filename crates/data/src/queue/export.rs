//! Tasks and answers in the formats of other programs.

mod coco;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::shown::Queue;
use super::{Answer, AnswerContent, Outcome, Task, label_studio, sheet};
use crate::dataset::Dataset;
use crate::{Error, Side};

/// A format for exporting answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One [`Answer`] per line; then one line per task without a finished answer, with its `status`.
    Jsonl,
    /// One row per answer: the sheet of [`write_csv`](super::write_csv), filled in; then one row per
    /// task without a finished answer, whose column `exported` has the status.
    Csv,
    /// COCO's captions layout. It cannot hold skips, tasks without a finished answer, nor images that
    /// annotators uploaded: they are counted in `info` and left out.
    Coco,
    /// The tasks of [`write_label_studio`](super::write_label_studio) with their annotations, and the
    /// `status` in the data of each.
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

/// The finished answers to some tasks, to be exported.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The finished answers. Each is about one of the tasks.
    pub answers: Vec<Answer>,
    /// The items whose answers wait for review.
    pub unreviewed: HashSet<String>,
}

impl Answered {
    /// What became of every task, in their order.
    fn outcomes(&self) -> Vec<Outcome> {
        let mut finished: HashMap<&str, Outcome> = HashMap::new();
        for answer in &self.answers {
            let outcome = finished.entry(&answer.id).or_insert(Outcome::Refused);
            if !matches!(answer.said, AnswerContent::Skip(_)) {
                *outcome = Outcome::Answered;
            }
        }
        let outcome = |task: &Task| match finished.get(task.id.as_str()) {
            Some(outcome) => *outcome,
            None if self.unreviewed.contains(&task.id) => Outcome::Unreviewed,
            None => Outcome::Unanswered,
        };
        self.tasks.iter().map(outcome).collect()
    }
}

/// A line of an export about a task without a finished answer.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenTask<'a> {
    id: Cow<'a, str>,
    pub(super) status: Outcome,
}

/// Writes answers to tasks of a pool, and which tasks have none.
///
/// [`read_answers`](super::read_answers) reads every format back: the same answers in the same
/// order, trimmed. COCO's format loses skips, and Label Studio's orders answers by task.
pub fn export(
    out: &mut dyn Write,
    format: ExportFormat,
    answered: &Answered,
    dataset: &Dataset,
    pool: Side,
) -> Result<(), Error> {
    let path = Path::new(format.file_name());
    let Answered { tasks, answers, .. } = answered;
    let queue = Queue::of(path, tasks, dataset)?;
    for (row, answer) in answers.iter().enumerate() {
        check(answer, &queue, pool).map_err(|what| Error::row(path, row, what))?;
    }
    let outcomes = answered.outcomes();
    let open = tasks.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_open());
    let open: Vec<OpenTask<'_>> = open
        .map(|(task, outcome)| OpenTask { id: task.id.as_str().into(), status: *outcome })
        .collect();
    match format {
        ExportFormat::Jsonl => write_lines(out, answers).and_then(|()| write_lines(out, &open)),
        ExportFormat::Csv => {
            let questions = sheet::Questions::of(dataset, pool);
            let open: Vec<_> = open.iter().map(|task| (&*task.id, task.status)).collect();
            sheet::write_answers(out, &queue, answers, &open, &questions)
        }
        ExportFormat::Coco => return coco::write(out, path, answers, &outcomes, dataset),
        ExportFormat::LabelStudio => {
            let layout = label_studio::Layout::of(path, tasks, dataset, pool)?;
            label_studio::write_annotations(out, &queue, answers, &outcomes, &layout)
        }
    }
    .map_err(|e| Error::io(path, e))
}

fn check(answer: &Answer, queue: &Queue<'_>, pool: Side) -> Result<(), String> {
    answer.check()?;
    match (&answer.said, pool) {
        (AnswerContent::Caption(_), Side::Text) | (AnswerContent::Image(_), Side::Image) => {
            return Err(format!("not an answer about {pool}s: {:?}", answer.said));
        }
        _ => {}
    }
    if !queue.has(&answer.id) {
        return Err(format!("an answer about {:?}, which is no task", answer.id));
    }
    Ok(())
}

fn write_lines(out: &mut dyn Write, lines: &[impl Serialize]) -> std::io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *out, line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
