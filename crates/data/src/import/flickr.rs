//! Flickr8k's and Flickr30K's original files: a token file and one list of images per split.
//!
//! A row of the token file is `NAME.jpg#NUMBER`, a tab, a caption; the captions of an image are
//! numbered from 0.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{Entry, Importer, Sink, has_image_extension};
use crate::Error;
use crate::dataset::{DEV, Item, TEST, TRAIN};
use crate::lines::{Line, Lines};

/// A token file with its lists.
#[derive(Clone, Debug)]
pub struct Flickr {
    /// The folder of these files, or the token file itself.
    pub source: PathBuf,
    /// The folder of the images, if they are available.
    pub image_dir: Option<PathBuf>,
    /// Whether to import images that are in no list as well, without a split.
    pub unlisted: bool,
}

/// The files of a folder, by their published names.
struct Files {
    tokens: PathBuf,
    lists: Vec<(&'static str, PathBuf)>,
}

/// A row of the token file.
struct Row {
    line: usize,
    caption: String,
}

impl Importer for Flickr {
    fn source(&self) -> String {
        format!("flickr {}", self.source.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let Some(folder) = &self.image_dir {
            sink.images_in(folder)?;
        }
        let Files { tokens, lists } = self.find()?;
        let mut images = read_tokens(&tokens, sink)?;
        let mut listed: HashSet<String> = HashSet::new();
        sink.start("reading", images.len());
        for (split, list) in &lists {
            let mut lines = Lines::open(list)?;
            while let Some(Line { number, text }) = lines.next()? {
                let place = format!("{}:{number}", list.display());
                let name = match text {
                    Ok(text) if text.trim().is_empty() => continue,
                    Ok(text) => text.trim().to_owned(),
                    Err(what) => {
                        sink.bad("unreadable line", &place, &what)?;
                        continue;
                    }
                };
                sink.advance(1);
                // Some lists have the numbers of the images instead of their names.
                let known = |name: &String| images.contains_key(name) || listed.contains(name);
                let [plain, ended] = [name.clone(), format!("{name}.jpg")];
                let name = if known(&ended) && !known(&plain) { ended } else { plain };
                let Some(rows) = images.remove(&name) else {
                    let what = if listed.contains(&name) {
                        "is listed already"
                    } else {
                        "is in the list, but has no captions"
                    };
                    sink.bad("impossible entry", &place, &format!("{name} {what}"))?;
                    continue;
                };
                listed.insert(name.clone());
                match captions(&name, rows) {
                    Ok(captions) => {
                        let (image, split) = (Some(name.clone()), Some((*split).to_owned()));
                        let item = Item { id: name, split, image, captions };
                        sink.entry(Entry { item, place, ..Entry::default() })?;
                    }
                    Err(rows) => {
                        for row in rows {
                            let place = format!("{}:{}", tokens.display(), row.line);
                            sink.bad("caption without its image", &place, &name)?;
                        }
                    }
                }
            }
        }
        self.rest(&tokens, images, sink)
    }
}

impl Flickr {
    fn find(&self) -> Result<Files, Error> {
        let is_folder = self.source.is_dir();
        let beside = self.source.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = if is_folder { &self.source } else { beside.unwrap_or(".".as_ref()) };
        let is_tokens = |name: &str| {
            name.ends_with(".token") || name.ends_with(".token.txt") && !name.contains("lemma")
        };
        let tokens = if is_folder {
            only_file(folder, "the token file", &is_tokens)?
        } else {
            Some(self.source.clone())
        };
        let missing = || Error::format(folder, "no token file (*.token or *.token.txt)");
        let tokens = tokens.ok_or_else(missing)?;
        let mut lists = Vec::new();
        for (split, words) in [(TRAIN, &["train"][..]), (DEV, &["dev", "val"]), (TEST, &["test"])] {
            let is_list = |name: &str| {
                let fits = |word: &str| {
                    let ends = [format!("_{word}.txt"), format!("{word}images.txt")];
                    name == format!("{word}.txt") || ends.iter().any(|end| name.ends_with(end))
                };
                words.iter().any(|word| fits(word))
            };
            if let Some(list) = only_file(folder, &format!("the {split} list"), &is_list)? {
                lists.push((split, list));
            }
        }
        if lists.is_empty() && !self.unlisted {
            let what = "no split lists (*trainImages.txt, or train.txt, and so on)";
            return Err(Error::format(folder, what));
        }
        Ok(Files { tokens, lists })
    }

    /// Handles the images that are in no list.
    fn rest(
        &self,
        tokens: &Path,
        images: HashMap<String, BTreeMap<usize, Row>>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let mut images: Vec<_> = images.into_iter().collect();
        images.sort_by_key(|(_, rows)| rows.values().map(|row| row.line).min());
        for (name, rows) in images {
            let place = |line: usize| format!("{}:{line}", tokens.display());
            match captions(&name, rows) {
                Ok(captions) if self.unlisted => {
                    let (image, place) = (Some(name.clone()), tokens.display().to_string());
                    let item = Item { id: name, split: None, image, captions };
                    sink.entry(Entry { item, place, ..Entry::default() })?;
                }
                Ok(captions) => {
                    let detail = format!("{name} ({} captions)", captions.len());
                    sink.note("image in no split list, left out", &detail)?;
                }
                Err(rows) => {
                    for row in rows {
                        let detail = format!("{}: {name}", place(row.line));
                        sink.note("caption without an image, in no split list, left out", &detail)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The only file of a folder whose lower-case name fits, if there is one.
fn only_file(
    folder: &Path,
    what: &str,
    fits: &dyn Fn(&str) -> bool,
) -> Result<Option<PathBuf>, Error> {
    let mut found: Option<PathBuf> = None;
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
        let path = entry.map_err(|e| Error::io(folder, e))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') || !fits(&name.to_ascii_lowercase()) {
            continue;
        }
        if let Some(other) = found.replace(path.clone()) {
            let (one, other) = (path.display(), other.display());
            let what = format!("two files could be {what}: {one} and {other}");
            return Err(Error::format(folder, what));
        }
    }
    Ok(found)
}

/// Returns the captions in order, or the rows if they do not belong to an image: the first caption
/// of an image has the number 0. (Flickr8k has `x.jpg.1#0` beside `x.jpg#1`, and no image of either
/// name.)
fn captions(name: &str, rows: BTreeMap<usize, Row>) -> Result<Vec<String>, Vec<Row>> {
    let of_image = has_image_extension(name) && rows.contains_key(&0);
    let rows: Vec<Row> = rows.into_values().collect();
    if of_image { Ok(rows.into_iter().map(|row| row.caption).collect()) } else { Err(rows) }
}

/// Reads all rows, by image and number.
fn read_tokens(
    path: &Path,
    sink: &mut Sink<'_>,
) -> Result<HashMap<String, BTreeMap<usize, Row>>, Error> {
    let mut images: HashMap<String, BTreeMap<usize, Row>> = HashMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(Line { number: line, text }) = lines.next()? {
        let place = format!("{}:{line}", path.display());
        let row = text.and_then(|text| match text.trim().is_empty() {
            true => Ok(None),
            false => parse(&text).map(Some),
        });
        match row {
            Ok(None) => {}
            Ok(Some((name, number, caption))) => {
                let rows = images.entry(name).or_default();
                if rows.insert(number, Row { line, caption }).is_some() {
                    sink.bad("caption number twice", &place, &format!("#{number}"))?;
                }
            }
            Err(what) => sink.bad("unreadable line", &place, &what)?,
        }
    }
    Ok(images)
}

fn parse(text: &str) -> Result<(String, usize, String), String> {
    let (key, caption) = text.split_once('\t').ok_or("no tab between name and caption")?;
    let (name, number) = key.rsplit_once('#').ok_or("no # between name and number")?;
    let number: usize = number.trim().parse().map_err(|_| format!("#{number} is not a number"))?;
    Ok((name.to_owned(), number, caption.to_owned()))
}
