//! Recipes: encode more pictures and texts exactly as the rows of an existing feature set were
//! made, according to its `made_by`.

use std::path::{Path, PathBuf};

use half::f16;
use nextpair_data::dataset::{Dataset, FeatureSet, FeatureSource};
use nextpair_data::picture::{self, Picture};
use nextpair_data::{Dtype, Matrix, Progress, Side, scenes};
use rayon::prelude::*;

use crate::embed::check_f16;
use crate::hash::sha256;
use crate::{Error, ImageEncoder, Pca, Pooling, Preprocess, TextEncoder, TextPooling, Worker};

/// Makes rows of an image feature set.
pub struct ImageRecipe {
    source: ImageSource,
    finish: Finish,
}

enum ImageSource {
    /// The descriptors of the generated scenes.
    Scenes,
    Encoder(Box<ImageEncoder>),
}

/// Makes rows of a text feature set.
pub struct TextRecipe {
    encoder: TextEncoder,
    finish: Finish,
}

impl ImageRecipe {
    /// Opens the encoder that the feature set was made with.
    ///
    /// # Errors
    /// If the manifest does not say how the set was made, or a file that it names is gone or has
    /// changed.
    pub fn open(dataset: &Dataset, set: &FeatureSet) -> Result<Self, Error> {
        let notes = Notes::of(dataset, set)?;
        let finish = Finish::open(&notes)?;
        if notes.has(scenes::MADE_BY) {
            finish.check(&notes, scenes::DESCRIPTORS)?;
            return Ok(ImageRecipe { source: ImageSource::Scenes, finish });
        }
        let preprocess = notes.table.get("preprocess").and_then(|value| value.as_table());
        let preprocess = preprocess.ok_or_else(|| notes.lacks("preprocess"))?;
        let preprocess =
            Preprocess::parse(&preprocess.to_string()).map_err(|what| notes.wrong(what))?;
        let regions = notes.table.get("regions").and_then(|value| value.as_integer());
        let pooling = match regions {
            Some(count) => Pooling::Regions(usize::try_from(count).unwrap_or(0)),
            None => Pooling::Pooled,
        };
        let encoder = notes.file("encoder", "sha256")?;
        let encoder =
            ImageEncoder::open(&encoder, preprocess, pooling, Some(notes.text("output")?))?;
        finish.check(&notes, encoder.dim())?;
        Ok(ImageRecipe { source: ImageSource::Encoder(Box::new(encoder)), finish })
    }

    /// Encodes a picture.
    pub fn row(&self, picture: &Picture) -> Result<Vec<f32>, Error> {
        self.row_by(&Worker::new(), picture)
    }

    /// Vectors per row, and their dimensions.
    pub fn shape(&self) -> (usize, usize) {
        let (locals, dim) = match &self.source {
            ImageSource::Scenes => (scenes::REGIONS, scenes::DESCRIPTORS),
            ImageSource::Encoder(encoder) => (encoder.locals(), encoder.dim()),
        };
        (locals, self.finish.dim(dim))
    }

    /// Encodes image files in the storage type, exactly as `embed` would have. The row of a picture
    /// that cannot be encoded is all NaN, and a remark to `progress` gives the reason. A file that
    /// cannot be read is an error.
    pub fn rows(&self, files: &[&Path], progress: &dyn Progress) -> Result<Matrix, Error> {
        let make = |worker: &Worker, file: &&Path| {
            let picture = picture::read(file)?;
            Ok(self.row_by(worker, &picture).map_err(|error| (file.display().to_string(), error)))
        };
        self.finish.rows(("images", self.shape()), files, make, progress)
    }

    fn row_by(&self, worker: &Worker, picture: &Picture) -> Result<Vec<f32>, Error> {
        let numbers = match &self.source {
            ImageSource::Scenes => scenes::describe_picture(picture),
            ImageSource::Encoder(encoder) => encoder.encode(worker, picture)?,
        };
        self.finish.apply(numbers)
    }
}

impl TextRecipe {
    /// Opens the encoder that the feature set was made with; see [`ImageRecipe::open`].
    pub fn open(dataset: &Dataset, set: &FeatureSet) -> Result<Self, Error> {
        let notes = Notes::of(dataset, set)?;
        let finish = Finish::open(&notes)?;
        let pooling = match notes.text("pooling")? {
            "mean" => TextPooling::Mean,
            "cls" => TextPooling::Cls,
            other => return Err(notes.wrong(format!("the pooling {other:?} is unknown"))),
        };
        let l2 = notes.table.get("l2").and_then(|value| value.as_bool());
        let encoder = TextEncoder::open(
            &notes.file("encoder", "sha256")?,
            &notes.file("tokenizer", "tokenizer_sha256")?,
            pooling,
            l2.ok_or_else(|| notes.lacks("l2"))?,
            Some(notes.text("output")?),
        )?;
        finish.check(&notes, encoder.dim())?;
        Ok(TextRecipe { encoder, finish })
    }

    /// Encodes a text.
    pub fn row(&self, text: &str) -> Result<Vec<f32>, Error> {
        self.row_by(&Worker::new(), text)
    }

    /// Dimensions of a row.
    pub fn dim(&self) -> usize {
        self.finish.dim(self.encoder.dim())
    }

    /// Encodes texts in the storage type, exactly as `embed` would have. The row of a text that
    /// cannot be encoded is all NaN, and a remark to `progress` gives the reason.
    pub fn rows(&self, texts: &[&str], progress: &dyn Progress) -> Result<Matrix, Error> {
        let make = |worker: &Worker, text: &&str| {
            Ok(self.row_by(worker, text).map_err(|error| (format!("{text:?}"), error)))
        };
        self.finish.rows(("captions", (1, self.dim())), texts, make, progress)
    }

    fn row_by(&self, worker: &Worker, text: &str) -> Result<Vec<f32>, Error> {
        self.finish.apply(self.encoder.encode(worker, text)?)
    }
}

/// The encoders that datasets name in their manifests, as a [`FeatureSource`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DatasetEncoders;

impl FeatureSource for DatasetEncoders {
    fn check(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let opened = match set.side {
            Side::Image => ImageRecipe::open(dataset, set).map(drop),
            Side::Text => TextRecipe::open(dataset, set).map(drop),
        };
        Ok(opened?)
    }

    fn text_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        texts: &[&str],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn std::error::Error + Send + Sync>> {
        Ok(TextRecipe::open(dataset, set)?.rows(texts, progress)?)
    }

    fn image_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        images: &[&Path],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn std::error::Error + Send + Sync>> {
        Ok(ImageRecipe::open(dataset, set)?.rows(images, progress)?)
    }
}

/// The `made_by` entry of a feature set in the manifest.
struct Notes<'a> {
    dataset: &'a Path,
    set: &'a FeatureSet,
    table: &'a toml::Table,
}

impl<'a> Notes<'a> {
    fn of(dataset: &'a Dataset, set: &'a FeatureSet) -> Result<Self, Error> {
        let dataset = dataset.folder();
        match &set.made_by {
            Some(table) => Ok(Notes { dataset, set, table }),
            None => {
                let (dataset, set_name) = (dataset.to_path_buf(), set.name.clone());
                Err(Error::NoRecipe { dataset, side: set.side, set: set_name })
            }
        }
    }

    fn has(&self, (key, value): (&str, &str)) -> bool {
        self.table.get(key).and_then(|found| found.as_str()) == Some(value)
    }

    fn wrong(&self, what: String) -> Error {
        let (side, name) = (self.set.side, &self.set.name);
        Error::file(self.dataset, format!("how the {side} features {name} were made: {what}"))
    }

    fn lacks(&self, key: &str) -> Error {
        self.wrong(format!("{key} is missing"))
    }

    fn text(&self, key: &str) -> Result<&'a str, Error> {
        self.table.get(key).and_then(|value| value.as_str()).ok_or_else(|| self.lacks(key))
    }

    /// A file that the rows depend on; it must be unchanged.
    fn file(&self, key: &str, hash: &str) -> Result<PathBuf, Error> {
        let path = PathBuf::from(self.text(key)?);
        let (side, set) = (self.set.side, self.set.name.clone());
        if !path.exists() {
            return Err(Error::Gone { path, side, set });
        }
        if sha256(&path)? != self.text(hash)? {
            return Err(Error::Changed { path, side, set });
        }
        Ok(path)
    }
}

/// The steps from an encoder's output to the stored numbers.
struct Finish {
    pca: Option<Pca>,
    dtype: Dtype,
}

impl Finish {
    fn open(notes: &Notes<'_>) -> Result<Self, Error> {
        let dtype = match notes.text("dtype")? {
            "f16" => Dtype::F16,
            "f32" => Dtype::F32,
            "f64" => Dtype::F64,
            other => return Err(notes.wrong(format!("the dtype {other:?} is unknown"))),
        };
        let pca = if notes.table.contains_key("pca") {
            Some(Pca::read(&notes.dataset.join(notes.text("pca")?))?)
        } else {
            None
        };
        Ok(Finish { pca, dtype })
    }

    fn check(&self, notes: &Notes<'_>, dim: usize) -> Result<(), Error> {
        match &self.pca {
            Some(pca) if pca.dim() != dim => {
                let found = pca.dim();
                let what = format!("components of {found} numbers for an encoder that makes {dim}");
                Err(notes.wrong(what))
            }
            _ => Ok(()),
        }
    }

    /// Dimensions of a stored vector, for an encoder of `dim` dimensions.
    fn dim(&self, dim: usize) -> usize {
        self.pca.as_ref().map_or(dim, Pca::components)
    }

    /// Makes a row of each input in parallel. `make` returns what cannot be encoded as its name and
    /// the reason.
    fn rows<T: Sync>(
        &self,
        (phase, (locals, dim)): (&'static str, (usize, usize)),
        inputs: &[T],
        make: impl Fn(&Worker, &T) -> Result<Result<Vec<f32>, (String, Error)>, Error> + Sync,
        progress: &dyn Progress,
    ) -> Result<Matrix, Error> {
        progress.start(phase, inputs.len() as u64);
        let workers: Vec<Worker> =
            (0..rayon::current_num_threads()).map(|_| Worker::new()).collect();
        let rows = inputs.par_iter().with_max_len(1).map(|input| {
            let worker = &workers[rayon::current_thread_index().unwrap_or(0)];
            let row = make(worker, input)?;
            progress.advance(1);
            match row {
                Err((_, error)) if error.is_of_any_input() => Err(error),
                Err((name, error)) => {
                    progress.remark(&format!("{name} cannot be encoded: {error}"));
                    Ok(vec![f32::NAN; locals * dim])
                }
                Ok(row) => Ok(row),
            }
        });
        let rows = rows.collect::<Result<Vec<_>, Error>>()?.concat();
        let matrix = match self.dtype {
            Dtype::F16 => Matrix::from_vec(dim, rows.into_iter().map(f16::from_f32).collect()),
            Dtype::F32 | Dtype::Bf16 => Matrix::from_vec(dim, rows),
            Dtype::F64 => Matrix::from_vec(dim, rows.into_iter().map(f64::from).collect()),
        };
        Ok(matrix.with_locals(locals))
    }

    fn apply(&self, numbers: Vec<f32>) -> Result<Vec<f32>, Error> {
        let mut row = match &self.pca {
            Some(pca) => {
                pca.apply(&numbers.iter().map(|&number| f64::from(number)).collect::<Vec<_>>())
            }
            None => numbers,
        };
        if self.dtype == Dtype::F16 {
            // Refuse what `embed` refuses, even if rounding would make it fit.
            check_f16(&row).map_err(|what| Error::Numbers { what })?;
            row.iter_mut().for_each(|number| *number = f16::from_f32(*number).to_f32());
        }
        if row.iter().all(|number| number.is_finite()) {
            Ok(row)
        } else {
            let what = "the encoder gave a number that is not finite";
            Err(Error::Numbers { what: what.to_owned() })
        }
    }
}
