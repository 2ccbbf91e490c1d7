//! Turns complete rows into a feature set: principal components, final files, manifest entry.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use nextpair_data::dataset::{Dataset, FeatureSet};
use nextpair_data::{AtomicFile, Dtype, Matrix, Progress, npy, ordinary};
use rayon::prelude::*;

use super::rows::Rows;
use super::{BAD, FILES, NUMBERS, Output, PLACES, Places, encoded, feature_set};
use crate::hash::sha256;
use crate::{Error, Pca};

/// Rows projected onto components together.
const TOGETHER: usize = 128;

/// Everything that the features depend on, for the manifest.
pub(super) fn made_by(
    dataset: &Dataset,
    rows: &dyn Rows,
    output: &Output,
    places: &Places,
) -> Result<toml::Table, Error> {
    let mut made_by = rows.describe()?;
    made_by.insert("nextpair".into(), env!("CARGO_PKG_VERSION").into());
    made_by.insert("items".into(), sha256(&dataset.folder().join("items.jsonl"))?.into());
    made_by.insert("dtype".into(), format!("{:?}", output.dtype).to_lowercase().into());
    if let Some(components) = output.components {
        let (_, file) = places.file("pca.safetensors");
        made_by.insert("components".into(), (components as i64).into());
        made_by.insert("pca".into(), file.display().to_string().into());
    }
    Ok(made_by)
}

/// Names the job that makes the rows. Components are computed later, so they are not part of it.
pub(super) fn job(made_by: &toml::Table, dtype: Dtype) -> String {
    let mut job = made_by.clone();
    job.remove("components");
    job.remove("pca");
    job.insert("dtype".into(), format!("{dtype:?}").into());
    job.to_string()
}

/// Moves the files to their final places. The partial folder keeps its own links until the manifest
/// names the files, so that nothing is computed again if this is stopped.
pub(super) fn finish(
    rows: &dyn Rows,
    output: &Output,
    places: &Places,
    made_by: toml::Table,
    progress: &dyn Progress,
) -> Result<(FeatureSet, Option<f64>), Error> {
    let made = places.partial.join(FILES[NUMBERS]);
    let numbers = read_places(&places.partial.join(FILES[PLACES]))?;
    let (file, named) = places.file("npy");
    let explained = match output.components {
        None => {
            place(&made, &file)?;
            remove(&places.file("pca.safetensors").0)?;
            None
        }
        Some(components) => {
            let matrix = npy::open(&made)?;
            let pca = Pca::fit(&training_rows(&matrix, rows, &numbers), components, progress)?;
            pca.write(&places.file("pca.safetensors").0)?;
            project(&matrix, &pca, output, &file, progress)?;
            Some(pca.explained_share())
        }
    };
    place(&places.partial.join(FILES[BAD]), &places.file("bad.jsonl").0)?;
    let in_order = numbers.iter().enumerate().all(|(at, &row)| row == at as i64);
    let (rows_file, rows_named) = places.file("rows.npy");
    if in_order {
        remove(&rows_file)?;
    } else {
        let mut file = AtomicFile::create(&rows_file)?;
        npy::write_i64(&mut file, &numbers).map_err(|e| Error::io(&rows_file, e))?;
        file.commit()?;
    }
    let side = rows.side();
    let set = feature_set(output, side, named, (!in_order).then_some(rows_named), made_by);
    Ok((set, explained))
}

/// The vectors to fit components on: those of the training split, or all of them.
fn training_rows(matrix: &Matrix, rows: &dyn Rows, places: &[i64]) -> Vec<Matrix> {
    let with_row = |at: &usize| places[*at] >= 0;
    let mut chosen: Vec<usize> =
        (0..places.len()).filter(with_row).filter(|&at| rows.in_train(at)).collect();
    if chosen.is_empty() {
        chosen = (0..places.len()).filter(with_row).collect();
    }
    // Consecutive rows stay together, and on disk.
    chosen
        .chunk_by(|&a, &b| places[b] == places[a] + 1)
        .map(|run| {
            let first = places[run[0]] as usize;
            matrix.slice(first..first + run.len()).flattened()
        })
        .collect()
}

/// Writes the rows projected onto the components.
fn project(
    matrix: &Matrix,
    pca: &Pca,
    output: &Output,
    path: &Path,
    progress: &dyn Progress,
) -> Result<(), Error> {
    progress.start("components", matrix.rows() as u64);
    let mut file = AtomicFile::create(path)?;
    let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(|e| Error::io(path, e));
    write(&npy::header_of(matrix.rows(), matrix.locals(), pca.components(), output.dtype))?;
    for start in (0..matrix.rows()).step_by(TOGETHER) {
        let rows = start..(start + TOGETHER).min(matrix.rows());
        let projected = rows.into_par_iter().map(|at| {
            let mut row = vec![0.0; matrix.locals() * matrix.dim()];
            matrix.read_f64(at, &mut row);
            let projected = encoded(&pca.apply(&row), output.dtype);
            progress.advance(1);
            projected.map_err(|what| Error::Numbers { what: format!("row {at}: {what}") })
        });
        for row in projected.collect::<Result<Vec<_>, Error>>()? {
            write(&row)?;
        }
    }
    Ok(file.commit()?)
}

fn read_places(path: &Path) -> Result<Vec<i64>, Error> {
    let bytes = ordinary::read(path)?;
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok(numbers.iter().map(|&number| i64::from_le_bytes(number)).collect())
}

/// Gives a file a second name, replacing any file of that name; copies it if it cannot be linked.
pub(super) fn place(from: &Path, to: &Path) -> Result<(), Error> {
    // In the partial folder, so that a kill leaves nothing beside the features.
    let waiting = from.with_extension("waiting");
    let link = || {
        if waiting.exists() {
            fs::remove_file(&waiting)?;
        }
        fs::hard_link(from, &waiting).or_else(|_| fs::copy(from, &waiting).map(drop))?;
        // Windows syncs what may be written.
        File::options().write(true).open(&waiting)?.sync_all()
    };
    link().map_err(|e| Error::io(to, e))?;
    Ok(nextpair_data::rename(&waiting, to)?)
}

/// Removes a file that replaced features may have left.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, e)),
        _ => Ok(()),
    }
}

pub(super) fn count_lines(path: &Path) -> Result<usize, Error> {
    let bytes = ordinary::read_if_there(path)?.unwrap_or_default();
    Ok(bytes.iter().filter(|&&byte| byte == b'\n').count())
}
