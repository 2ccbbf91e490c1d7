//! The columns of a table that are read.

use std::path::Path;

use super::HuggingFace;
use crate::import::captions::KEYS;
use crate::parquet::columns::{Kind, Leaf};
use crate::{Error, listed};

/// Stored columns by their indices.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// Bytes of images.
    pub(super) bytes: Option<usize>,
    /// Paths of images.
    pub(super) path: Option<usize>,
    pub(super) captions: Vec<usize>,
    pub(super) id: Option<usize>,
    pub(super) split: Option<usize>,
}

/// Usual names of the column of images.
const IMAGES: [&str; 2] = ["image", "img"];

impl Columns {
    /// Finds the columns in a table. A column that is named must be there.
    pub(super) fn of(asked: &HuggingFace, path: &Path, leaves: &[Leaf]) -> Result<Self, Error> {
        let table = Table { path, leaves };
        let mut columns = Columns::default();
        match &asked.image_column {
            Some(name) => columns.take_image(&table, name)?,
            None => {
                let usual = IMAGES.iter().map(|name| (*name).to_owned());
                let usual = usual.chain(table.file_names()).find(|name| table.has(name));
                usual.map_or(Ok(()), |name| columns.take_image(&table, &name))?;
            }
        }
        columns.captions = match &asked.caption_column {
            Some(name) => vec![table.readable(name)?],
            None => table.usual_captions(),
        };
        columns.id = asked.id_column.as_deref().map(|name| table.readable(name)).transpose()?;
        columns.split = match &asked.split_column {
            Some(name) => Some(table.readable(name)?),
            None => table.of("split").find(|leaf| leaf.kind == Kind::Text).map(|leaf| leaf.index),
        };
        if columns.bytes.is_none() && columns.path.is_none() && columns.captions.is_empty() {
            let what = format!(
                "no column of images or captions; its columns are {}; name them with --image-col and \
                 --caption-col",
                listed(table.names())
            );
            return Err(Error::format(path, what));
        }
        Ok(columns)
    }

    fn take_image(&mut self, table: &Table<'_>, name: &str) -> Result<(), Error> {
        table.check(name)?;
        for leaf in table.of(name) {
            let field = (leaf.parts.len() > 1).then(|| leaf.parts[leaf.parts.len() - 1].as_str());
            match (field, leaf.kind) {
                (None | Some("bytes"), Kind::Bytes) => self.bytes = Some(leaf.index),
                (None | Some("path"), Kind::Text) => self.path = Some(leaf.index),
                _ => {}
            }
        }
        if self.bytes.is_none() && self.path.is_none() {
            let what = format!("column {name} holds neither bytes of images nor paths");
            return Err(Error::format(table.path, what));
        }
        Ok(())
    }

    /// All of them.
    pub(super) fn wanted(&self) -> Vec<usize> {
        let single = [self.bytes, self.path, self.id, self.split];
        single.into_iter().flatten().chain(self.captions.iter().copied()).collect()
    }

    /// The names of columns of which nothing is read.
    pub(super) fn unused(&self, leaves: &[Leaf]) -> Vec<String> {
        let wanted = self.wanted();
        let mut names: Vec<&String> = leaves.iter().filter_map(|leaf| leaf.parts.first()).collect();
        names.dedup();
        let is_read = |name: &String| {
            let mut own = leaves.iter().filter(|leaf| leaf.parts.first() == Some(name));
            own.any(|leaf| wanted.contains(&leaf.index))
        };
        names.into_iter().filter(|name| !is_read(name)).cloned().collect()
    }
}

/// The stored columns of a file.
struct Table<'a> {
    path: &'a Path,
    leaves: &'a [Leaf],
}

impl Table<'_> {
    /// The stored columns of a column; a dot separates a column and a field.
    fn of<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Leaf> {
        let (column, field) = match name.split_once('.') {
            Some((column, field)) if !self.has_top(name) => (column, Some(field)),
            _ => (name, None),
        };
        let is_it = move |leaf: &&Leaf| {
            let last = leaf.parts.last().map(String::as_str);
            leaf.parts.first().is_some_and(|first| first == column)
                && field.is_none_or(|field| last == Some(field))
        };
        self.leaves.iter().filter(is_it)
    }

    fn has_top(&self, name: &str) -> bool {
        self.leaves.iter().any(|leaf| leaf.parts.first().is_some_and(|first| first == name))
    }

    fn has(&self, name: &str) -> bool {
        self.of(name).next().is_some()
    }

    /// The names of all columns.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.leaves.iter().filter_map(|leaf| leaf.parts.first().cloned()).collect();
        names.dedup();
        names
    }

    /// `file_name`, and columns whose names end so.
    fn file_names(&self) -> Vec<String> {
        let is_it = |name: &String| name == "file_name" || name.ends_with("_file_name");
        self.names().into_iter().filter(is_it).collect()
    }

    fn check(&self, name: &str) -> Result<(), Error> {
        if self.has(name) {
            return Ok(());
        }
        let what = format!("no column {name}; its columns are {}", listed(self.names()));
        Err(Error::format(self.path, what))
    }

    /// The one stored column of a column of texts or integers.
    fn readable(&self, name: &str) -> Result<usize, Error> {
        self.check(name)?;
        let mut readable =
            self.of(name).filter(|leaf| matches!(leaf.kind, Kind::Text | Kind::Integer));
        match (readable.next(), readable.next()) {
            (Some(leaf), None) => Ok(leaf.index),
            (None, _) => Err(Error::format(
                self.path,
                format!("column {name} holds neither texts nor integers"),
            )),
            (Some(one), Some(other)) => {
                let field = |leaf: &Leaf| leaf.parts.last().cloned().unwrap_or_default();
                let what = format!(
                    "column {name} has several fields; name one, such as {name}.{} or {name}.{}",
                    field(one),
                    field(other)
                );
                Err(Error::format(self.path, what))
            }
        }
    }

    /// The usual column of captions, or all that are numbered: caption_0, caption_1.
    fn usual_captions(&self) -> Vec<usize> {
        let texts = |name: &str| {
            let leaves = self.of(name).filter(|leaf| leaf.kind == Kind::Text);
            leaves.map(|leaf| leaf.index).collect::<Vec<usize>>()
        };
        let usual = KEYS.iter().map(|name| texts(name)).find(|leaves| leaves.len() == 1);
        let numbered = |name: &String| {
            let number = name.strip_prefix("caption_").or_else(|| name.strip_prefix("caption"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        usual.unwrap_or_else(|| {
            self.names().iter().filter(|name| numbered(name)).flat_map(|name| texts(name)).collect()
        })
    }
}
