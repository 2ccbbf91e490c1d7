//! `nextpair man FOLDER`: a manual page for every command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::AtomicFile;
use anyhow::{Context, Result};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the pages go, such as ~/.local/share/man/man1
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = crate::program::command().disable_help_subcommand(true);
    // Hands the global flags down, and names commands by all of their words.
    command.build();
    let pages = write(&command, folder)?;
    say!("{pages} pages in {}: `man -l {}`", folder.display(), folder.join("nextpair.1").display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of those below it. Returns how many.
fn write(command: &clap::Command, folder: &Path) -> Result<usize> {
    let source = format!("nextpair {}", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(source);
    let mut text = Vec::new();
    page.render(&mut text)?;
    AtomicFile::write_whole(&folder.join(page.get_filename()), &text)?;
    let mut pages = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages += write(inner, folder)?;
    }
    Ok(pages)
}
