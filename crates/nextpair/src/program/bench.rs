//! `nextpair bench`: how fast a device trains and scores, after its answers were compared with the
//! CPU's.

use std::fmt::Write;
use std::process::ExitCode;

use crate::kernels::prepare_process;
use crate::models::bench::{Bench, Lengths, Measured, Part, Report, Sizes, Timed};
use anyhow::Result;
use clap::ValueEnum;

use crate::program::device::DeviceArgs;
use crate::program::interrupt;
use crate::program::progress::Bar;
use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    device: DeviceArgs,
    /// Pairs of a training step [default: 128; 16 with --quick]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Captions of exactly 12 words, or of drawn lengths with as many words in all
    #[arg(long, value_enum, default_value_t = LengthsName::Exact)]
    lengths: LengthsName,
    /// Measure small sizes, to see that everything works
    #[arg(long)]
    quick: bool,
    /// Tell where the time of a GPU goes, by kernel
    #[arg(long)]
    profile: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LengthsName {
    Exact,
    Drawn,
}

/// Lines of a profile at most.
const SHOWN: usize = 40;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    interrupt::on_stop(interrupt::nothing_kept);
    let device = args.device.device();
    let mut sizes = match args.quick {
        true => Sizes::quick(),
        false => Sizes::paper(device),
    };
    sizes.batch = args.batch.unwrap_or(sizes.batch);
    sizes.lengths = match args.lengths {
        LengthsName::Exact => Lengths::Exact,
        LengthsName::Drawn => Lengths::Drawn,
    };
    let precisions = args.device.precisions();
    let bar = Bar::new();
    let report = Bench { device, precisions, sizes, profile: args.profile }.run(&bar);
    bar.finish();
    let report = report?;
    match args.json {
        true => print(&(serde_json::to_string(&report)? + "\n"))?,
        false => print(&describe(&report)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(report: &Report) -> Result<String> {
    let Sizes { batch, tile, dim, regions, features, vocabulary, words, product, .. } =
        report.sizes;
    let mut text = String::new();
    writeln!(text, "Text-IMRAM on {}, nextpair {}", report.device, report.version)?;
    writeln!(
        text,
        "d = {dim}, {regions} regions of {features} numbers, {words} words a caption, {vocabulary} \
         words in all; medians of {}, least and most",
        report.sizes.repeats
    )?;
    let rate = &report.product;
    writeln!(
        text,
        "plain product of {product}^3   {}, {:.1} TFLOP/s",
        milliseconds(rate),
        rate.tflops
    )?;
    for one in &report.precisions {
        let Measured { precision, off, step, tile: scores, .. } = one;
        writeln!(
            text,
            "\n{precision}: equal to the CPU to {:.0e} (scores), {:.0e} (gradients)",
            off.scores, off.gradients
        )?;
        writeln!(
            text,
            "  training step, batch {batch:<10} {}, {}",
            milliseconds(step),
            rates(step)
        )?;
        writeln!(
            text,
            "  scores, tile of {:<15} {}, {}, {:.3} M pairs/s",
            format!("{tile} x {tile}"),
            milliseconds(scores),
            rates(scores),
            one.pairs_per_second / 1e6
        )?;
        for (what, parts) in [("step", &one.step_profile), ("tile", &one.tile_profile)] {
            profile(&mut text, what, parts)?;
        }
    }
    Ok(text)
}

fn milliseconds(timed: &Timed) -> String {
    format!("{:9.3} ms ({:.3}..{:.3})", timed.ms, timed.least, timed.most)
}

fn rates(timed: &Timed) -> String {
    format!("{:.2} TFLOP/s, {:.1} % of the plain product", timed.tflops, 100.0 * timed.share)
}

fn profile(text: &mut String, what: &str, parts: &[Part]) -> Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let (ms, launches) = parts.iter().fold((0.0, 0), |(ms, n), p| (ms + p.ms, n + p.launches));
    writeln!(text, "  a {what} by kernel, each waited for: {ms:.3} ms in {launches} launches")?;
    for Part { work, launches, ms } in parts.iter().take(SHOWN) {
        writeln!(text, "  {ms:10.3} ms {launches:6} x  {work}")?;
    }
    if parts.len() > SHOWN {
        writeln!(text, "  and {} shorter ones", parts.len() - SHOWN)?;
    }
    Ok(())
}
