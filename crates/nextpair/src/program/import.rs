//! `nextpair import KIND SRC OUT`: makes a dataset from other formats.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::dataset::{Dataset, DrawnSplits, TRAIN};
use crate::data::import::{
    self, BottomUp, Coco, Embeddings, Flickr, Folder, HuggingFace, Importer, Karpathy, Leniency,
    Scan, SplitSource, Summary, Table, Tally, WebDataset,
};
use crate::data::scenes::Settings;
use crate::data::{Error, Side};
use anyhow::{Context, Result};

use crate::program::inputs::{ColumnArgs, sides};
use crate::program::interrupt;
use crate::program::next;
use crate::program::numbers::{grouped, in_usual_order};
use crate::program::progress::Bar;
use crate::program::streams::print;
use crate::program::typed;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

/// What every kind has.
#[derive(clap::Args)]
struct Places {
    /// What to import
    src: PathBuf,
    /// The dataset to make, a new folder
    out: PathBuf,
    /// Leave out bad entries and missing files instead of stopping; all are listed
    #[arg(long)]
    skip_bad: bool,
    /// Keep items whose image files are missing, as where there are features of them; all are listed,
    /// and people see their names
    #[arg(long)]
    images_optional: bool,
    /// Move this share of the paired training items to the split dev, on which rehearsals test. Drawn
    /// by their ids, so that items keep their split when others are added
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    dev: f64,
    /// Move this share of them to the split test
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    test: f64,
}

/// The folder of images, for kinds that name images without holding them.
#[derive(clap::Args)]
struct Images {
    /// The folder of the images; they are looked at, and stay where they are
    #[arg(long, value_name = "DIR")]
    image_dir: Option<PathBuf>,
}

/// Region features in tables, for kinds that name images.
#[derive(clap::Args)]
struct Regions {
    /// Region features as published with bottom-up attention (36 regions, image_id to features in
    /// base64): a .tsv file or a folder of them; may be given several times
    #[arg(long, value_name = "TSV")]
    bottom_up: Vec<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Kind {
    #[command(flatten)]
    Source(SourceKind),
    /// A generated world of simple scenes with true captions: synthetic, for trying things out
    Scenes {
        /// The dataset to make, a new folder
        out: PathBuf,
        /// Scenes to make
        #[arg(long, value_name = "N", default_value_t = Settings::default().images)]
        images: usize,
        /// Another world
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// Share of scenes that repeat an earlier one with one attribute changed
        #[arg(long, value_name = "SHARE", default_value_t = Settings::default().near_duplicates)]
        near_duplicates: f64,
    },
}

/// The kinds that read something.
#[derive(clap::Subcommand)]
enum SourceKind {
    /// Karpathy's dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json
    Karpathy {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        #[command(flatten)]
        regions: Regions,
        /// Keep COCO's restval images, as a split of that name; the paper trains without them
        #[arg(long)]
        restval: bool,
        /// Captions kept of each image, from the first on
        #[arg(long, value_name = "N", default_value_t = 5)]
        max_captions: usize,
    },
    /// A *_precomp folder of SCAN, VSE++ or IMRAM: features, captions, ids
    Scan {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        /// The splits to take, such as train,dev,testall [default: train, dev, test, if there]
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        splits: Vec<String>,
        /// Karpathy's dataset_coco.json, to leave out the restval images as the paper does
        #[arg(long, value_name = "JSON")]
        karpathy: Option<PathBuf>,
    },
    /// COCO's captions_*.json, or the folder of them
    Coco {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        #[command(flatten)]
        regions: Regions,
        /// Captions kept of each image, from the first on
        #[arg(long, value_name = "N", default_value_t = 5)]
        max_captions: usize,
    },
    /// Flickr8k's and Flickr30K's token file with its split lists
    Flickr {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        #[command(flatten)]
        regions: Regions,
        /// Keep images that are in no list, without a split
        #[arg(long)]
        unlisted: bool,
    },
    /// A CSV or TSV table with a row per caption
    Table {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        /// The column of image paths [default: filepath]
        #[arg(long, value_name = "NAME")]
        image_col: Option<String>,
        /// The column of captions [default: title]
        #[arg(long, value_name = "NAME")]
        caption_col: Option<String>,
        /// The column of ids [default: the image path is the id]
        #[arg(long, value_name = "NAME")]
        id_col: Option<String>,
        /// The column of splits [default: split, if it is there]
        #[arg(long, value_name = "NAME")]
        split_col: Option<String>,
        /// The split of rows that have none
        #[arg(long, value_name = "NAME", default_value = TRAIN)]
        split: String,
        /// Do not look for the images: they are known by name only
        #[arg(long, conflicts_with = "image_dir")]
        no_images: bool,
    },
    /// A folder of images with metadata.jsonl or metadata.csv (Hugging Face ImageFolder)
    Folder {
        #[command(flatten)]
        places: Places,
        /// The key of the captions [default: caption, text or captions]
        #[arg(long, value_name = "NAME")]
        caption_key: Option<String>,
        /// The split of images outside folders such as train, validation, test
        #[arg(long, value_name = "NAME", default_value = TRAIN)]
        split: String,
    },
    /// Tar shards; their images are unpacked into the dataset
    Webdataset {
        #[command(flatten)]
        places: Places,
        /// The split of shards whose names do not begin with train, val, dev or test
        #[arg(long, value_name = "NAME", default_value = TRAIN)]
        split: String,
    },
    /// Parquet files as Hugging Face writes datasets: one, or a folder with data/train-*.parquet.
    /// Images in them are unpacked into the dataset
    Parquet {
        #[command(flatten)]
        places: Places,
        #[command(flatten)]
        images: Images,
        /// The column of images: bytes, paths, or both [default: image, or file_name]
        #[arg(long, value_name = "NAME")]
        image_col: Option<String>,
        /// The column of captions, texts or lists of texts; sentences.raw names a field [default:
        /// caption, text, captions, or all of caption_0, caption_1 and so on]
        #[arg(long, value_name = "NAME")]
        caption_col: Option<String>,
        /// The column of ids [default: the file and the row are the id]
        #[arg(long, value_name = "NAME")]
        id_col: Option<String>,
        /// The column of splits [default: split, if it is there]
        #[arg(long, value_name = "NAME")]
        split_col: Option<String>,
        /// The split of rows for which neither a column nor the name of the file says one
        #[arg(long, value_name = "NAME", default_value = TRAIN)]
        split: String,
    },
    /// Embeddings: a clip-retrieval folder, or .npy, .npz, .parquet, .safetensors
    Embeddings {
        #[command(flatten)]
        places: Places,
        /// Which side SRC is of, if it is a file
        #[arg(long, value_parser = sides(), default_value = "image")]
        side: Side,
        /// Embeddings of the other side, row by row
        #[arg(long, value_name = "FILE")]
        other: Option<PathBuf>,
        /// One id per line [default: the row]
        #[arg(long, value_name = "FILE")]
        ids: Option<PathBuf>,
        /// One caption per line; an empty line is an item without one
        #[arg(long, value_name = "FILE")]
        captions: Option<PathBuf>,
        #[command(flatten)]
        columns: ColumnArgs,
        /// The split of all items
        #[arg(long, value_name = "NAME", default_value = TRAIN)]
        split: String,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let bar = Bar::new();
    let (out, imported) = match args.kind {
        Kind::Scenes { out, images, seed, near_duplicates } => {
            let settings = Settings { seed, images, near_duplicates };
            stops_with_scenes(&out, images);
            let imported = import::import_scenes(&settings, &out, &bar);
            (out, imported)
        }
        Kind::Source(kind) => {
            let (places, importer) = kind.importer()?;
            let importer = places.drawn(importer)?;
            interrupt::ask_to_stop(interrupt::nothing_kept);
            let leniency =
                Leniency { skip_bad: places.skip_bad, images_optional: places.images_optional };
            let (importer, out) = (importer.as_ref(), &places.out);
            let imported = import::import_leniently(importer, out, leniency, &bar);
            (places.out, imported)
        }
    };
    bar.finish();
    let summary = match imported {
        Err(error @ Error::Entries { .. }) => {
            return Err(error).context(
                "nothing was imported; --skip-bad leaves bad entries out and lists all of them",
            );
        }
        imported => imported?,
    };
    let text = describe(&out, &summary)?;
    print(&text)?;
    tell(&out, &summary);
    next::with_dataset(&Dataset::open(&out)?).say();
    Ok(ExitCode::SUCCESS)
}

/// From now on Ctrl-C says how many scenes are kept, and how to go on.
pub(crate) fn stops_with_scenes(out: &Path, images: usize) {
    let out = out.to_path_buf();
    interrupt::on_stop(move || {
        let kept = import::scenes_kept(&out).unwrap_or(0) as usize;
        let (kept, images, again) = (grouped(kept), grouped(images), typed::command_line());
        let out = typed::path(&out);
        format!("{kept} of {images} scenes are kept for {out}. Go on with: {again}")
    });
}

impl Places {
    /// Returns the source with the splits that are drawn from it.
    fn drawn(&self, source: Box<dyn Importer>) -> Result<Box<dyn Importer>> {
        Ok(Box::new(SplitSource { source, splits: DrawnSplits::new(self.dev, self.test)? }))
    }
}

impl Regions {
    /// Returns the source, with its region features if there are tables of them.
    fn of(self, source: impl Importer + 'static) -> Box<dyn Importer> {
        if self.bottom_up.is_empty() {
            Box::new(source)
        } else {
            Box::new(BottomUp { source: Box::new(source), tables: self.bottom_up })
        }
    }
}

impl SourceKind {
    fn importer(self) -> Result<(Places, Box<dyn Importer>)> {
        Ok(match self {
            SourceKind::Karpathy { places, images, regions, restval, max_captions } => {
                let (json, image_dir) = (places.src.clone(), images.image_dir);
                (places, regions.of(Karpathy { json, image_dir, restval, max_captions }))
            }
            SourceKind::Scan { places, images, splits, karpathy } => {
                let (folder, image_dir) = (places.src.clone(), images.image_dir);
                (places, Box::new(Scan { folder, splits, image_dir, karpathy }))
            }
            SourceKind::Coco { places, images, regions, max_captions } => {
                let (source, image_dir) = (places.src.clone(), images.image_dir);
                (places, regions.of(Coco { source, image_dir, max_captions }))
            }
            SourceKind::Flickr { places, images, regions, unlisted } => {
                let (source, image_dir) = (places.src.clone(), images.image_dir);
                (places, regions.of(Flickr { source, image_dir, unlisted }))
            }
            SourceKind::Table {
                places,
                images,
                image_col,
                caption_col,
                id_col,
                split_col,
                split,
                no_images,
            } => {
                let table = Table {
                    file: places.src.clone(),
                    image_column: image_col,
                    caption_column: caption_col,
                    id_column: id_col,
                    split_column: split_col,
                    split,
                    image_dir: images.image_dir,
                    without_images: no_images,
                };
                (places, Box::new(table))
            }
            SourceKind::Folder { places, caption_key, split } => {
                let folder = places.src.clone();
                (places, Box::new(Folder { folder, caption_key, split }))
            }
            SourceKind::Webdataset { places, split } => {
                let source = places.src.clone();
                (places, Box::new(WebDataset { source, split }))
            }
            SourceKind::Parquet {
                places,
                images,
                image_col,
                caption_col,
                id_col,
                split_col,
                split,
            } => {
                let tables = HuggingFace {
                    source: places.src.clone(),
                    image_column: image_col,
                    caption_column: caption_col,
                    id_column: id_col,
                    split_column: split_col,
                    split,
                    image_dir: images.image_dir,
                };
                (places, Box::new(tables))
            }
            SourceKind::Embeddings { places, side, other, ids, captions, columns, split } => {
                let source = places.src.clone();
                let columns = columns.of([Some(&source), other.as_ref()])?;
                let embeddings = Embeddings { source, side, other, ids, captions, split, columns };
                (places, Box::new(embeddings))
            }
        })
    }
}

/// Formats the counts for standard output.
fn describe(out: &Path, summary: &Summary) -> Result<String> {
    use std::fmt::Write;
    let mut text = format!("{}\nsplit            items     images   captions\n", out.display());
    let mut splits: Vec<_> = summary.splits.iter().collect();
    in_usual_order(&mut splits, |(split, _)| split.as_deref());
    let (mut images, mut texts) = (0, 0);
    for (split, counts) in splits {
        let name = split.as_deref().unwrap_or("(none)");
        let [items, with_image, captions] =
            [counts.items, counts.images, counts.captions].map(grouped);
        writeln!(text, "{name:10} {items:>11} {with_image:>10} {captions:>10}")?;
        images += counts.unpaired_images;
        texts += counts.unpaired_texts;
    }
    if images > 0 {
        writeln!(text, "images without captions: {}", grouped(images))?;
    }
    if texts > 0 {
        writeln!(text, "texts without an image: {}", grouped(texts))?;
    }
    Ok(text)
}

/// Reports entries that were left out or look odd, on standard error.
fn tell(out: &Path, summary: &Summary) {
    let tell = |tally: &Tally| {
        let examples = tally.examples.iter().take(3).map(|example| shortened(example));
        let (count, what) = (grouped(tally.count), tally.what);
        alert!("{count} x {what}, such as {}", examples.collect::<Vec<_>>().join("; "));
    };
    if !summary.findings.bad.is_empty() {
        alert!("skipped:");
        summary.findings.bad.iter().for_each(tell);
    }
    if !summary.findings.notes.is_empty() {
        alert!("noted:");
        summary.findings.notes.iter().for_each(tell);
    }
    if !summary.findings.bad.is_empty() || !summary.findings.notes.is_empty() {
        alert!("all of them: {}", out.join("import.jsonl").display());
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
