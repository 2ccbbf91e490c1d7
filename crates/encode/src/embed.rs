//! Features for a whole dataset: a long job that reports progress and survives being stopped.
//!
//! Rows are encoded in chunks, in parallel, and appended in order to files in
//! `features/.NAME.SIDE.partial/`, with a record after every chunk. When all rows are there, the
//! files move to their final places, the manifest names them, and the folder is removed. If the job
//! is killed at any point, the same call continues from the last record and ends with the same
//! bytes.

mod finish;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use half::f16;
use nextpair_data::dataset::{Dataset, FeatureSet, Per};
use nextpair_data::{Dtype, Growing, Progress, Side, first_difference, npy};
use rayon::prelude::*;

use crate::{Error, ImageEncoder, Pca, TextEncoder, Worker};
use rows::{Captions, Encoded, Images, Rows};

/// The growing files, in the order they are opened.
const NUMBERS: usize = 0;
const PLACES: usize = 1;
const BAD: usize = 2;
const FILES: [&str; 3] = ["numbers.npy", "places.i64", "bad.jsonl"];
/// Name of the progress record.
const RECORD: &str = "embed";

/// Settings of the features to write.
#[derive(Clone, Debug)]
pub struct Output {
    /// The name of the feature set.
    pub name: String,
    /// [`Dtype::F16`] or [`Dtype::F32`].
    pub dtype: Dtype,
    /// Principal components to keep instead of all dimensions.
    pub components: Option<usize>,
    /// Whether to make features of this name anew, even if the same ones exist.
    pub replace: bool,
}

/// The result of a job.
#[derive(Clone, Debug)]
pub struct Report {
    /// Number of rows of the features.
    pub rows: usize,
    /// Number of rows that an earlier, stopped call had made.
    pub resumed: usize,
    /// Number of items that could not be encoded, listed in `features/NAME.SIDE.bad.jsonl`.
    pub bad: usize,
    /// The share of the variance that the principal components keep.
    pub explained: Option<f64>,
    /// Whether exactly these features existed already.
    pub existed: bool,
}

/// Encodes every image of a dataset.
pub fn embed_images(
    dataset: &mut Dataset,
    encoder: &ImageEncoder,
    output: &Output,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    if !dataset.has_image_files() {
        let what = "the images are known by name only; import with --image-dir to encode them";
        return Err(Error::file(dataset.folder(), what));
    }
    let before = dataset.clone();
    embed(dataset, &Images { dataset: &before, encoder }, output, progress)
}

/// Encodes every caption of a dataset.
pub fn embed_texts(
    dataset: &mut Dataset,
    encoder: &TextEncoder,
    output: &Output,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    let items = dataset.items().clone();
    if items.captions() == 0 {
        let what = "there are no captions to encode yet: run this once after the first `nextpair add`; from then on \
                    `add` encodes new ones with the same encoder";
        return Err(Error::file(dataset.folder(), what));
    }
    embed(dataset, &Captions { items: &items, encoder }, output, progress)
}

/// Paths of one feature set.
struct Places {
    features: PathBuf,
    /// `NAME.SIDE`.
    stem: String,
    partial: PathBuf,
}

impl Places {
    fn new(dataset: &Dataset, name: &str, side: Side) -> Self {
        Self::of(dataset.folder(), name, side)
    }

    fn of(dataset: &Path, name: &str, side: Side) -> Self {
        let (features, stem) = (dataset.join("features"), format!("{name}.{side}"));
        let partial = features.join(format!(".{stem}.partial"));
        Places { features, stem, partial }
    }

    /// The path of a final file, and its path in the manifest.
    fn file(&self, extension: &str) -> (PathBuf, PathBuf) {
        let name = format!("{}.{extension}", self.stem);
        (self.features.join(&name), Path::new("features").join(name))
    }
}

fn embed(
    dataset: &mut Dataset,
    rows: &dyn Rows,
    output: &Output,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    check_name(dataset.folder(), &output.name)?;
    let lock = dataset.lock()?;
    let places = Places::new(dataset, &output.name, rows.side());
    let made_by = finish::made_by(dataset, rows, output, &places)?;
    if let Some(report) = existing(dataset, rows.side(), output, &made_by, &places)? {
        return Ok(report);
    }
    if rows.count() == 0 {
        let what = format!("there is no {} to encode", rows.side());
        return Err(Error::file(dataset.folder(), what));
    }
    let shape = Shape::new(rows, output);
    if let Some(components) = output.components {
        Pca::check(components, rows.count() * shape.locals, shape.dim)?;
    }
    let job = finish::job(&made_by, shape.dtype);
    if places.partial.exists() && !Growing::is_of(&places.partial, RECORD, &job)? {
        // Do not cut it back: one of its files may already have its final name as well.
        fs::remove_dir_all(&places.partial).map_err(|e| Error::io(&places.partial, e))?;
    }
    fs::create_dir_all(&places.partial).map_err(|e| Error::io(&places.partial, e))?;
    let mut files = Growing::open(&places.partial, RECORD, &job, &FILES)?;
    let resumed = shape.rows_in(&files);
    make(rows, &shape, &mut files, progress)?;
    dataset.items().check_unchanged()?;
    let made = shape.rows_in(&files);
    if made == 0 {
        let (bad, _) = places.file("bad.jsonl");
        finish::place(&places.partial.join(FILES[BAD]), &bad)?;
        // The next try encodes all of them again.
        drop(files);
        fs::remove_dir_all(&places.partial).map_err(|e| Error::io(&places.partial, e))?;
        let what = format!("not one {} could be encoded; see {}", rows.side(), bad.display());
        return Err(Error::file(dataset.folder(), what));
    }
    files.rewrite_start(NUMBERS, &shape.header(made))?;
    // Remove a replaced set from the manifest before its files change: never old rows with new
    // numbers.
    dataset.remove_features(&lock, rows.side(), &output.name)?;
    let (set, explained) = finish::finish(rows, output, &places, made_by, progress)?;
    dataset.add_features(&lock, set)?;
    drop(files);
    fs::remove_dir_all(&places.partial).map_err(|e| Error::io(&places.partial, e))?;
    let bad = finish::count_lines(&places.file("bad.jsonl").0)?;
    Ok(Report { rows: made, resumed, bad, explained, existed: false })
}

/// Returns how many rows of features were made before their job was stopped, and are kept.
pub fn rows_kept(dataset: &Path, name: &str, side: Side) -> Result<u64, Error> {
    let partial = Places::of(dataset, name, side).partial;
    Ok(Growing::recorded_in(&partial, RECORD)?.map_or(0, |(_, done)| done))
}

/// Encodes the rows that the record does not have.
fn make(
    rows: &dyn Rows,
    shape: &Shape,
    files: &mut Growing,
    progress: &dyn Progress,
) -> Result<(), Error> {
    progress.start(rows.phase(), rows.count() as u64);
    progress.advance(files.done());
    if files.done() == 0 {
        files.append(NUMBERS, &shape.header(0))?;
    }
    let workers: Vec<Worker> = (0..rayon::current_num_threads()).map(|_| Worker::new()).collect();
    let mut row = shape.rows_in(files) as i64;
    while (files.done() as usize) < rows.count() {
        let start = files.done() as usize;
        let chunk = start..(start + rows.chunk()).min(rows.count());
        let made: Vec<Encoded> = chunk
            .clone()
            .into_par_iter()
            .with_max_len(1)
            .map(|at| {
                let made = rows.make(&workers[rayon::current_thread_index().unwrap_or(0)], at);
                progress.advance(1);
                made
            })
            .collect::<Result<_, Error>>()?;
        for (at, made) in chunk.clone().zip(made) {
            let stored = match made {
                Encoded::Row(numbers) => Some(encoded(&numbers, shape.dtype)),
                Encoded::Nothing => None,
                Encoded::Bad(what) => Some(Err(what)),
            };
            let mut place = -1;
            match stored {
                Some(Ok(bytes)) => {
                    files.append(NUMBERS, &bytes)?;
                    place = row;
                    row += 1;
                }
                Some(Err(what)) => {
                    let line = serde_json::json!({ "id": rows.name(at), "what": what });
                    files.append(BAD, format!("{line}\n").as_bytes())?;
                }
                None => {}
            }
            files.append(PLACES, &place.to_le_bytes())?;
        }
        files.commit(chunk.end as u64)?;
    }
    Ok(())
}

/// Shape and storage type of the growing rows: final, or full precision if components follow.
struct Shape {
    locals: usize,
    dim: usize,
    dtype: Dtype,
}

impl Shape {
    fn new(rows: &dyn Rows, output: &Output) -> Self {
        let (locals, dim) = rows.shape();
        let dtype = if output.components.is_some() { Dtype::F32 } else { output.dtype };
        Shape { locals, dim, dtype }
    }

    fn header(&self, rows: usize) -> Vec<u8> {
        npy::header_of(rows, self.locals, self.dim, self.dtype)
    }

    fn rows_in(&self, files: &Growing) -> usize {
        let bytes = files.recorded(NUMBERS).saturating_sub(self.header(0).len() as u64);
        bytes as usize / (self.locals * self.dim * self.dtype.in_npy().size())
    }
}

/// Converts numbers to their storage type. The error names one that does not fit.
fn encoded(numbers: &[f32], dtype: Dtype) -> Result<Vec<u8>, String> {
    match dtype {
        Dtype::F16 => {
            check_f16(numbers)?;
            Ok(numbers.iter().flat_map(|&n| f16::from_f32(n).to_le_bytes()).collect())
        }
        Dtype::F32 | Dtype::Bf16 => Ok(numbers.iter().flat_map(|n| n.to_le_bytes()).collect()),
        Dtype::F64 => Ok(numbers.iter().flat_map(|&n| f64::from(n).to_le_bytes()).collect()),
    }
}

/// Returns an error if a number does not fit float16.
pub(crate) fn check_f16(numbers: &[f32]) -> Result<(), String> {
    match numbers.iter().find(|number| number.abs() > f16::MAX.to_f32()) {
        Some(number) => Err(format!("{number} does not fit float16; choose float32")),
        None => Ok(()),
    }
}

/// Looks for features of this name. Identical ones are returned; others must not be overwritten.
fn existing(
    dataset: &Dataset,
    side: Side,
    output: &Output,
    made_by: &toml::Table,
    places: &Places,
) -> Result<Option<Report>, Error> {
    let sets = &dataset.manifest().features;
    let Some(set) = sets.iter().find(|set| (set.side, &set.name) == (side, &output.name)) else {
        return Ok(None);
    };
    if set.made_by.as_ref() == Some(made_by) && !output.replace {
        // An earlier call was stopped after it wrote the manifest.
        if places.partial.exists() {
            fs::remove_dir_all(&places.partial).map_err(|e| Error::io(&places.partial, e))?;
        }
        let (_, features) = dataset.features(side, Some(&output.name))?;
        let bad = finish::count_lines(&places.file("bad.jsonl").0)?;
        let rows = features.matrix().rows();
        return Ok(Some(Report { rows, resumed: rows, bad, explained: None, existed: true }));
    }
    if output.replace {
        Ok(None)
    } else {
        let name = &output.name;
        let differs = set.made_by.as_ref().and_then(|was| first_difference(was, made_by, ""));
        let differs = differs.map_or_else(String::new, |differs| format!(" ({differs})"));
        let what = format!(
            "{side} features {name} exist already and were made in another way{differs}; give another \
             --name, or --replace"
        );
        Err(Error::file(dataset.folder(), what))
    }
}

fn check_name(folder: &Path, name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(plain) {
        let what = format!("{name:?} is not a name for features: letters, digits, - _ and .");
        return Err(Error::file(folder, what));
    }
    Ok(())
}

/// The feature set for the manifest.
fn feature_set(
    output: &Output,
    side: Side,
    file: PathBuf,
    rows: Option<PathBuf>,
    made_by: toml::Table,
) -> FeatureSet {
    let per = match side {
        Side::Image => Per::Item,
        Side::Text => Per::Caption,
    };
    let (name, made_by) = (output.name.clone(), Some(made_by));
    FeatureSet { name, side, per, files: vec![file], rows, made_by, digests: Default::default() }
}
