//! `nextpair score`: what one shard of the pool contributes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use nextpair_data::AtomicFile;

use crate::inputs::SelectionArgs;
use crate::parts::Part;
use crate::progress::Bar;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Which shard of how many: 0/n to n-1/n, or 1/n to n/n (n/n is the same shard as 0/n)
    #[arg(long, value_name = "I/N")]
    shard: Shard,
    /// Where the part goes
    #[arg(long, value_name = "PART")]
    out: PathBuf,
}

/// One of several consecutive shards of almost equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: u64,
    count: u64,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a shard like 0/4");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| wrong());
        let (index, count) = (number(index)?, number(count)?);
        if count == 0 || count > u32::MAX as u64 || index > count {
            return Err(format!(
                "'{text}' is not a shard: the index must be within 0 and the count"
            ));
        }
        Ok(Shard { index: index % count, count })
    }
}

impl Shard {
    fn items(self, pool: usize) -> std::ops::Range<u32> {
        let edge = |i: u64| (i as u128 * pool as u128 / self.count as u128) as u32;
        edge(self.index)..edge(self.index + 1)
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.selection.strategy.check_shardable()?;
    args.selection.set_threads()?;
    let selection = args.selection.open()?;
    let files = selection.files()?;
    AtomicFile::check(&args.out)?;
    selection.announce();
    let bar = Bar::new();
    let pool = selection.pool();
    let items = args.shard.items(pool);
    let shard = nextpair_engine::Shard { first: items.start, pool };
    let partial = selection.ask(items.clone(), &bar, |question| {
        Ok(selection.strategy.score(question, shard, selection.budget)?)
    });
    bar.finish();
    Part::new(&selection, files, partial?)?.write(AtomicFile::create(&args.out)?)?;
    match items.is_empty() {
        true => say!("scored      no items: there are more shards than the {pool} items"),
        false => say!("scored      items {} to {} of {pool}", items.start, items.end - 1),
    }
    say!("written     {}", args.out.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_the_pool_in_either_numbering() {
        for pool in [0, 1, 5, 97] {
            let shard = |i: u64| format!("{i}/4").parse::<Shard>().unwrap().items(pool);
            assert_eq!(shard(4), shard(0));
            let ends: Vec<u32> = (0..4).map(|i| shard(i).end).collect();
            assert_eq!((shard(0).start, ends[3]), (0, pool as u32));
            assert!((1..4).all(|i| shard(i).start == ends[i as usize - 1]));
        }
        for wrong in ["5/4", "1", "a/b", "0/0", "-1/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
