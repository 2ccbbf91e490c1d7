//! All items of a dataset: a file of JSON lines that stays on disk.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::item::Item;
use crate::Error;
use crate::mapping::{self, Bytes};

/// The items of a dataset, checked once and then read one at a time. Only a few numbers per item
/// are in memory, so a dataset may be larger than memory.
#[derive(Clone, Debug)]
pub struct Items {
    path: PathBuf,
    text: Bytes,
    /// The start of each line, and the end of the last.
    starts: Vec<usize>,
    /// The number of captions before each item, and their total.
    captions_before: Vec<usize>,
    split_of: Vec<u16>,
    splits: Vec<Option<String>>,
}

impl Items {
    /// Reads and checks every line.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let text = mapping::map(path)?;
        let bytes = text.as_slice();
        let mut items = Items {
            path: path.to_path_buf(),
            text: text.clone(),
            starts: vec![0],
            captions_before: vec![0],
            split_of: Vec::new(),
            splits: Vec::new(),
        };
        let mut hashes: Vec<(u64, usize)> = Vec::new();
        let mut numbers: HashMap<Option<String>, u16> = HashMap::new();
        let (mut start, mut captions) = (0, 0);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let number = items.split_of.len();
            let wrong = |what: String| Error::line(path, number + 1, what);
            if line.last() != Some(&b'\n') {
                return Err(wrong("the line is cut off".to_owned()));
            }
            let item: Item = serde_json::from_slice(line)
                .map_err(|e| wrong(format!("not an item: {}", without_place(&e))))?;
            item.check().map_err(wrong)?;
            hashes.push((hash(&item.id), number));
            start += line.len();
            captions += item.captions.len();
            items.starts.push(start);
            items.captions_before.push(captions);
            let number = match numbers.get(&item.split) {
                Some(&number) => number,
                None => {
                    let next = u16::try_from(items.splits.len());
                    let next = next.map_err(|_| wrong("more than 65536 splits".to_owned()))?;
                    items.splits.push(item.split.clone());
                    numbers.insert(item.split, next);
                    next
                }
            };
            items.split_of.push(number);
        }
        items.refuse_duplicates(hashes)?;
        Ok(items)
    }

    /// Refuses repeated ids. Hashes are compared first, so that the ids need not be in memory.
    fn refuse_duplicates(&self, mut hashes: Vec<(u64, usize)>) -> Result<(), Error> {
        hashes.sort_unstable();
        for same in hashes.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            for (at, &(_, second)) in same.iter().enumerate() {
                let id = self.get(second).id;
                let first = same[..at].iter().find(|&&(_, first)| self.get(first).id == id);
                if let Some(&(_, first)) = first {
                    let what = format!("the id {id} is on line {} already", first + 1);
                    return Err(Error::line(&self.path, second + 1, what));
                }
            }
        }
        Ok(())
    }

    /// Returns an error if the file has changed since it was opened. Call this after reading items
    /// and before using the results.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        self.text.check_unchanged()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.split_of.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads item `index`.
    ///
    /// # Panics
    /// If the file changed after it was opened and the line is not a valid item any more.
    pub fn get(&self, index: usize) -> Item {
        serde_json::from_slice(self.line(index))
            .expect("every line was read when the items were opened")
    }

    /// The line of item `index` as it is in the file, with its end.
    pub(crate) fn line(&self, index: usize) -> &[u8] {
        &self.text.as_slice()[self.starts[index]..self.starts[index + 1]]
    }

    /// The indices of the items with these ids; unknown ids are left out. Reads every item once.
    pub fn find<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> HashMap<&'a str, usize> {
        let wanted: HashSet<&str> = ids.into_iter().collect();
        let known = |(index, item): (usize, Item)| Some((*wanted.get(item.id.as_str())?, index));
        self.iter().enumerate().filter_map(known).collect()
    }

    /// All items, in order.
    pub fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Total number of captions.
    pub fn captions(&self) -> usize {
        self.captions_before[self.len()]
    }

    /// The numbers of item `index`'s captions, counted through all items in order.
    pub fn captions_of(&self, index: usize) -> std::ops::Range<usize> {
        self.captions_before[index]..self.captions_before[index + 1]
    }

    /// The item of caption number `caption`.
    ///
    /// # Panics
    /// If there is no such caption.
    pub fn item_of_caption(&self, caption: usize) -> usize {
        assert!(caption < self.captions(), "caption {caption} of {}", self.captions());
        self.captions_before.partition_point(|&before| before <= caption) - 1
    }

    /// The split of item `index`.
    pub fn split_of(&self, index: usize) -> Option<&str> {
        self.splits[self.split_of[index] as usize].as_deref()
    }

    /// The splits in order of appearance. `None` stands for items without a split.
    pub fn splits(&self) -> impl Iterator<Item = Option<&str>> {
        self.splits.iter().map(Option::as_deref)
    }

    /// The indices of a split's items, in order.
    pub fn in_split(&self, split: Option<&str>) -> Vec<usize> {
        (0..self.len()).filter(|&index| self.split_of(index) == split).collect()
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// A serde error with its column but without its line, which the caller adds.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => format!("{} (column {})", &text[..at], error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(content: &str) -> Result<Items, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("items.jsonl");
        std::fs::write(&path, content).unwrap();
        Items::open(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn captions_and_splits_are_counted() {
        let items = items(concat!(
            "{\"id\":\"a\",\"split\":\"train\",\"captions\":[\"x\",\"y\"]}\n",
            "{\"id\":\"b\",\"image\":\"b.jpg\"}\n",
            "{\"id\":\"c\",\"split\":\"train\",\"captions\":[\"z\"]}\n"
        ))
        .unwrap();
        assert_eq!((items.len(), items.captions()), (3, 3));
        assert_eq!([0, 1, 2].map(|i| items.captions_of(i)), [0..2, 2..2, 2..3]);
        assert_eq!([0, 1, 2].map(|caption| items.item_of_caption(caption)), [0, 0, 2]);
        assert_eq!(items.splits().collect::<Vec<_>>(), [Some("train"), None]);
        assert_eq!(items.in_split(Some("train")), [0, 2]);
        assert_eq!(items.in_split(None), [1]);
        assert_eq!(items.get(2).captions, ["z"]);
        assert_eq!(items.find(["c", "no", "a", "c"]), [("a", 0), ("c", 2)].into());
        assert_eq!(items.iter().count(), 3);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (content, expected) in [
            ("", "the file is empty"),
            ("{\"id\":\"a\"}\n\n", ":2: not an item: EOF while parsing a value"),
            ("{\"id\":\"a\"}", ":1: the line is cut off"),
            ("{\"id\":\"a\"}\n{\"id\":3}\n", ":2: not an item: invalid type: integer `3`"),
            ("{\"id\":\"a\",\"x\":1}\n", ":1: not an item: unknown field `x`"),
            ("{\"id\":\"a\",\"image\":\"../x\"}\n", ":1: the path \"../x\" is not a plain path"),
            ("{\"id\":\"b\"}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n", ":3: the id b is on line 1"),
            ("{\"id\":\"a\",\"captions\":[\"\"]}\n", ":1: the caption is empty"),
        ] {
            let what = items(content).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }
}
