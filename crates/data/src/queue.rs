//! What goes to people who pair, and what comes back from them.

use serde::{Deserialize, Serialize};

/// A pool item that somebody should pair: a line of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// From 1, most wanted first.
    pub rank: usize,
    /// The item.
    pub id: String,
    /// What it was ranked by.
    pub score: f64,
    /// How many paired texts (or images) it would be confused with, for strategies that look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u32>,
    /// The strongest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Why>,
}

/// A pair that an item would be confused with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The item whose image the pair has.
    pub id: String,
    /// The caption of the pair.
    pub caption: String,
    /// How similar the pool item is to the pair's other half.
    pub similarity: f64,
    /// How similar the hardest rival was so far.
    pub threshold: f64,
    /// By how much the similarity exceeds the threshold.
    pub surplus: f64,
}

/// What somebody said about a task: a line of the answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The item of the task.
    pub id: String,
    /// What was said.
    #[serde(flatten)]
    pub said: Said,
    /// Who said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotator: Option<String>,
}

/// The other half of a task, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// A caption for an image.
    Caption(String),
    /// For a text: the item of the dataset whose image it describes.
    Image(String),
    /// The item cannot be paired, for this reason. It leaves the pool.
    Skip(String),
}

/// Writes a queue, a task a line.
pub fn write(path: &std::path::Path, tasks: &[Task]) -> Result<(), crate::Error> {
    use std::io::Write;
    let mut file = crate::AtomicFile::create(path)?;
    for task in tasks {
        let line =
            serde_json::to_string(task).map_err(|e| crate::Error::format(path, e.to_string()))?;
        writeln!(file, "{line}").map_err(|e| crate::Error::io(path, e))?;
    }
    file.commit()
}

/// Reads a queue.
pub fn read(path: &std::path::Path) -> Result<Vec<Task>, crate::Error> {
    let lines = crate::lines::Lines::all(path)?;
    let task = |(at, line): (usize, &String)| {
        serde_json::from_str(line).map_err(|e| crate::Error::line(path, at + 1, e.to_string()))
    };
    lines.iter().enumerate().map(task).collect()
}
