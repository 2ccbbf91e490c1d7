//! Picks in the forms that selections write.

mod parquet;
mod table;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::answers::FilePosition;
use super::{Near, Task, Why, tasks};
use crate::dataset::{Dataset, Items};
use crate::{Error, Side};

/// The columns of a table of picks, as they are named in every form.
const COLUMNS: [&str; 8] = ["rank", "index", "id", "score", "hits", "why", "facts", "near"];

/// A column of JSON that is written only if some pick has a value: its name, whether a pick has a value, and its JSON.
type OptionalColumn = (&'static str, fn(&Task) -> bool, fn(&Task) -> serde_json::Result<String>);
const OPTIONAL_COLUMNS: [OptionalColumn; 2] = [
    ("facts", |pick| !pick.facts.is_empty(), |pick| serde_json::to_string(&pick.facts)),
    ("near", |pick| !pick.near.is_empty(), |pick| serde_json::to_string(&pick.near)),
];

/// The optional columns of some picks.
fn optional_columns(picks: &[Task]) -> impl Iterator<Item = OptionalColumn> {
    OPTIONAL_COLUMNS.into_iter().filter(|(_, is_there, _)| picks.iter().any(is_there))
}

/// A form of picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PicksFormat {
    /// JSON lines (`.jsonl`).
    Jsonl,
    /// A table whose column `why` is JSON (`.csv`).
    Csv,
    /// A table whose column `why` holds lists (`.parquet`).
    Parquet,
}

impl PicksFormat {
    /// The form of a file, by the ending of its name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" => Some(PicksFormat::Jsonl),
            "csv" => Some(PicksFormat::Csv),
            "parquet" => Some(PicksFormat::Parquet),
            _ => None,
        }
    }

    /// Writes picks in this form.
    pub fn write(self, out: &mut (impl Write + Send), picks: &[Task]) -> std::io::Result<()> {
        match self {
            PicksFormat::Jsonl => tasks::write_lines(out, picks),
            PicksFormat::Csv => table::write(out, picks),
            PicksFormat::Parquet => parquet::write(out, picks).map_err(std::io::Error::other),
        }
    }
}

/// A file of picks, as it was read.
#[derive(Clone, Debug)]
pub struct PicksFile {
    path: PathBuf,
    picks: Vec<(FilePosition, Task)>,
    /// Whether the ids are certainly those of items.
    named: bool,
}

impl PicksFile {
    /// Reads picks as `nextpair select` or an experiment wrote them. In a table, only the column `id` is
    /// needed: the order of the rows is the rank then. Errors name the line or row.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let picks = match PicksFormat::of(path) {
            Some(PicksFormat::Jsonl) => tasks::read_placed(path)?,
            Some(PicksFormat::Csv) => table::read(path)?,
            Some(PicksFormat::Parquet) => parquet::read(path)?,
            None => {
                return Err(Error::format(path, "picks are read from .jsonl, .csv and .parquet"));
            }
        };
        if picks.is_empty() {
            return Err(Error::format(path, "there are no picks in it"));
        }
        Ok(PicksFile { path: path.to_path_buf(), picks, named: false })
    }

    /// The picks, most wanted first.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.picks.iter().map(|(_, task)| task)
    }

    /// Names the picked items by their place in the pool: `ids` holds one id per pool item. A pick
    /// that has another id is an error.
    pub fn with_ids(mut self, ids: &[String]) -> Result<Self, Error> {
        for (place, task) in &mut self.picks {
            let named = task.index.map(|index| ids.get(index as usize).ok_or(index));
            let id = match named {
                Some(Ok(id)) if is_row(task) || *id == task.id => id.clone(),
                Some(Ok(id)) => {
                    let what = format!("the pick is {:?}, but --ids calls it {id:?}", task.id);
                    return Err(place.error(&self.path, what));
                }
                Some(Err(index)) => {
                    let what = format!("there are {} ids, but none for row {index}", ids.len());
                    return Err(place.error(&self.path, what));
                }
                None => return Err(place.error(&self.path, "it has no index to find an id by")),
            };
            task.id = id;
            for near in &mut task.near {
                if let Near::Pool { index, id, .. } = near
                    && let Some(known) = ids.get(*index as usize)
                {
                    id.clone_from(known);
                }
            }
        }
        self.named = true;
        Ok(self)
    }

    /// Returns the picks as tasks about items of a dataset, with the captions of their reasons
    /// where the dataset has them. Picks without ids are refused: a row of a pool is no item.
    pub fn about(self, dataset: &Dataset, pool: Side) -> Result<Vec<Task>, Error> {
        let unnamed = |task: &Task| is_row(task) && task.why.iter().all(|why| why.id.is_none());
        if !self.named && self.tasks().all(unnamed) {
            let what = "the picks have no ids, only the numbers of rows of the pool; select with \
                        --ids, or name the file of the ids here with --ids";
            return Err(Error::format(&self.path, what));
        }
        let items = dataset.items();
        let known = items.find(self.tasks().flat_map(names));
        for (place, task) in &self.picks {
            let wrong = |what: String| Err(place.error(&self.path, what));
            let id = &task.id;
            match known.get(id.as_str()) {
                None => return wrong(format!("{} has no item {id:?}", dataset.folder().display())),
                Some(&item) if pool == Side::Text && items.captions_of(item).is_empty() => {
                    return wrong(format!(
                        "the item {id:?} has no text to show; --pool-side is text"
                    ));
                }
                Some(_) => {}
            }
        }
        let named = |(_, task): &(FilePosition, Task)| Task {
            why: task.why.iter().map(|why| with_pair(why, items, &known)).collect(),
            near: task.near.iter().map(|near| near_with_pair(near, items, &known)).collect(),
            ..task.clone()
        };
        Ok(self.picks.iter().map(named).collect())
    }
}

/// Returns whether the id of a pick is only its row.
fn is_row(task: &Task) -> bool {
    task.index.is_some_and(|index| task.id == index.to_string())
}

/// The names of items in a pick: its own, and those that its reasons may have.
fn names(task: &Task) -> impl Iterator<Item = &str> {
    let unknown = task.why.iter().filter(|why| why.pair().is_none());
    let near = task.near.iter().filter_map(|near| match near {
        Near::Paired { pair_id, .. } => Some(pair_id.as_str()),
        Near::Pool { .. } => None,
    });
    let pairs = unknown.filter_map(|why| why.anchor_id.as_deref()).chain(near);
    let items = pairs.clone().filter_map(|name| Some(name.rsplit_once('#')?.0));
    [task.id.as_str()].into_iter().chain(pairs).chain(items)
}

/// The item and the caption of a pair by its number and name, if the dataset has it. The name is an item, meaning its
/// first caption, or `item#caption`.
fn pair_of(
    number: Option<u32>,
    name: &str,
    items: &Items,
    known: &HashMap<&str, usize>,
) -> Option<(String, String)> {
    // A selection without names numbers its pairs. Such a number is not an id.
    if number.is_some_and(|number| name == number.to_string()) {
        return None;
    }
    let (&item, caption) = match known.get(name) {
        Some(item) => (item, 0),
        None => {
            let (id, caption) = name.rsplit_once('#')?;
            (known.get(id)?, caption.parse().ok()?)
        }
    };
    let item = items.get(item);
    let caption = item.captions.get::<usize>(caption)?.clone();
    Some((item.id, caption))
}

/// A reason with the pair that it names.
fn with_pair(why: &Why, items: &Items, known: &HashMap<&str, usize>) -> Why {
    let name = why.anchor_id.as_deref().filter(|_| why.pair().is_none());
    match name.and_then(|name| pair_of(why.anchor, name, items, known)) {
        Some((id, caption)) => Why { id: Some(id), caption: Some(caption), ..why.clone() },
        None => why.clone(),
    }
}

/// A neighbour with the pair that it names.
fn near_with_pair(near: &Near, items: &Items, known: &HashMap<&str, usize>) -> Near {
    let mut near = near.clone();
    if let Near::Paired { pair, pair_id, id: id @ None, caption, .. } = &mut near {
        (*id, *caption) = pair_of(Some(*pair), pair_id, items, known).unzip();
    }
    near
}

/// Makes a pick of a row of a table. What a row may lack is rank, by the order, and score, 0.
fn pick(number: usize, mut row: Map<String, Value>) -> Result<Task, String> {
    row.entry("rank").or_insert_with(|| number.into());
    row.entry("score").or_insert_with(|| 0.into());
    for (name, ..) in OPTIONAL_COLUMNS {
        if let Some(Value::String(text)) = row.get(name) {
            let value = serde_json::from_str(text).map_err(|_| format!("{name}: not JSON"))?;
            row.insert(name.to_owned(), value);
        }
    }
    serde_json::from_value(row.into()).map_err(|e| format!("not a pick: {e}"))
}

#[cfg(test)]
mod tests;
