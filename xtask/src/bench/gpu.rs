//! `cargo xtask bench gpu`: training and scores on a GPU, ours and PyTorch's, one after the other.
//!
//! Both compare their answers with a plain form first. PyTorch is that of the machine's `python3`: which
//! CUDA it is built for is the user's choice.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::options::Options;
use super::{ours, report};

/// The rivals' record.
const RECORD: &str = "target/bench-data/gpu.json";

pub(super) fn run(flags: &[String]) -> Result<()> {
    let known = |flag: &String| ["--rivals", "--out"].contains(&flag.as_str());
    ensure!(
        flags.iter().step_by(2).all(known),
        "bench gpu takes --rivals none and --out DIR alone"
    );
    let mut options = Options::parse(flags)?;
    let binary = ours::build()?;
    if let Some(why) = crate::gpu::unusable(&binary)? {
        anyhow::bail!("there is no GPU to measure: {why}");
    }
    let ours = ours(&binary)?;
    let rivals = match options.rivals(&["pytorch"]).is_empty() {
        true => Value::Null,
        false => rivals()?,
    };
    // What the record says of this run: the host has all its threads, and we repeat as we say.
    options.threads = std::thread::available_parallelism().map_or(1, usize::from);
    options.repeats = ours["sizes"]["repeats"].as_u64().unwrap_or(0) as usize;
    let table = markdown(&ours, &rivals);
    println!("{table}");
    let versions = rivals["versions"].clone();
    let case = serde_json::json!({"case": "text-imram", "nextpair": ours, "pytorch": rivals});
    report::write("gpu", &options, &versions, vec![case], &[table])
}

fn ours(binary: &Path) -> Result<Value> {
    eprintln!("nextpair");
    let mut bench = Command::new(binary);
    bench.args(["bench", "--device", "cuda", "--json"]).stderr(Stdio::inherit());
    let output = bench.output().with_context(|| binary.display().to_string())?;
    ensure!(output.status.success(), "nextpair bench ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("nextpair's report")
}

fn rivals() -> Result<Value> {
    eprintln!("PyTorch");
    std::fs::create_dir_all("target/bench-data")?;
    let mut python = Command::new("python3");
    python.args(["bench/gpu.py", "--out", RECORD]).stdout(Stdio::null());
    let status = python.status().context("python3, which needs PyTorch with CUDA")?;
    ensure!(status.success(), "bench/gpu.py ended with {status}; python3 needs PyTorch with CUDA");
    let text = std::fs::read_to_string(RECORD).context(RECORD)?;
    serde_json::from_str(&text).context(RECORD)
}

/// A line of the table.
struct Line {
    who: String,
    precision: String,
    ms: [f64; 3],
    tflops: f64,
    pairs: Option<f64>,
}

impl Line {
    fn ours(one: &Value, what: &str) -> Self {
        let times = &one[what];
        let number = |key: &str| times[key].as_f64().unwrap_or(f64::NAN);
        Line {
            who: "nextpair".to_owned(),
            precision: text(&one["precision"]),
            ms: ["ms", "least", "most"].map(number),
            tflops: number("tflops"),
            pairs: one["pairs_per_second"].as_f64().filter(|_| what == "tile"),
        }
    }

    fn rival(one: &Value) -> Self {
        let number = |key: &str| one[key].as_f64();
        let tflops = number("tflops_sparse").or(number("tflops_rearranged"));
        Line {
            who: format!("PyTorch, {}", text(&one["form"])),
            precision: text(&one["precision"]),
            ms: ["ms", "least", "most"].map(|key| number(key).unwrap_or(f64::NAN)),
            tflops: tflops.unwrap_or(f64::NAN),
            pairs: number("pairs_per_s"),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn markdown(ours: &Value, rivals: &Value) -> String {
    let sizes = &ours["sizes"];
    let mut all = format!(
        "Text-IMRAM on {}: d = {}, {} regions of {} numbers, {} words. Plain product in half precision: \
         {:.0} TFLOP/s. Operations are those of the rearranged procedure, whoever computes.\n",
        text(&ours["device"]),
        sizes["dim"],
        sizes["regions"],
        sizes["features"],
        sizes["words"],
        ours["product"]["tflops"].as_f64().unwrap_or(f64::NAN),
    );
    for (title, what, rival) in
        [("training step", "step", "train"), ("tile of scores", "tile", "score")]
    {
        let count = &sizes[if what == "step" { "batch" } else { "tile" }];
        let own = list(&ours["precisions"]).iter().map(|one| Line::ours(one, what));
        let others = list(&rivals["results"]).iter().filter(|one| one["what"] == rival);
        let lines: Vec<Line> = own.chain(others.map(Line::rival)).collect();
        let _ = writeln!(
            all,
            "\n### A {title}, {count}\n\n| | precision | milliseconds, median | min..max | TFLOP/s | \
             pairs/s |\n|---|---|---:|---:|---:|---:|"
        );
        for Line { who, precision, ms: [median, least, most], tflops, pairs } in lines {
            let pairs = pairs.map_or(String::new(), |pairs| format!("{pairs:.0}"));
            // Writing to a string cannot fail.
            let _ = writeln!(
                all,
                "| {who} | {precision} | {median:.2} | {least:.2}..{most:.2} | {tflops:.1} | {pairs} |"
            );
        }
    }
    for (title, key) in [("Wrong, not timed", "wrong"), ("Left out for lack of time", "left_out")] {
        for line in list(&rivals[key]) {
            let _ = writeln!(all, "\n{title}: {}", text(line));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_have_both_sides() {
        let times = json!({"ms": 4.5, "least": 4.0, "most": 5.0, "tflops": 250.0, "share": 0.4});
        let ours = json!({
            "device": "H", "product": times,
            "sizes": {"dim": 8, "regions": 3, "features": 9, "words": 12, "batch": 128, "tile": 256},
            "precisions": [{"precision": "fp16", "step": times, "tile": times, "pairs_per_second": 9e6}],
        });
        let rivals = json!({"results": [
            {"what": "train", "form": "sparse", "precision": "tf32", "ms": 15.0, "least": 14.0,
             "most": 16.0, "tflops_sparse": 70.5},
            {"what": "score", "form": "rearranged", "precision": "bf16", "ms": 18.0, "least": 18.0,
             "most": 19.0, "tflops_rearranged": 200.0, "pairs_per_s": 3_500_000},
        ], "wrong": ["train x: off"]});
        let table = markdown(&ours, &rivals);
        for expected in [
            "| nextpair | fp16 | 4.50 | 4.00..5.00 | 250.0 |  |",
            "| nextpair | fp16 | 4.50 | 4.00..5.00 | 250.0 | 9000000 |",
            "| PyTorch, sparse | tf32 | 15.00 | 14.00..16.00 | 70.5 |  |",
            "| PyTorch, rearranged | bf16 | 18.00 | 18.00..19.00 | 200.0 | 3500000 |",
            "Wrong, not timed: train x: off",
        ] {
            assert!(table.contains(expected), "{expected}\n{table}");
        }
        assert!(markdown(&ours, &Value::Null).contains("nextpair"));
    }
}
