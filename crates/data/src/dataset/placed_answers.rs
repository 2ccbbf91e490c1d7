//! Answers of several files, each with its place, and the new images that they name.

use std::path::{Path, PathBuf};

use super::{Dataset, NewImages};
use crate::queue::{Answer, FilePosition, read_placed_answers};
use crate::{Error, Side};

/// What people said in some files.
pub struct PlacedAnswers {
    /// The answers, in the order of the files. Those about new images name their ids.
    pub answers: Vec<Answer>,
    /// The images that answers name and the dataset does not have.
    pub images: NewImages,
    places: Vec<(PathBuf, FilePosition)>,
}

impl PlacedAnswers {
    /// Reads answers about items of a pool, in every form that [`read_placed_answers`] reads.
    ///
    /// Images that answers about texts name and the dataset does not have are looked for in
    /// `folders`, then beside the answers, then where the annotation app puts uploads for a file of
    /// picks; see [`NewImages::find`].
    pub fn read(
        dataset: &Dataset,
        paths: &[PathBuf],
        pool: Side,
        folders: &[PathBuf],
    ) -> Result<Self, Error> {
        let mut read =
            PlacedAnswers { answers: Vec::new(), images: NewImages::default(), places: Vec::new() };
        for path in paths {
            let placed = read_placed_answers(path, pool, dataset)?;
            let (places, mut answers): (Vec<FilePosition>, Vec<Answer>) =
                placed.into_iter().unzip();
            let folders = match pool {
                Side::Image => Vec::new(),
                Side::Text => folders.iter().cloned().chain(beside(path)).collect(),
            };
            let first = read.answers.len();
            read.places.extend(places.into_iter().map(|place| (path.clone(), place)));
            let found = NewImages::find(dataset, &mut answers, &folders);
            let found = found.map_err(|error| match error {
                Error::Row { row, what, .. } => read.error(first + row, what),
                other => other,
            })?;
            read.images.files.extend(found.files);
            read.answers.append(&mut answers);
        }
        Ok(read)
    }

    /// Returns an error about an answer that names its place.
    pub fn error(&self, answer: usize, what: String) -> Error {
        let (path, place) = &self.places[answer];
        place.error(path, what)
    }
}

/// Returns the folders near a file of answers that may hold the images it names.
fn beside(answers: &Path) -> Vec<PathBuf> {
    let folder = match answers.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = answers.file_name().and_then(|name| name.to_str());
    let uploads = name.and_then(|name| name.strip_suffix(".answers.jsonl"));
    let uploads = uploads.map(|picks| folder.join(format!("{picks}.uploads")));
    [folder.to_path_buf()].into_iter().chain(uploads).collect()
}
