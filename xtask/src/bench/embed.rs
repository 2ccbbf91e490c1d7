//! `cargo xtask bench embed`: features of images and captions, compared with ONNX Runtime.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nextpair_data::npy;
use serde_json::{Value, json};

use super::options::positive;
use super::report::{Record, Spread, spread};
use super::script::Script;
use super::{ours, rivals};

/// Settings of the rival: one image per thread, or batches on all threads.
const SETTINGS: [&str; 4] = ["workers", "8", "16", "32"];
/// Minimum cosine between our row of an image and the rival's: decoders and resizers differ.
const IMAGE_AGREEMENT: f64 = 0.998;
/// Minimum and mean cosine of captions. In graphs with dynamic quantisation, the last bit of a sum
/// decides how a number is rounded to 8 bits, and changes everything after it.
const TEXT_AGREEMENT: (f64, f64) = (0.985, 0.998);
const FOLDER: &str = "target/bench-data/embed";

const REQUIREMENTS: &str = "bench/embed-requirements.txt";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// A folder of images
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// An encoder prepared for as the preset efficientnet-lite, with the output 'pooled'
    #[arg(long, value_name = "ONNX")]
    image_model: PathBuf,
    /// A text encoder with tokenizer.json beside it
    #[arg(long, value_name = "ONNX", requires = "captions")]
    text_model: Option<PathBuf>,
    /// Captions for it, one a line
    #[arg(long, value_name = "FILE", requires = "text_model")]
    captions: Option<PathBuf>,
    /// Timed rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = positive)]
    repeats: usize,
    /// Threads of everyone
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    threads: usize,
    /// A Python environment that has bench/embed-requirements.txt
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Folder of the record
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    out: PathBuf,
}

/// One side: times of each contestant by round.
struct Side {
    what: &'static str,
    count: usize,
    contestants: Vec<(String, Vec<f64>)>,
    cosines: Cosines,
}

/// Cosines between our rows and the rival's.
#[derive(Clone, Copy)]
struct Cosines {
    least: f64,
    mean: f64,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let python = rivals::environment_in("target/bench-embed-venv", REQUIREMENTS, &options.venv)?;
    let binary = ours::build()?;
    let work = Work::prepare(options, &binary)?;
    let mut rival = Rival::start(&python, options, &work)?;
    let mut sides = vec![measure_images(options, &work, &mut rival)?];
    if options.text_model.is_some() {
        sides.push(measure_texts(options, &work, &mut rival)?);
    }
    record(options, &sides, &rival.script.versions)
}

/// The input lists, and the dataset that we embed anew in every round.
struct Work<'a> {
    binary: &'a Path,
    images: Vec<String>,
    captions: usize,
}

impl<'a> Work<'a> {
    fn prepare(options: &Options, binary: &'a Path) -> Result<Self> {
        std::fs::create_dir_all(FOLDER)?;
        let mut images = Vec::new();
        for entry in std::fs::read_dir(&options.images).context("--images")? {
            images.push(entry?.path().canonicalize()?.display().to_string());
        }
        images.sort();
        ensure!(!images.is_empty(), "{}: no images", options.images.display());
        std::fs::write(format!("{FOLDER}/images.txt"), images.join("\n"))?;
        // Attach the captions to the first image, so that one dataset serves both sides.
        let captions = match &options.captions {
            Some(file) => std::fs::read_to_string(file)?.lines().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let captions: Vec<String> = captions;
        std::fs::write(format!("{FOLDER}/captions.txt"), captions.join("\n"))?;
        let mut items = String::new();
        for (number, image) in images.iter().enumerate() {
            let captions = if number == 0 { &captions[..] } else { &[] };
            let item =
                json!({"id": number.to_string(), "image": &image[1..], "captions": captions});
            writeln!(items, "{item}")?;
        }
        std::fs::write(format!("{FOLDER}/items.jsonl"), items)?;
        Ok(Work { binary, images, captions: captions.len() })
    }

    /// Embeds one side in a fresh dataset. Returns the time of the whole process, and the rows.
    fn ours(&self, options: &Options, side: &str) -> Result<(f64, Vec<Vec<f64>>)> {
        let dataset = Path::new(FOLDER).join("dataset");
        if dataset.exists() {
            std::fs::remove_dir_all(&dataset)?;
        }
        std::fs::create_dir_all(&dataset)?;
        std::fs::copy(format!("{FOLDER}/items.jsonl"), dataset.join("items.jsonl"))?;
        let manifest = format!(
            "nextpair_dataset = 1\nname = \"bench\"\nsource = \"bench\"\nitems = {}\n\
             captions = {}\nimages = \"/\"\n",
            self.images.len(),
            self.captions
        );
        std::fs::write(dataset.join("dataset.toml"), manifest)?;
        let mut command = Command::new(self.binary);
        command.arg("embed").arg(&dataset).args(["--name", "x", "--dtype", "f32", "--threads"]);
        command.arg(options.threads.to_string());
        match (side, &options.text_model) {
            ("text", Some(model)) => command.arg("--text-model").arg(model),
            _ => command
                .args(["--pooled", "--preprocess", "efficientnet-lite", "--image-model"])
                .arg(&options.image_model),
        };
        let seconds = ours::finish(&mut command, false)?.seconds;
        Ok((seconds, rows(&dataset.join(format!("features/x.{side}.npy")))?))
    }
}

fn rows(path: &Path) -> Result<Vec<Vec<f64>>> {
    let matrix = npy::open(path)?;
    let row = |at| {
        let mut row = vec![0.0; matrix.dim()];
        matrix.read_f64(at, &mut row);
        row
    };
    Ok((0..matrix.rows()).map(row).collect())
}

fn cosines(ours: &[Vec<f64>], theirs: &[Vec<f64>]) -> Result<Cosines> {
    ensure!(ours.len() == theirs.len(), "{} rows, the rival has {}", ours.len(), theirs.len());
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let all: Vec<f64> =
        ours.iter().zip(theirs).map(|(a, b)| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).collect();
    let least = all.iter().copied().fold(1.0, f64::min);
    Ok(Cosines { least, mean: all.iter().sum::<f64>() / all.len() as f64 })
}

fn measure_images(options: &Options, work: &Work<'_>, rival: &mut Rival) -> Result<Side> {
    eprintln!("images: the rival's best setting");
    let mut best = (f64::INFINITY, SETTINGS[0]);
    for setting in SETTINGS {
        let seconds = rival.run("images", setting)?;
        eprintln!("  {setting}: {seconds:.2} s");
        if seconds < best.0 {
            best = (seconds, setting);
        }
    }
    let setting = best.1;
    rival.run("images", setting)?;
    let theirs = rows(&Rival::rows())?;
    let cosines = cosines(&work.ours(options, "image")?.1, &theirs)?;
    ensure!(cosines.least >= IMAGE_AGREEMENT, "other answers: least cosine {}", cosines.least);
    let mut contestants = vec![
        ("nextpair embed".to_owned(), Vec::new()),
        (format!("ONNX Runtime, Pillow ({setting})"), Vec::new()),
    ];
    for round in 0..options.repeats {
        eprintln!("images: round {} of {}", round + 1, options.repeats);
        contestants[0].1.push(work.ours(options, "image")?.0);
        contestants[1].1.push(rival.run("images", setting)?);
    }
    Ok(Side { what: "images", count: work.images.len(), contestants, cosines })
}

fn measure_texts(options: &Options, work: &Work<'_>, rival: &mut Rival) -> Result<Side> {
    rival.run("texts", "workers")?;
    let theirs = rows(&Rival::rows())?;
    let cosines = cosines(&work.ours(options, "text")?.1, &theirs)?;
    let (least, mean) = TEXT_AGREEMENT;
    ensure!(
        cosines.least >= least && cosines.mean >= mean,
        "other answers: least cosine {}, mean {}",
        cosines.least,
        cosines.mean
    );
    let mut contestants = vec![
        ("nextpair embed".to_owned(), Vec::new()),
        ("ONNX Runtime, tokenizers".to_owned(), Vec::new()),
    ];
    for round in 0..options.repeats {
        eprintln!("captions: round {} of {}", round + 1, options.repeats);
        contestants[0].1.push(work.ours(options, "text")?.0);
        contestants[1].1.push(rival.run("texts", "workers")?);
    }
    Ok(Side { what: "captions", count: work.captions, contestants, cosines })
}

/// The process of the rival.
struct Rival {
    script: Script,
}

impl Rival {
    fn start(python: &Path, options: &Options, work: &Work<'_>) -> Result<Self> {
        let images = PathBuf::from(format!("{FOLDER}/images.txt"));
        let mut arguments: Vec<PathBuf> = vec![options.threads.to_string().into()];
        arguments.extend([options.image_model.clone(), "efficientnet-lite".into(), images]);
        if let (Some(model), true) = (&options.text_model, work.captions > 0) {
            let captions = format!("{FOLDER}/captions.txt").into();
            arguments.extend([model.clone(), model.with_file_name("tokenizer.json"), captions]);
        }
        let script = Script::start(python, "bench/embed.py", &arguments, options.threads, &[])?;
        rivals::check_versions(&script.versions, REQUIREMENTS)?;
        Ok(Rival { script })
    }

    /// Returns the path of its rows.
    fn rows() -> PathBuf {
        Path::new(FOLDER).join("rival.npy")
    }

    fn run(&mut self, what: &str, setting: &str) -> Result<f64> {
        let request = json!({"run": what, "setting": setting, "out": Rival::rows()});
        self.script.ask(&request)?["seconds"].as_f64().context("an answer without seconds")
    }
}

/// Prints the tables, and writes them with all times.
fn record(options: &Options, sides: &[Side], versions: &Value) -> Result<()> {
    let mut text = String::new();
    for side in sides {
        let Side { what, count, contestants, cosines } = side;
        writeln!(
            text,
            "### {count} {what}, {} threads\n\nCosine to the rival's rows: least {:.5}, mean \
             {:.5}\n\n| | seconds, median | min..max | ours is times | per second |\n\
             |---|---:|---:|---:|---:|",
            options.threads, cosines.least, cosines.mean
        )?;
        let ours = spread(&contestants[0].1).median;
        for (name, times) in contestants {
            let Spread { median, low, high } = spread(times);
            let rate = *count as f64 / median;
            writeln!(
                text,
                "| {name} | {median:.2} | {low:.2}..{high:.2} | {:.2} | {rate:.1} |",
                ours / median
            )?;
        }
        writeln!(text)?;
    }
    println!("{text}");
    let side = |side: &Side| {
        json!({"what": side.what, "count": side.count, "least_cosine": side.cosines.least,
               "mean_cosine": side.cosines.mean, "seconds": side.contestants})
    };
    let sides: Vec<Value> = sides.iter().map(side).collect();
    let facts = json!({"threads": options.threads, "versions": versions, "sides": sides});
    let record = Record { name: "embed", facts, notes: Vec::new(), text };
    record.write(Some(&options.out))
}
