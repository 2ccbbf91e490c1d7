//! `cargo xtask bench embed`: features of images and captions, compared with ONNX Runtime.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::npy;
use serde_json::{Value, json};

use super::report::{Spread, spread};
use super::{machine, ours, rivals};
use crate::{cargo, succeed};

const USAGE: &str = "cargo xtask bench embed --images DIR --image-model ONNX [FLAGS]
  --images DIR         a folder of images
  --image-model ONNX   an encoder prepared for as the preset efficientnet-lite, with the output 'pooled'
  --text-model ONNX    a text encoder with tokenizer.json beside it
  --captions FILE      captions for it, one a line
  --repeats N          timed rounds, 5 unless told otherwise
  --threads N          threads of everyone, 2 unless told otherwise
  --candidates no      do not build and run the runtimes that were considered (tract builds for minutes)
  --venv DIR           a Python environment that has bench/embed-requirements.txt
  --out DIR            folder of the record, bench/results unless told otherwise";

/// Settings of the rival: one image per thread, or batches on all threads.
const SETTINGS: [&str; 4] = ["workers", "8", "16", "32"];
/// Minimum cosine between our row of an image and the rival's: decoders and resizers differ.
const IMAGE_AGREEMENT: f64 = 0.998;
/// Minimum and mean cosine of captions. In graphs with dynamic quantisation, the last bit of a sum
/// decides how a number is rounded to 8 bits, and changes everything after it.
const TEXT_AGREEMENT: (f64, f64) = (0.985, 0.998);
const FOLDER: &str = "target/bench-data/embed";

struct Options {
    images: PathBuf,
    image_model: PathBuf,
    texts: Option<(PathBuf, PathBuf)>,
    repeats: usize,
    threads: usize,
    candidates: bool,
    venv: Option<PathBuf>,
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

pub(super) fn run(flags: &[String]) -> Result<()> {
    let options = Options::parse(flags)?;
    let requirements = "bench/embed-requirements.txt";
    let python = rivals::environment("target/bench-embed-venv", requirements, &options.venv)?;
    let binary = ours::build()?;
    let work = Work::prepare(&options, &binary)?;
    let mut rival = Rival::start(&python, &options, &work)?;
    rivals::check_versions(&rival.versions, requirements)?;
    let candidates = if options.candidates { Some(build_candidates()?) } else { None };
    let mut sides = vec![measure_images(&options, &work, &mut rival, candidates.as_deref())?];
    if options.texts.is_some() {
        sides.push(measure_texts(&options, &work, &mut rival)?);
    }
    record(&options, &sides, &rival.versions)
}

impl Options {
    fn parse(flags: &[String]) -> Result<Self> {
        let value = |name: &str| {
            let at = flags.iter().position(|flag| flag == name);
            at.and_then(|at| flags.get(at + 1)).cloned()
        };
        let known = ["--images", "--image-model", "--text-model", "--captions", "--repeats"];
        let known = [&known[..], &["--threads", "--candidates", "--venv", "--out"]].concat();
        if let Some(flag) = flags.iter().step_by(2).find(|flag| !known.contains(&flag.as_str())) {
            bail!("unknown flag {flag}\n{USAGE}");
        }
        let path = |name| value(name).map(PathBuf::from);
        let number = |name: &str, usual| match value(name) {
            Some(text) => text.parse().with_context(|| format!("{name} {text}: not a number")),
            None => Ok(usual),
        };
        Ok(Options {
            images: path("--images").context(USAGE)?,
            image_model: path("--image-model").context(USAGE)?,
            texts: path("--text-model").zip(path("--captions")),
            repeats: number("--repeats", 5)?.max(1),
            threads: number("--threads", 2)?.max(1),
            candidates: value("--candidates").is_none_or(|answer| answer != "no"),
            venv: path("--venv"),
            out: path("--out").unwrap_or_else(|| "bench/results".into()),
        })
    }
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
        let captions = match &options.texts {
            Some((_, file)) => std::fs::read_to_string(file)?.lines().map(str::to_owned).collect(),
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
        match (side, &options.texts) {
            ("text", Some((model, _))) => command.arg("--text-model").arg(model),
            _ => command
                .args(["--pooled", "--preprocess", "efficientnet-lite", "--image-model"])
                .arg(&options.image_model),
        };
        let began = Instant::now();
        let output = command.output()?;
        let seconds = began.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "nextpair embed ended with {}: {said}", output.status);
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

fn measure_images(
    options: &Options,
    work: &Work<'_>,
    rival: &mut Rival,
    candidates: Option<&Path>,
) -> Result<Side> {
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
    if let Some(binary) = candidates {
        for runtime in ["rten", "tract"] {
            let mut times = Vec::new();
            for round in 0..options.repeats.min(3) {
                eprintln!("images: {runtime} as it comes, round {}", round + 1);
                times.push(run_candidate(binary, runtime, options)?);
            }
            contestants.push((format!("{runtime} as it comes, our decoding"), times));
        }
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

/// Builds the candidate runtimes. tract takes minutes.
fn build_candidates() -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release", "--manifest-path", "bench/runtimes/Cargo.toml"]);
    succeed(build.args(["--target-dir", "target/bench-runtimes"]))?;
    Ok("target/bench-runtimes/release/nextpair-runtimes".into())
}

fn run_candidate(binary: &Path, runtime: &str, options: &Options) -> Result<f64> {
    let mut command = Command::new(binary);
    command.arg(runtime).arg(&options.image_model).arg("efficientnet-lite");
    command.arg(format!("{FOLDER}/images.txt"));
    command.env("RAYON_NUM_THREADS", options.threads.to_string());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{runtime} ended with {}", output.status);
    let seconds = said.split_whitespace().next().context("no seconds")?;
    Ok(seconds.parse()?)
}

/// The process of the rival.
struct Rival {
    process: std::process::Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
    versions: Value,
}

impl Rival {
    fn start(python: &Path, options: &Options, work: &Work<'_>) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg("bench/embed.py").arg(options.threads.to_string());
        command.arg(&options.image_model).arg("efficientnet-lite");
        command.arg(format!("{FOLDER}/images.txt"));
        if let (Some((model, _)), true) = (&options.texts, work.captions > 0) {
            command.arg(model).arg(model.with_file_name("tokenizer.json"));
            command.arg(format!("{FOLDER}/captions.txt"));
        }
        command.env("OMP_NUM_THREADS", options.threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| python.display().to_string())?;
        let output = process.stdout.take().context("the rival has no output")?;
        let answers = BufReader::new(output).lines();
        let mut rival = Rival { process, answers, versions: Value::Null };
        rival.versions = rival.answer()?["versions"].take();
        Ok(rival)
    }

    /// Returns the path of its rows.
    fn rows() -> PathBuf {
        Path::new(FOLDER).join("rival.npy")
    }

    fn run(&mut self, what: &str, setting: &str) -> Result<f64> {
        let request = json!({"run": what, "setting": setting, "out": Rival::rows()});
        let input = self.process.stdin.as_mut().context("the rival has no input")?;
        writeln!(input, "{request}")?;
        input.flush()?;
        self.answer()?["seconds"].as_f64().context("an answer without seconds")
    }

    fn answer(&mut self) -> Result<Value> {
        let line = self.answers.next().context("bench/embed.py ended early; see above")??;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
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
    std::fs::create_dir_all(&options.out)?;
    let name = options.out.join(format!("{}-embed", machine::today()?));
    let sides: Vec<Value> = sides
        .iter()
        .map(|side| {
            json!({"what": side.what, "count": side.count, "least_cosine": side.cosines.least,
                           "mean_cosine": side.cosines.mean,
                           "seconds": side.contestants})
        })
        .collect();
    let record = json!({"machine": machine::describe()?, "threads": options.threads,
                        "versions": versions, "sides": sides});
    std::fs::write(name.with_extension("json"), serde_json::to_string_pretty(&record)?)?;
    std::fs::write(name.with_extension("md"), format!("# cargo xtask bench embed\n\n{text}"))?;
    eprintln!("recorded: {}.md", name.display());
    Ok(())
}
