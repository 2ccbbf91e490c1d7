//! Datasets: opened, made of other sources, given features, enlarged.

use std::path::{Path, PathBuf};

use nextpair::core::Error;
use nextpair::data::dataset::{Dataset as Opened, DrawnSplits, FeatureSet, Per};
use nextpair::data::import::{
    self, Coco, Embeddings, Flickr, Folder, HuggingFace, Importer, Karpathy, Leniency, SplitSource,
    Table, Tally, WebDataset,
};
use nextpair::data::{Columns, scenes};
use nextpair::encode::{
    DatasetEncoders, ImageEncoder, Output, Pooling, Preprocess, TIME_LIMIT, TextEncoder,
    TextPooling, embed_images, embed_texts,
};
use nextpair::{Addition, Dtype, Side};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::ArrayView;
use crate::errors::{self, Failure};
use crate::work::How;

/// An item: id, split, the name and the file of its image, and captions.
type RawItem = (String, Option<String>, Option<String>, Option<PathBuf>, Vec<String>);
/// Features: bytes, rows, vectors per row, dimensions, type, and the row of every item or caption.
type RawFeatures<'py> =
    (Bound<'py, PyBytes>, usize, usize, usize, &'static str, Vec<Option<usize>>);

/// A dataset, opened for reading. Others may have changed its features since.
#[pyclass(frozen, module = "nextpair._engine")]
pub(crate) struct Dataset {
    opened: Opened,
}

#[pymethods]
impl Dataset {
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Opened::open(&folder));
        Ok(Dataset { opened: opened.map_err(|error| errors::raise(py, error))? })
    }

    #[getter]
    fn folder(&self) -> PathBuf {
        self.opened.folder().to_path_buf()
    }

    #[getter]
    fn name(&self) -> String {
        self.opened.manifest().name.clone()
    }

    /// Whether a program generated it.
    #[getter]
    fn synthetic(&self) -> bool {
        self.opened.manifest().synthetic
    }

    #[getter]
    fn len(&self) -> usize {
        self.opened.items().len()
    }

    #[getter]
    fn captions(&self) -> usize {
        self.opened.items().captions()
    }

    /// Names and sides of the features, in the order in which they were added.
    #[getter]
    fn feature_sets(&self) -> Vec<(String, &'static str)> {
        let named = |set: &FeatureSet| (set.name.clone(), name_of(set.side));
        self.opened.manifest().features.iter().map(named).collect()
    }

    /// Some items.
    fn items(&self, py: Python<'_>, first: usize, last: usize) -> Vec<RawItem> {
        py.detach(|| {
            let item = |index: usize| {
                let item = self.opened.items().get(index);
                let file = self.opened.image_file(&item);
                (item.id, item.split, item.image, file, item.captions)
            };
            (first..last.min(self.opened.items().len())).map(item).collect()
        })
    }

    /// The features of a side, those of a name or the last.
    fn features<'py>(
        &self,
        py: Python<'py>,
        side: &str,
        name: Option<&str>,
    ) -> PyResult<RawFeatures<'py>> {
        let found = self.opened.features(side_of(side), name);
        let (set, features) = found.map_err(|error| errors::raise(py, error))?;
        let matrix = features.matrix();
        let rows = (0..self.opened.owners(set.per)).map(|owner| features.row(owner)).collect();
        let size = matrix.rows() * matrix.locals() * matrix.dim();
        // NumPy has no bfloat16: single precision holds its numbers.
        let stored = matrix.dtype().in_npy();
        let size = size * stored.size();
        let bytes = PyBytes::new_with(py, size, |bytes| {
            py.detach(|| {
                let each = bytes.len() / matrix.rows().max(1);
                for (row, place) in bytes.chunks_exact_mut(each.max(1)).enumerate() {
                    if stored == matrix.dtype() {
                        place.copy_from_slice(matrix.row_bytes(row));
                        continue;
                    }
                    let mut numbers = vec![0f32; matrix.locals() * matrix.dim()];
                    matrix.read_f32(row, &mut numbers);
                    for (place, number) in place.chunks_exact_mut(4).zip(numbers) {
                        place.copy_from_slice(&number.to_le_bytes());
                    }
                }
            });
            Ok(())
        })?;
        matrix.check_unchanged().map_err(|error| errors::raise(py, error))?;
        let dtype = match stored {
            Dtype::F16 => "float16",
            Dtype::F32 | Dtype::Bf16 => "float32",
            Dtype::F64 => "float64",
        };
        Ok((bytes, matrix.rows(), matrix.locals(), matrix.dim(), dtype, rows))
    }

    /// Adds features that were made elsewhere: their name, side, and whether items or captions have them. There
    /// is a row for each, or for those that `rows` names. Features of this name are replaced if `replace` is set.
    fn add_features(
        &self,
        py: Python<'_>,
        about: (String, String, String),
        array: ArrayView,
        rows: Option<Vec<i64>>,
        replace: bool,
        how: How<'_>,
    ) -> PyResult<()> {
        let matrix = array.matrix(py)?;
        let mut opened = self.opened.clone();
        let (name, side, per) = about;
        let side = side_of(&side);
        let per = if per == "caption" { Per::Caption } else { Per::Item };
        let owners = self.opened.owners(per);
        how.work(py, move |_| {
            let lock = opened.lock()?;
            // Before files of the same name are replaced.
            let found = rows.as_ref().map_or(matrix.rows(), Vec::len);
            if found != owners {
                let what = format!("{found} rows of features for {owners} of them");
                return Err(Error::format(opened.folder(), what).into());
            }
            let taken = |set: &FeatureSet| (set.side, &set.name) == (side, &name);
            if !replace && opened.manifest().features.iter().any(taken) {
                let what = format!(
                    "{side} features {name} exist already; give another name, or replace=True"
                );
                return Err(Error::format(opened.folder(), what).into());
            }
            opened.write_features(&lock, (&name, side, per), &matrix, rows.as_deref())?;
            Ok(())
        })
    }

    /// Makes features with ONNX encoders. Returns the rows, those that were there before, and those that
    /// could not be encoded.
    fn embed(
        &self,
        py: Python<'_>,
        encoder: GivenEncoder,
        how: How<'_>,
    ) -> PyResult<(usize, usize, usize)> {
        let mut opened = self.opened.clone();
        how.work(py, move |progress| {
            let report = match side_of(&encoder.side) {
                Side::Image => {
                    let (model, output) = (encoder.image_encoder()?, encoder.output());
                    embed_images(&mut opened, &model, &output, progress)?
                }
                Side::Text => {
                    let (model, output) = (encoder.text_encoder()?, encoder.output());
                    embed_texts(&mut opened, &model, &output, progress)?
                }
            };
            Ok((report.rows, report.resumed, report.bad))
        })
    }

    /// Writes a larger dataset with what people said. Returns new captions, images and paired items,
    /// answers that were known, refusals by reason, and skips without one.
    #[allow(clippy::type_complexity, reason = "a row of numbers")]
    fn enlarge(
        &self,
        py: Python<'_>,
        answers: Vec<PathBuf>,
        pool_side: &str,
        images: Vec<PathBuf>,
        place: (PathBuf, f64, f64),
        how: How<'_>,
    ) -> PyResult<(usize, usize, usize, usize, Vec<(String, usize)>, usize)> {
        let (opened, side) = (self.opened.clone(), side_of(pool_side));
        how.work(py, move |progress| {
            let (out, dev, test) = place;
            let splits = DrawnSplits::new(dev, test)?;
            let addition = Addition::read(&opened, &answers, side, &images)?.with_splits(splits);
            let added = addition.write(&out, &DatasetEncoders, progress)?;
            let refused = added.refused.into_iter().collect();
            Ok((added.captions, added.images, added.paired, added.known, refused, added.skipped))
        })
    }
}

/// An ONNX encoder, and the features it makes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenEncoder {
    side: String,
    model: PathBuf,
    name: String,
    dtype: String,
    components: Option<usize>,
    replace: bool,
    output: Option<String>,
    /// A preset or a TOML file; for images.
    preprocess: Option<String>,
    /// Regions of an image; one vector if there are none.
    regions: Option<usize>,
    /// For texts.
    tokenizer: Option<PathBuf>,
    cls: bool,
    l2: bool,
}

impl GivenEncoder {
    fn output(&self) -> Output {
        Output {
            name: self.name.clone(),
            dtype: if self.dtype == "float32" { Dtype::F32 } else { Dtype::F16 },
            components: self.components,
            replace: self.replace,
        }
    }

    fn image_encoder(&self) -> Result<ImageEncoder, Failure> {
        let beside = self.model.with_extension("toml");
        let preprocess = match self.preprocess.as_deref() {
            Some(name) => match Preprocess::preset(name) {
                Some(preset) => preset,
                None => Preprocess::read(Path::new(name))?,
            },
            None if beside.exists() => Preprocess::read(&beside)?,
            None => {
                let presets = Preprocess::PRESETS.join(", ");
                let what = format!(
                    "preprocess: how are images prepared? There are {presets}, or a TOML file"
                );
                return Err(Failure::Setting(what));
            }
        };
        let pooling = self.regions.map_or(Pooling::Pooled, Pooling::Regions);
        let output = self.output.as_deref();
        Ok(ImageEncoder::open_within(&self.model, preprocess, pooling, output, TIME_LIMIT)?)
    }

    fn text_encoder(&self) -> Result<TextEncoder, Failure> {
        let beside = self.model.with_file_name("tokenizer.json");
        let tokenizer = self.tokenizer.as_deref().unwrap_or(&beside);
        let pooling = if self.cls { TextPooling::Cls } else { TextPooling::Mean };
        let reading = (tokenizer, pooling, self.l2);
        Ok(TextEncoder::open_within(&self.model, reading, self.output.as_deref(), TIME_LIMIT)?)
    }
}

/// A source to import, and the options that its kind has.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenSource {
    kind: String,
    source: PathBuf,
    out: PathBuf,
    skip_bad: bool,
    images_optional: bool,
    image_dir: Option<PathBuf>,
    image: Option<String>,
    caption: Option<String>,
    id: Option<String>,
    split_column: Option<String>,
    split: String,
    side: String,
    other: Option<PathBuf>,
    ids: Option<PathBuf>,
    captions: Option<PathBuf>,
    max_captions: usize,
    dev: f64,
    test: f64,
}

impl GivenSource {
    fn importer(self) -> Result<Box<dyn Importer>, Failure> {
        let GivenSource { source, image_dir, split, max_captions, .. } = self;
        Ok(match self.kind.as_str() {
            "parquet" => Box::new(HuggingFace {
                source,
                image_column: self.image,
                caption_column: self.caption,
                id_column: self.id,
                split_column: self.split_column,
                split,
                image_dir,
            }),
            "table" => Box::new(Table {
                image_column: self.image,
                caption_column: self.caption,
                id_column: self.id,
                split_column: self.split_column,
                split,
                image_dir,
                ..Table::new(source)
            }),
            "folder" => Box::new(Folder { folder: source, caption_key: self.caption, split }),
            "webdataset" => Box::new(WebDataset { source, split }),
            "coco" => Box::new(Coco { source, image_dir, max_captions }),
            "flickr" => Box::new(Flickr { source, image_dir, unlisted: false }),
            "karpathy" => {
                Box::new(Karpathy { json: source, image_dir, restval: false, max_captions })
            }
            "embeddings" => Box::new(Embeddings {
                source,
                side: side_of(&self.side),
                other: self.other,
                ids: self.ids,
                captions: self.captions,
                split,
                columns: Columns { id: self.id, embedding: None },
            }),
            other => return Err(Failure::Setting(format!("kind: nothing imports {other:?}"))),
        })
    }
}

/// Makes a dataset of another source, whole or not at all. Returns what was odd, in words.
#[pyfunction]
pub(crate) fn import_dataset(
    py: Python<'_>,
    given: GivenSource,
    how: How<'_>,
) -> PyResult<Vec<String>> {
    how.work(py, move |progress| {
        let leniency =
            Leniency { skip_bad: given.skip_bad, images_optional: given.images_optional };
        let out = given.out.clone();
        let splits = DrawnSplits::new(given.dev, given.test)?;
        let importer = SplitSource { source: given.importer()?, splits };
        let summary = import::import_leniently(&importer, &out, leniency, progress)?;
        let said = |tally: &Tally| {
            format!("{} x {}, such as {}", tally.count, tally.what, tally.examples.join("; "))
        };
        Ok(summary.findings.bad.iter().chain(&summary.findings.notes).map(said).collect())
    })
}

/// Makes a dataset of generated scenes.
#[pyfunction]
pub(crate) fn import_scenes(
    py: Python<'_>,
    out: PathBuf,
    images: usize,
    seed: u64,
    how: How<'_>,
) -> PyResult<()> {
    how.work(py, move |progress| {
        let settings = scenes::Settings { images, seed, ..scenes::Settings::default() };
        import::import_scenes(&settings, &out, progress)?;
        Ok(())
    })
}

fn side_of(name: &str) -> Side {
    if name == "text" { Side::Text } else { Side::Image }
}

fn name_of(side: Side) -> &'static str {
    match side {
        Side::Image => "image",
        Side::Text => "text",
    }
}
