//! Vectors of answers that were made elsewhere, in the place of an encoder.

use std::collections::HashMap;
use std::error::Error as AnyError;
use std::path::{Path, PathBuf};

use super::vectors::{check_name, check_shape, in_type_of, numbers_of, per};
use super::{Dataset, FeatureSet, FeatureSource, PlacedAnswers};
use crate::queue::{Answer, AnswerContent};
use crate::{Error, Matrix, Progress, Side, Table};

/// The vectors of what people wrote, or of the images that they brought, for one feature set. Other sets get
/// theirs from another source.
pub struct GivenVectors<'a> {
    name: String,
    side: Side,
    matrix: Matrix,
    /// The rows of captions, or of images by the ids of their items.
    rows: HashMap<String, usize>,
    /// The ids of new images, by their files.
    ids: HashMap<PathBuf, String>,
    others: &'a dyn FeatureSource,
}

impl<'a> GivenVectors<'a> {
    /// Matches the rows of `file` with answers about the pool `side`: by ids, or a row for every answer, or for
    /// every caption or new image, in the order of the answers. They belong to the features `name` of the other
    /// side, which need not exist yet; without a name, to the last that were added.
    pub fn of(
        dataset: &Dataset,
        said: &PlacedAnswers,
        pool: Side,
        (file, table): (&Path, Table),
        name: Option<&str>,
        others: &'a dyn FeatureSource,
    ) -> Result<Self, Error> {
        let side = pool.other();
        let set = match dataset.features(side, name) {
            Ok((set, features)) if set.per == per(side) => {
                check_shape(dataset, set, features.matrix(), &table.matrix)?;
                Some(set)
            }
            Ok((set, _)) => {
                let what = format!("{side} features {} are not one per {side}", set.name);
                return Err(Error::format(dataset.folder(), what));
            }
            Err(_) => None,
        };
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("vectors");
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name = match set.map(|set| set.name.as_str()).or(name) {
            Some(name) => name.to_owned(),
            None => stem.chars().map(plain).collect(),
        };
        check_name(dataset, &name)?;
        let key = |answer: &Answer| match &answer.said {
            AnswerContent::Caption(text) => Some(text.clone()),
            AnswerContent::Image(id) => said.images.files.contains_key(id).then(|| id.clone()),
            AnswerContent::Skip(_) => None,
        };
        let keys: Vec<Option<String>> = said.answers.iter().map(key).collect();
        let rows = match &table.ids {
            Some(ids) => by_id(file, ids, &said.answers, &keys)?,
            None => {
                let whole: Vec<&String> = keys.iter().flatten().collect();
                let rows = table.matrix.rows();
                match rows {
                    _ if rows == keys.len() => in_order(keys.iter().map(Option::as_ref)),
                    _ if rows == whole.len() => in_order(whole.into_iter().map(Some)),
                    _ => {
                        let what = format!(
                            "{rows} rows for {} {side}s in {} answers; a row is needed for each, in the \
                             order of the answers, or a Parquet file with the ids of the items",
                            whole.len(),
                            keys.len()
                        );
                        return Err(Error::format(file, what));
                    }
                }
            }
        };
        let ids = said.images.files.iter().map(|(id, file)| (file.clone(), id.clone())).collect();
        Ok(GivenVectors { name, side, matrix: table.matrix, rows, ids, others })
    }

    /// Makes the features in the enlarged dataset if the old one had none of this name. Returns the name, and how
    /// many captions or items have a vector, and have none.
    pub fn complete(&self, dataset: &mut Dataset) -> Result<Option<(&str, usize, usize)>, Error> {
        let mut sets = dataset.manifest().features.iter();
        if sets.any(|set| (set.side, &set.name) == (self.side, &self.name)) {
            return Ok(None);
        }
        let items = dataset.items();
        let row = |name: &String| self.rows.get(name).copied();
        let rows: Vec<Option<usize>> = match self.side {
            Side::Image => items.iter().map(|item| row(&item.id)).collect(),
            Side::Text => items.iter().flat_map(|item| item.captions).map(|c| row(&c)).collect(),
        };
        let numbers: Vec<i64> = rows.iter().map(|row| row.map_or(-1, |row| row as i64)).collect();
        let lock = dataset.lock()?;
        let about = (self.name.as_str(), self.side, per(self.side));
        dataset.write_features(&lock, about, &self.matrix, Some(&numbers))?;
        let with = rows.iter().flatten().count();
        Ok(Some((&self.name, with, rows.len() - with)))
    }

    fn is_own(&self, set: &FeatureSet) -> bool {
        (set.side, &set.name) == (self.side, &self.name)
    }

    /// The rows of these names in the type of the set; NaN for those that have none.
    fn gathered<'b>(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        names: impl Iterator<Item = Option<&'b str>>,
    ) -> Result<Matrix, Error> {
        let (_, features) = dataset.features(set.side, Some(&set.name))?;
        let like = features.matrix();
        let rows: Vec<Option<usize>> = names.map(|name| self.rows.get(name?).copied()).collect();
        let numbers = numbers_of(&self.matrix, rows.into_iter());
        in_type_of(dataset, set, like, numbers)
    }
}

impl FeatureSource for GivenVectors<'_> {
    fn check(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
    ) -> Result<(), Box<dyn AnyError + Send + Sync>> {
        if self.is_own(set) { Ok(()) } else { self.others.check(dataset, set) }
    }

    fn text_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        texts: &[&str],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn AnyError + Send + Sync>> {
        if !self.is_own(set) {
            return self.others.text_rows(dataset, set, texts, progress);
        }
        Ok(self.gathered(dataset, set, texts.iter().map(|text| Some(*text)))?)
    }

    fn image_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        images: &[&Path],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn AnyError + Send + Sync>> {
        if !self.is_own(set) {
            return self.others.image_rows(dataset, set, images, progress);
        }
        let ids = images.iter().map(|file| self.ids.get(*file).map(String::as_str));
        Ok(self.gathered(dataset, set, ids)?)
    }
}

/// The first row of every name.
fn in_order<'a>(names: impl Iterator<Item = Option<&'a String>>) -> HashMap<String, usize> {
    let mut rows = HashMap::new();
    for (row, name) in names.enumerate() {
        if let Some(name) = name {
            rows.entry(name.clone()).or_insert(row);
        }
    }
    rows
}

/// The rows of answers about the items with these ids. Rows of one item belong to its answers, one after the
/// other.
fn by_id(
    file: &Path,
    ids: &[String],
    answers: &[Answer],
    keys: &[Option<String>],
) -> Result<HashMap<String, usize>, Error> {
    let mut waiting: HashMap<&str, Vec<&String>> = HashMap::new();
    for (answer, key) in answers.iter().zip(keys).rev() {
        if let Some(key) = key {
            waiting.entry(&answer.id).or_default().push(key);
        }
    }
    let mut rows = HashMap::new();
    for (row, id) in ids.iter().enumerate() {
        let key = waiting.get_mut(id.as_str()).and_then(Vec::pop);
        let what = || format!("the answers have nothing about {id} for this row");
        let key = key.ok_or_else(|| Error::row(file, row, what()))?;
        rows.entry(key.clone()).or_insert(row);
    }
    Ok(rows)
}
