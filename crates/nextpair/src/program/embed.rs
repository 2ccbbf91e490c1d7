//! `nextpair embed DATASET`: features from any ONNX encoder, or vectors that are there already.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::data::dataset::Dataset;
use crate::data::{Dtype, Side, open_columns, read_ids};
use crate::encode::{
    ImageEncoder, Output, Pooling, Preprocess, Report, TIME_LIMIT, TextEncoder, TextPooling,
    embed_images, embed_texts, rows_kept,
};
use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::program::inputs::ColumnArgs;
use crate::program::interrupt;
use crate::program::next;
use crate::program::numbers::grouped;
use crate::program::progress::Bar;
use crate::program::typed;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset; the features go into it
    dataset: PathBuf,
    /// An ONNX image encoder
    #[arg(long, value_name = "ONNX")]
    image_model: Option<PathBuf>,
    /// How images are prepared: a TOML file, or imagenet, clip, siglip, efficientnet-lite
    /// [default: the TOML file beside the model]
    #[arg(long, value_name = "FILE|NAME", requires = "image_model")]
    preprocess: Option<String>,
    /// Average the feature grid of an image over this many regions
    #[arg(long, value_name = "N", default_value_t = 36, conflicts_with = "pooled")]
    regions: usize,
    /// One vector per image
    #[arg(long, requires = "image_model")]
    pooled: bool,
    /// An ONNX text encoder
    #[arg(long, value_name = "ONNX")]
    text_model: Option<PathBuf>,
    /// Its tokeniser [default: tokenizer.json beside the model]
    #[arg(long, value_name = "FILE", requires = "text_model")]
    tokenizer: Option<PathBuf>,
    /// How the vectors of the words become one
    #[arg(long, value_enum, default_value = "mean")]
    text_pooling: TextPoolingName,
    /// Do not scale text embeddings to length 1
    #[arg(long, requires = "text_model")]
    no_l2: bool,
    /// Vectors of the images that you have already: .npy, .npz:array, .parquet, .safetensors:tensor, a row per
    /// item in their order, or for those that --ids names
    #[arg(long, value_name = "FILE", conflicts_with = "image_model")]
    image_vectors: Option<PathBuf>,
    /// Vectors of the captions that you have already, a row per caption
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text_model", "image_vectors"])]
    text_vectors: Option<PathBuf>,
    /// With vectors: the item of each row, one id a line; they fill what is missing in features of this name.
    /// Rows of one item belong to its captions without vectors [default: the ids of a Parquet file]
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Use this output of the graph, if there are several
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// What to call the features [default: the name of the model, or of the file of vectors]
    #[arg(long)]
    name: Option<String>,
    /// Keep this many principal components, fitted on the training split
    #[arg(long, value_name = "N")]
    pca: Option<usize>,
    /// How numbers are stored
    #[arg(long, value_enum, default_value = "f16")]
    dtype: DtypeName,
    /// Make features anew that exist already, in this or another way
    #[arg(long)]
    replace: bool,
    /// The most seconds that opening a model, or encoding one image or caption, may take
    #[arg(long, value_name = "SECONDS", default_value_t = TIME_LIMIT.as_secs())]
    time_limit: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum TextPoolingName {
    Mean,
    Cls,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DtypeName {
    F16,
    F32,
}

const EXAMPLE: &str = "size = 224\nresize = \"short-side\"\nresize_to = 256\nfilter = \"bicubic\"\n\
                       mean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(given) = args.vectors() {
        return add_vectors(args, given);
    }
    if args.image_model.is_none() && args.text_model.is_none() {
        bail!(
            "give --image-model, --text-model or both, or vectors that you have with --image-vectors or \
             --text-vectors"
        );
    }
    ensure!(args.ids.is_none(), "--ids: the rows of an encoder need no names");
    args.columns.of([])?;
    ensure!(args.pca != Some(0), "--pca 0 would keep nothing");
    ensure!(args.time_limit > 0, "--time-limit 0 leaves no time");
    let limit = Duration::from_secs(args.time_limit);
    interrupt::on_stop(interrupt::nothing_kept);
    let mut dataset = Dataset::open(&args.dataset)?;
    if let Some(model) = &args.image_model {
        let preprocess = preprocess(model, args.preprocess.as_deref())?;
        let pooling = if args.pooled { Pooling::Pooled } else { Pooling::Regions(args.regions) };
        let named = args.output.as_deref();
        let encoder = ImageEncoder::open_within(model, preprocess, pooling, named, limit);
        let encoder = encoder.map_err(explained)?;
        let output = args.to(model);
        stops_with(&args.dataset, &output.name, Side::Image);
        told("images", &output, |bar| embed_images(&mut dataset, &encoder, &output, bar))?;
    }
    if let Some(model) = &args.text_model {
        let beside = model.with_file_name("tokenizer.json");
        let tokenizer = args.tokenizer.as_ref().unwrap_or(&beside);
        let pooling = match args.text_pooling {
            TextPoolingName::Mean => TextPooling::Mean,
            TextPoolingName::Cls => TextPooling::Cls,
        };
        // With both encoders, `--output` names the output of the image encoder.
        let named = args.output.as_deref().filter(|_| args.image_model.is_none());
        let reading = (tokenizer.as_path(), pooling, !args.no_l2);
        let encoder = TextEncoder::open_within(model, reading, named, limit).map_err(explained)?;
        let output = args.to(model);
        stops_with(&args.dataset, &output.name, Side::Text);
        told("captions", &output, |bar| embed_texts(&mut dataset, &encoder, &output, bar))?;
    }
    next::with_dataset(&dataset).say();
    Ok(ExitCode::SUCCESS)
}

/// Adds vectors that were made elsewhere.
fn add_vectors(args: &Args, (side, file): (Side, &PathBuf)) -> Result<ExitCode> {
    ensure!(args.pca.is_none(), "--pca: vectors are taken as they are");
    ensure!(
        args.image_model.is_none() && args.text_model.is_none(),
        "--{side}-vectors: encoders make features in a call of their own"
    );
    let mut dataset = Dataset::open(&args.dataset)?;
    let table = open_columns(file, side, &args.columns.of([Some(file)])?)?;
    let ids = match &args.ids {
        Some(ids) => Some(read_ids(ids)?),
        None => table.ids,
    };
    let name = args.name.clone().unwrap_or_else(|| name_of(file));
    let about = (name.as_str(), side);
    let without = dataset.add_vectors(about, &table.matrix, ids.as_deref(), args.replace)?;
    let what = if side == Side::Image { "images" } else { "captions" };
    tell!("{name}: vectors of {} {what} added", grouped(table.matrix.rows()))?;
    if without > 0 {
        alert!("  {} {what} have none", grouped(without));
    }
    next::with_dataset(&dataset).say();
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the vectors that were given, and their side.
    fn vectors(&self) -> Option<(Side, &PathBuf)> {
        let images = self.image_vectors.as_ref().map(|file| (Side::Image, file));
        images.or(self.text_vectors.as_ref().map(|file| (Side::Text, file)))
    }

    fn to(&self, model: &Path) -> Output {
        Output {
            name: self.name.clone().unwrap_or_else(|| name_of(model)),
            dtype: match self.dtype {
                DtypeName::F16 => Dtype::F16,
                DtypeName::F32 => Dtype::F32,
            },
            components: self.pca,
            replace: self.replace,
        }
    }
}

/// From now on Ctrl-C says how many rows are kept, and how to go on.
fn stops_with(dataset: &Path, name: &str, side: Side) {
    let (dataset, name) = (dataset.to_path_buf(), name.to_owned());
    interrupt::on_stop(move || {
        let rows = rows_kept(&dataset, &name, side).unwrap_or(0) as usize;
        let what = if side == Side::Image { "images" } else { "captions" };
        let (dataset, again) = (typed::path(&dataset), typed::command_line());
        format!("{} {what} are embedded and kept in {dataset}. Go on with: {again}", grouped(rows))
    });
}

/// Embeds one side behind a progress bar and reports the result.
fn told(
    what: &str,
    output: &Output,
    embed: impl FnOnce(&Bar) -> Result<Report, crate::encode::Error>,
) -> Result<()> {
    let (bar, began) = (Bar::new(), Instant::now());
    let report = embed(&bar);
    bar.finish();
    let report = report.map_err(explained)?;
    let (rows, name, seconds) = (grouped(report.rows), &output.name, began.elapsed().as_secs_f64());
    if report.existed {
        tell!("{name}: {rows} {what} are embedded already, in this very way")?;
        return Ok(());
    }
    let fresh = report.rows.saturating_sub(report.resumed);
    let rate = fresh as f64 / seconds.max(1e-9);
    tell!("{name}: {rows} {what} embedded, {seconds:.1} s, {rate:.1} per second")?;
    if report.resumed > 0 {
        tell!("  {} of them by an earlier run that was stopped", grouped(report.resumed))?;
    }
    if let (Some(share), Some(components)) = (report.explained, output.components) {
        tell!("  {components} components explain {:.2} % of the variance", 100.0 * share)?;
    }
    if report.bad > 0 {
        alert!("  {} could not be encoded; see features/{name}.*.bad.jsonl", grouped(report.bad));
    }
    Ok(())
}

/// Adds the flag that raises a limit to the error about it.
fn explained(error: crate::encode::Error) -> anyhow::Error {
    match error {
        crate::encode::Error::Slow { .. } => anyhow!("{error}; --time-limit allows more"),
        other => other.into(),
    }
}

/// Returns the default name of the features: vision_model for `clip/vision_model.onnx`, minilm for
/// `minilm/model_quantized.onnx`.
fn name_of(model: &Path) -> String {
    let text = |part: Option<&std::ffi::OsStr>| part.and_then(|p| p.to_str()).map(str::to_owned);
    let stem = text(model.file_stem()).unwrap_or_default();
    let folder = model.canonicalize().ok().and_then(|whole| text(whole.parent()?.file_name()));
    let name = match folder {
        Some(folder) if stem.starts_with("model") => folder,
        _ => stem,
    };
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

fn preprocess(model: &Path, asked: Option<&str>) -> Result<Preprocess> {
    let beside = model.with_extension("toml");
    match asked {
        Some(name) if Preprocess::PRESETS.contains(&name) => {
            Preprocess::preset(name).context("presets are complete")
        }
        Some(file) => Ok(Preprocess::read(Path::new(file))?),
        None if beside.exists() => Ok(Preprocess::read(&beside)?),
        None => bail!(
            "how are images prepared for {}? Write {} beside it, such as\n\n{EXAMPLE}\n\n\
             or give --preprocess FILE, or one of {}",
            model.display(),
            beside.display(),
            Preprocess::PRESETS.join(", ")
        ),
    }
}
