//! The generated world as a dataset: pictures, captions and region features.
//!
//! This import generates its own source, which takes long for many images. A stopped import
//! therefore continues instead of starting anew.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use half::f16;
use rayon::prelude::*;

use super::{Counts, Findings, Summary};
use crate::dataset::{DEV, Draft, FeatureSet, ITEMS, Item, Manifest, Per, TEST, TRAIN};
use crate::scenes::{DESCRIPTORS, MADE_BY, REGIONS, Settings, Split, World, describe, encode_png};
use crate::{Dtype, Error, Growing, Progress, Side, npy};

/// File of the world's region features.
const FEATURES: &str = "features/regions.image.npy";
/// Name of the progress record.
const RECORD: &str = "scenes";
/// Scenes generated and recorded at a time.
const CHUNK: usize = 1024;
/// Pictures per folder, to avoid folders of a million files.
const PER_FOLDER: usize = 1000;

/// Generates the world of these settings as the new dataset `out`.
pub fn import_scenes(
    settings: &Settings,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Summary, Error> {
    let world = World::new(settings.clone())?;
    let mut draft = Draft::open(out)?;
    draft.keep();
    let (source, job) = (source_of(settings), job_of(settings));
    let mut files = open(&draft, &job)?;
    progress.start("making scenes", settings.images as u64);
    progress.advance(files.done());
    if files.done() == 0 {
        let header = npy::header_of(settings.images, REGIONS, DESCRIPTORS, Dtype::F16);
        files.append(1, &header)?;
    }
    let images = draft.folder().join("images");
    let starts = (files.done() as usize..settings.images).step_by(CHUNK);
    // Another thread writes to disk, one chunk behind.
    let (sender, receiver) = sync_channel::<(usize, Vec<SceneRecord>)>(1);
    let files = thread::scope(|scope| {
        let recorder = thread::Builder::new().spawn_scoped(scope, move || record(files, receiver));
        let recorder = recorder.map_err(|e| {
            Error::format(out, format!("no thread could be started to write it: {e}"))
        })?;
        for start in starts {
            let chunk = start..(start + CHUNK).min(settings.images);
            let made = make_chunk(&world, chunk.clone(), &images, progress)?;
            if sender.send((chunk.end, made)).is_err() {
                // The recorder has failed; joining it returns the error.
                break;
            }
        }
        drop(sender);
        recorder.join().expect("the recorder returns its errors")
    })?;
    files.finish()?;
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or("scenes");
    draft.finish(&manifest(name, &source, settings))?;
    Ok(summary(&world))
}

/// Returns how many scenes of the dataset `out` were made before its import was stopped, and are kept.
pub fn scenes_kept(out: &Path) -> Result<u64, Error> {
    Ok(Growing::recorded_in(&Draft::place(out), RECORD)?.map_or(0, |(_, done)| done))
}

/// Describes the world.
fn source_of(settings: &Settings) -> String {
    format!(
        "scenes, generated: seed {}, {} images, {} of them near-duplicates",
        settings.seed, settings.images, settings.near_duplicates
    )
}

/// Names everything that the bytes depend on.
fn job_of(settings: &Settings) -> String {
    format!("{}; nextpair {}", source_of(settings), env!("CARGO_PKG_VERSION"))
}

/// Opens the files of the draft, with the progress that exactly this job made.
fn open(draft: &Draft<'_>, job: &str) -> Result<Growing, Error> {
    if !Growing::is_of(draft.folder(), RECORD, job)? {
        draft.clear()?;
    }
    let features = draft.folder().join("features");
    fs::create_dir_all(&features).map_err(|e| Error::io(&features, e))?;
    Growing::open(draft.folder(), RECORD, job, &[ITEMS, FEATURES])
}

/// The line and the features of a scene.
struct SceneRecord {
    line: Vec<u8>,
    features: Vec<u8>,
}

/// Appends chunks as they arrive and records each. The pictures of a chunk are written before it.
fn record(
    mut files: Growing,
    chunks: Receiver<(usize, Vec<SceneRecord>)>,
) -> Result<Growing, Error> {
    for (end, made) in chunks {
        for SceneRecord { line, features } in made {
            files.append(0, &line)?;
            files.append(1, &features)?;
        }
        files.commit(end as u64)?;
    }
    Ok(files)
}

fn make_chunk(
    world: &World,
    chunk: Range<usize>,
    images: &Path,
    progress: &dyn Progress,
) -> Result<Vec<SceneRecord>, Error> {
    for index in chunk.clone().filter(|index| index % PER_FOLDER == 0 || *index == chunk.start) {
        let folder = images.join(folder_of(index));
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
    }
    let made = chunk.into_par_iter().map(|index| {
        let made = make(world, index, images);
        progress.advance(1);
        made
    });
    made.collect()
}

/// Generates one scene: writes its picture, and returns its line and its features.
fn make(world: &World, index: usize, images: &Path) -> Result<SceneRecord, Error> {
    let scene = world.scene(index);
    let picture = scene.render();
    let id = format!("scene-{index:06}");
    let image = format!("{}/{id}.png", folder_of(index));
    let path = images.join(&image);
    fs::write(&path, encode_png(&picture)?).map_err(|e| Error::io(&path, e))?;
    let split = Some(split_name(world.split(index)).to_owned());
    let item = Item { id, split, image: Some(image), captions: scene.captions().into() };
    let mut line = serde_json::to_vec(&item).map_err(|e| Error::io(&path, e.into()))?;
    line.push(b'\n');
    let features = describe(&picture);
    let features = features.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes());
    Ok(SceneRecord { line, features: features.collect() })
}

fn folder_of(index: usize) -> String {
    format!("{:03}", index / PER_FOLDER)
}

fn split_name(split: Split) -> &'static str {
    match split {
        Split::Train => TRAIN,
        Split::Dev => DEV,
        Split::Test => TEST,
    }
}

fn manifest(name: &str, source: &str, settings: &Settings) -> Manifest {
    Manifest {
        synthetic: true,
        items: settings.images,
        captions: 5 * settings.images,
        images: Some("images".into()),
        features: vec![FeatureSet {
            name: "regions".to_owned(),
            side: Side::Image,
            per: Per::Item,
            files: vec![FEATURES.into()],
            rows: None,
            made_by: Some(made_by()),
            digests: Default::default(),
        }],
        ..Manifest::new(name, source)
    }
}

/// The recipe for describing more pictures in the same way.
fn made_by() -> toml::Table {
    let (key, value) = MADE_BY;
    let notes = [(key, value), ("dtype", "f16"), ("nextpair", env!("CARGO_PKG_VERSION"))];
    notes.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

fn summary(world: &World) -> Summary {
    let mut splits: BTreeMap<Option<String>, Counts> = BTreeMap::new();
    for index in 0..world.settings().images {
        let counts = splits.entry(Some(split_name(world.split(index)).to_owned())).or_default();
        counts.items += 1;
        counts.images += 1;
        counts.captions += 5;
    }
    Summary { splits, findings: Findings::default() }
}
