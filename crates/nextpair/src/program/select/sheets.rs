//! `select --tasks FILE`: what people are asked, for those who do not use the app.

use std::path::{Path, PathBuf};

use crate::data::dataset::Dataset;
use crate::data::queue::{Task, label_studio_config, write_csv, write_label_studio};
use crate::data::{AtomicFile, Side};
use anyhow::{Context, Result};

/// The flag of tasks.
#[derive(clap::Args)]
pub(crate) struct SheetArgs {
    /// Write what people are asked too, with the paths of images: as .csv a sheet to fill in, as .json
    /// tasks for Label Studio, with its interface beside them (.xml). `nextpair add` takes the filled-in
    /// sheet, or Label Studio's export. May be given again
    #[arg(long, value_name = "FILE")]
    tasks: Vec<PathBuf>,
}

/// Files of tasks that can be written once the picks are known.
pub(crate) struct Sheets<'a> {
    files: Vec<(&'a Path, Form)>,
    dataset: Dataset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Sheet,
    LabelStudio,
}

impl SheetArgs {
    /// Checks the files before the work begins.
    pub(crate) fn open(&self, dataset: Option<&Path>) -> Result<Option<Sheets<'_>>> {
        if self.tasks.is_empty() {
            return Ok(None);
        }
        let form = |path: &Path| match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Some(Form::Sheet),
            Some("json") => Some(Form::LabelStudio),
            _ => None,
        };
        let mut files = Vec::new();
        for path in &self.tasks {
            let form = form(path).with_context(|| {
                format!(
                    "--tasks {}: a sheet ends in .csv, tasks for Label Studio in .json",
                    path.display()
                )
            })?;
            AtomicFile::check(path)?;
            files.push((path.as_path(), form));
        }
        let dataset = dataset.context("--tasks: people are asked about the items of a DATASET")?;
        Ok(Some(Sheets { files, dataset: Dataset::open(dataset)? }))
    }
}

impl Sheets<'_> {
    /// Writes the tasks of picks. Returns the file with the answers to be.
    pub(crate) fn write(&self, picks: &[Task], side: Side) -> Result<PathBuf> {
        for &(path, form) in &self.files {
            match form {
                Form::Sheet => write_csv(path, picks, &self.dataset, side)?,
                Form::LabelStudio => {
                    write_label_studio(path, picks, &self.dataset, side)?;
                    let interface = path.with_extension("xml");
                    AtomicFile::write_whole(&interface, label_studio_config(side).as_bytes())?;
                }
            }
            say!("tasks       {}", path.display());
        }
        let sheet = self.files.iter().find(|(_, form)| *form == Form::Sheet);
        Ok(sheet.map_or_else(|| PathBuf::from("EXPORT.json"), |(path, _)| path.to_path_buf()))
    }
}
