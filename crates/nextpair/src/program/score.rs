//! `nextpair score`: scores one shard of the pool.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::AtomicFile;
use crate::{Files, Part, Selection, Shard};
use anyhow::{Result, bail, ensure};

use crate::program::flag_file::FlagFileArgs;
use crate::program::inputs::SelectionArgs;
use crate::program::interrupt;
use crate::program::next::{Next, fresh};
use crate::program::progress::Bar;
use crate::program::selection::{Opened, announce};
use crate::program::warnings::{GuardArgs, Warning};

#[derive(clap::Args)]
#[command(mut_arg("strategy", |arg| arg.help("How items are chosen: a strategy that can be split")))]
pub(crate) struct Args {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Which shard of how many: 0/n to n-1/n, or 1/n to n/n (n/n is the same shard as 0/n)
    #[arg(long, value_name = "I/N")]
    shard: Shard,
    /// Take the thresholds from a part of the same selection instead of computing them again
    #[arg(long, value_name = "PART")]
    thresholds: Option<PathBuf>,
    /// Where the part goes
    #[arg(long, value_name = "PART")]
    out: PathBuf,
    #[command(flatten)]
    guards: GuardArgs,
    #[command(flatten)]
    _flags: FlagFileArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    interrupt::on_stop(interrupt::nothing_kept);
    args.selection.check_shardable()?;
    let (Opened::Files(selection), None) = (args.selection.open()?, args.selection.dataset())
    else {
        bail!(
            "shards are scored from files of embeddings; `nextpair select DATASET` takes the \
             whole pool at once"
        );
    };
    AtomicFile::check(&args.out)?;
    let thresholds =
        args.thresholds.as_deref().map(|path| thresholds(path, &selection)).transpose()?;
    announce(&selection, Some(args.shard));
    let bar = Bar::new();
    let look = args.guards.look();
    let part = Part::score(&selection, args.shard, thresholds.as_ref(), look, &bar);
    bar.finish();
    let (part, findings) = part?;
    let files = &selection.from;
    args.guards.say(&Warning::of(&findings, |i| files.pool_id(i), |j| files.pair_id(j)))?;
    part.save(&args.out)?;
    let pool = files.items();
    let items = args.shard.items(pool);
    if items.is_empty() {
        say!("scored      no items: there are more shards than the {pool} items");
    } else {
        say!("scored      items {} to {} of {pool}", items.start, items.end - 1);
    }
    say!("written     {}", args.out.display());
    merge(&args.out, args.shard).say();
    Ok(ExitCode::SUCCESS)
}

/// The part whose thresholds are taken.
fn thresholds(path: &Path, selection: &Selection<Files>) -> Result<Part> {
    let part = Part::load(path)?;
    let path = path.display();
    ensure!(
        part.is_of(selection),
        "--thresholds: {path} was made with different settings or files"
    );
    Ok(part)
}

/// Joins the parts: all of them if they lie beside this one.
fn merge(part: &Path, shard: Shard) -> Next {
    let mut parts = siblings(part);
    let next = Next::new("merge");
    let next = match parts.len() as u64 == shard.count() {
        true => {
            parts.sort();
            parts.iter().fold(next, |next, part| next.path(part))
        }
        false => next.words("PARTS"),
    };
    next.words("--out").path(&fresh(Path::new("picks.jsonl")))
}

/// Returns the files whose names differ from that of a part in its last number only.
fn siblings(part: &Path) -> Vec<PathBuf> {
    let text = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let around = |name: &str| {
        let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = name[..end].trim_end_matches(|c: char| c.is_ascii_digit()).len();
        Some((name[..start].to_owned(), name[end..].to_owned()))
    };
    let own = text(part).and_then(|name| around(&name));
    let folder = part.parent().unwrap_or(Path::new(""));
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(listed) else { return vec![part.to_path_buf()] };
    let names = entries.filter_map(|entry| text(&entry.ok()?.path()));
    let same = |name: &String| own.is_some() && around(name) == own;
    let found: Vec<PathBuf> = names.filter(same).map(|name| folder.join(name)).collect();
    if found.is_empty() { vec![part.to_path_buf()] } else { found }
}
