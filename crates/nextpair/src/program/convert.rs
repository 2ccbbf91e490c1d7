//! `nextpair convert CHECKPOINT --vocabulary FILE --out MODEL`: a published checkpoint as a model.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::data::text::Vocabulary;
use crate::models::{Device, ModelFolder, pth};
use anyhow::Result;

use crate::program::next::Next;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model_best.pth.tar of the published code of VSE++, SCAN, IMRAM or a model that the paper cites
    checkpoint: PathBuf,
    /// The vocabulary it was trained with, such as f30k_precomp_vocab.json
    #[arg(long, value_name = "FILE")]
    vocabulary: PathBuf,
    /// The folder of the model to write
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let vocabulary = Vocabulary::read(&args.vocabulary)?;
    let checkpoint = pth::read(&args.checkpoint)?;
    let (config, model) = checkpoint.model(&args.checkpoint, Device::Cpu)?;
    let (weights, words) = (model.weights().count(), vocabulary.words().len());
    let epochs = checkpoint.epoch.map_or(1, |epoch| epoch.max(1) as usize);
    let run = ModelFolder::adopt(&args.out, &args.checkpoint, config, &model, vocabulary, epochs)?;
    tell!(
        "{}: {} weights, {words} words{}",
        run.folder().display(),
        weights,
        checkpoint.best_rsum.map_or(String::new(), |rsum| format!(", rsum {rsum:.1} on dev")),
    )?;
    Next::new("eval").path(&args.out).words("DATASET").say();
    Ok(ExitCode::SUCCESS)
}
