//! Images that people bring for texts: found by the names in answers, called by their bytes, and
//! given features.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as AnyError;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Dataset, FeatureSet, FeatureSource, ImageTwins, NewRows, Per, TRAIN, check_inside};
use crate::escape::hex;
use crate::picture::{self, Format};
use crate::queue::{Answer, AnswerContent};
use crate::{AtomicFile, Error, Progress, Side, ordinary};

/// Prefix of the ids of images that people brought. The rest is the name of the file.
pub const UPLOAD: &str = "upload:";
/// Prefix of the names of images in a folder beside the dataset, until an answer takes them.
pub const FOLDER: &str = "folder:";

/// Images that answers name and a dataset does not have. Each becomes an item.
///
/// The id of the item is `upload:` and the name of the file, which is made of the bytes: the same
/// image brought twice is one item, wherever it lay.
#[derive(Clone, Debug, Default)]
pub struct NewImages {
    /// The file of each image, by the id of its item.
    pub files: BTreeMap<String, PathBuf>,
    /// Rows for image feature sets of the dataset, by id.
    pub features: Vec<NewRows>,
}

impl NewImages {
    /// Finds the images that answers name and the dataset does not have, and changes the answers to
    /// name their ids.
    ///
    /// The name of such an image, without `upload:` or `folder:`, is a path in one of the `places`;
    /// the first that has it counts. Where the dataset has an image with the same bytes, the answer
    /// is about that item. Every image is decoded. Returns [`Error::Row`] for an answer whose image
    /// is missing, damaged, too large, or part of the evaluation data. Without places nothing is
    /// looked for.
    pub fn find(
        dataset: &Dataset,
        answers: &mut [Answer],
        places: &[PathBuf],
    ) -> Result<Self, Error> {
        let mut found = NewImages::default();
        if places.is_empty() {
            return Ok(found);
        }
        let known = dataset.items().find(answers.iter().filter_map(image));
        let is_new = |answer: &Answer| image(answer).is_some_and(|name| !known.contains_key(name));
        let new: Vec<usize> = (0..answers.len()).filter(|&at| is_new(&answers[at])).collect();
        drop(known);
        let mut twins = None;
        let mut ids: HashMap<String, String> = HashMap::new();
        for row in new {
            let Answer { id, said, .. } = &mut answers[row];
            let AnswerContent::Image(name) = said else { continue };
            if !ids.contains_key(name) {
                let twins = twins.get_or_insert_with(|| ImageTwins::of(dataset));
                let wrong = |what: String| {
                    let what = format!("an answer about {id:?}: {what}");
                    Error::row(dataset.folder(), row, what)
                };
                let new = found.add(dataset, name, places, twins).map_err(wrong)?;
                ids.insert(name.clone(), new);
            }
            name.clone_from(&ids[name.as_str()]);
        }
        Ok(found)
    }

    /// Finds one image and returns the id of its item.
    fn add(
        &mut self,
        dataset: &Dataset,
        name: &str,
        places: &[PathBuf],
        twins: &ImageTwins,
    ) -> Result<String, String> {
        let bare = bare_name(name);
        check_inside(bare)?;
        let path = places.iter().map(|place| place.join(bare)).find(|path| path.is_file());
        let Some(path) = path else {
            let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            let places = places.join(", ");
            return Err(format!("there is no item {name:?}, and no image file of it in {places}"));
        };
        let damaged = |e: Error| e.to_string();
        let file = file_name(&path).map_err(damaged)?;
        if let Some(item) = twins.find(dataset, &path) {
            // Evaluation data must not be trained on.
            if let Some(split) = item.split.filter(|split| split != TRAIN) {
                let (path, id) = (path.display(), item.id);
                return Err(format!("{path} is the image of the item {id:?} of the split {split}"));
            }
            return Ok(item.id);
        }
        let id = format!("{UPLOAD}{file}");
        self.files.entry(id.clone()).or_insert(path);
        Ok(id)
    }

    /// Gives the images features: rows for every image feature set whose encoder `source` knows. A
    /// remark to `progress` names the sets that stay without.
    ///
    /// # Errors
    /// If the dataset has image features, and none of them can be made.
    pub fn encoded(
        mut self,
        dataset: &Dataset,
        source: &dyn FeatureSource,
        progress: &dyn Progress,
    ) -> Result<Self, Box<dyn AnyError + Send + Sync>> {
        if self.files.is_empty() {
            return Ok(self);
        }
        let mut unknown = Vec::new();
        for set in &dataset.manifest().features {
            if (set.side, set.per) != (Side::Image, Per::Item) {
                continue;
            }
            match source.check(dataset, set) {
                Ok(()) => self.encode_for(dataset, set, source, progress)?,
                Err(why) => unknown.push((&set.name, why)),
            }
        }
        if self.features.is_empty()
            && let Some((_, why)) = unknown.pop()
        {
            return Err(why);
        }
        for (set, why) in unknown {
            progress.remark(&format!("new images get no features {set}: {why}"));
        }
        Ok(self)
    }

    fn encode_for(
        &mut self,
        dataset: &Dataset,
        set: &FeatureSet,
        source: &dyn FeatureSource,
        progress: &dyn Progress,
    ) -> Result<(), Box<dyn AnyError + Send + Sync>> {
        let ids: Vec<&str> = self.files.keys().map(String::as_str).collect();
        let files: Vec<&Path> = self.files.values().map(PathBuf::as_path).collect();
        let rows = source.image_rows(dataset, set, &files, progress)?;
        let rows = NewRows::new(&set.name, &ids, rows);
        self.features.push(rows);
        Ok(())
    }

    /// Copies the images into a folder, which is made if it does not exist, and names them by their
    /// bytes. Each appears whole or not at all, and would survive a power loss when this returns.
    /// Images that are there already stay.
    pub fn kept_in(&self, folder: &Path) -> Result<Self, Error> {
        let mut kept = self.clone();
        for (id, file) in &mut kept.files {
            let own = folder.join(bare_name(id));
            if !own.exists() || check_bytes(id, &own).is_err() {
                fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
                let mut copy = AtomicFile::create(&own)?;
                check_hash(id, file, &sha256(file, &mut copy)?)?;
                copy.commit()?;
            }
            *file = own;
        }
        Ok(kept)
    }
}

/// Bytes of the SHA-256 in the name of an image.
const HASH: usize = 16;

/// Returns the name that an image gets by the SHA-256 of its bytes: letters, digits and a dot.
pub fn name_of_image(sha256: &[u8], format: Format) -> String {
    format!("{}.{}", hex(&sha256[..HASH]), format.ending())
}

/// Decodes an image file, and returns the name that it gets by its bytes.
fn file_name(path: &Path) -> Result<String, Error> {
    let header = picture::probe(path)?;
    picture::read(path)?;
    Ok(name_of_image(&sha256(path, &mut io::sink())?, header.format))
}

/// Returns an error unless the bytes of a file are those that this id was made of.
pub(super) fn check_bytes(id: &str, path: &Path) -> Result<(), Error> {
    check_hash(id, path, &sha256(path, &mut io::sink())?)
}

fn check_hash(id: &str, path: &Path, sha256: &[u8]) -> Result<(), Error> {
    // No other name may become that of a file.
    let plain = |ending: &str| ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let name = bare_name(id).split_once('.').filter(|(_, ending)| plain(ending));
    if name.is_some_and(|(hash, _)| hash == hex(&sha256[..HASH])) {
        return Ok(());
    }
    let what = format!("has other bytes than the image {id} had; put that one back");
    Err(Error::format(path, what))
}

/// Copies a file and returns the SHA-256 of its bytes.
fn sha256(path: &Path, copy: &mut dyn Write) -> Result<Vec<u8>, Error> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    let mut file = ordinary::open(path)?;
    let mut whole = || loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return io::Result::Ok(());
        }
        hasher.update(&buffer[..read]);
        copy.write_all(&buffer[..read])?;
    };
    whole().map_err(|e| Error::io(path, e))?;
    Ok(hasher.finalize().to_vec())
}

/// Returns the name of an image without the word before it that says where it came from.
pub(super) fn bare_name(name: &str) -> &str {
    name.strip_prefix(UPLOAD).or_else(|| name.strip_prefix(FOLDER)).unwrap_or(name)
}

/// Returns the image that an answer names.
fn image(answer: &Answer) -> Option<&str> {
    match &answer.said {
        AnswerContent::Image(image) => Some(image),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
