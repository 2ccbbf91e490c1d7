//! How fast one thread computes what models are made of: `speed [PART OF A NAME] [REPEATS]`.
//!
//! Prints the least time of each, because a machine is never quiet, and the rate of multiply-adds
//! where these are the work. `NEXTPAIR_WITHOUT=avx512` shows what a CPU without AVX-512 would do.

// Standard output is what it is for.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use nextpair_data::Draws;
use nextpair_kernels::{
    Aggregation, Attention, Left, Matcher, Memory, Normaliser, Packed, Ragged, elementwise,
    vector_unit,
};
use nextpair_models::{Batch, Config, Device, Inputs, Model, Tensor, Texts, Trainer, Training};

type Anything = Box<dyn std::error::Error>;
/// Replaces every number.
type Function = fn(&mut [f32]);

/// Regions of an image and words of a caption.
const SHAPE: (usize, usize) = (36, 14);

fn main() -> Result<(), Anything> {
    let mut arguments = std::env::args().skip(1);
    let (only, repeats) = (arguments.next().unwrap_or_default(), arguments.next());
    let repeats = repeats.map_or(Ok(20), |number| number.parse())?;
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    println!("{}", vector_unit());
    let functions: [(&str, Function); 3] = [
        ("exp", elementwise::exp_all),
        ("sigmoid", elementwise::sigmoid_all),
        ("tanh", elementwise::tanh_all),
    ];
    let wanted = |name: &str| name.contains(&only);
    for (name, function) in functions.into_iter().filter(|(name, _)| wanted(name)) {
        let (from, mut to) = (numbers(4096, 4.0), vec![0.0; 4096]);
        let seconds = least(repeats, || {
            for _ in 0..100 {
                to.copy_from_slice(&from);
                function(&mut to);
            }
        });
        println!("{name}: {:.3} ns each", seconds * 1e9 / (100.0 * 4096.0));
    }
    for (rows, depth, columns) in [(36, 256, 256), (32, 256, 768), (7, 256, 256)] {
        let name = format!("product of {rows} x {depth} x {columns}");
        if wanted(&name) {
            let right = Packed::new(depth, columns, &numbers(depth * columns, 1.0));
            let (left, mut out) = (numbers(rows * depth, 1.0), vec![0.0; rows * columns]);
            let seconds =
                least(20 * repeats, || right.multiply(Left::rows(&left, depth), &mut out));
            let rate = 2.0 * (rows * depth * columns) as f64 / seconds / 1e9;
            println!("{name}: {:.4} ms, {rate:.1} GFLOP/s", 1e3 * seconds);
        }
    }
    for (name, steps, dim, count) in
        [("imram", 3, 256, 12), ("imram", 3, 1024, 6), ("scan", 1, 256, 24), ("scan", 1, 1024, 16)]
    {
        let name = format!("scores of {name}, {count} x {count}, d = {dim}");
        if wanted(&name) {
            println!("{name}: {:.2} ms", 1e3 * scores(steps, dim, count, repeats)?);
        }
    }
    for model in ["text-imram", "scan-t2i", "vse++"] {
        let name = format!("step of {model}, d = 256, batch of 32");
        if wanted(&name) {
            println!("{name}: {:.2} ms", 1e3 * step(model, repeats)?);
        }
    }
    Ok(())
}

/// The least seconds of a call.
fn least(repeats: usize, mut call: impl FnMut()) -> f64 {
    call();
    let seconds = (0..repeats).map(|_| {
        let began = Instant::now();
        call();
        began.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

/// Numbers between `-scale` and `scale`.
fn numbers(count: usize, scale: f32) -> Vec<f32> {
    let mut draws = Draws::new(1);
    (0..count).map(|_| scale * (2.0 * draws.unit() - 1.0) as f32).collect()
}

/// Seconds of the scores of as many images and captions.
fn scores(steps: usize, dim: usize, count: usize, repeats: usize) -> Result<f64, Anything> {
    let weight = numbers(2 * dim * dim, (0.5 / dim as f32).sqrt());
    let (bias, (regions, words)) = (numbers(dim, 0.1), SHAPE);
    let memory = Memory {
        linear_weight: &weight,
        linear_bias: &bias,
        gate_weight: &weight,
        gate_bias: &bias,
    };
    let attention = Attention {
        temperature: 9.0,
        normaliser: Normaliser::ClippedL2,
        aggregation: Aggregation::Mean,
        steps,
        normalise_memory: false,
    };
    let matcher = Matcher::new(dim, attention, (steps > 1).then_some(memory))?;
    let values = numbers(count * regions * dim, (3.0 / dim as f32).sqrt());
    let offsets = |each: usize| (0..=count).map(|item| item * each).collect::<Vec<_>>();
    let (of_images, of_texts) = (offsets(regions), offsets(words));
    let images = Ragged { dim, values: &values, offsets: &of_images };
    let texts = Ragged { dim, values: &values[..count * words * dim], offsets: &of_texts };
    let (mut out, mut result) = (vec![0.0; count * count], Ok(()));
    let seconds = least(repeats, || result = matcher.scores(images, texts, &mut out));
    result?;
    Ok(seconds)
}

/// Seconds of a training step.
fn step(name: &str, repeats: usize) -> Result<f64, Anything> {
    let mut config = Config::named(name).ok_or("no such model")?;
    match &mut config {
        Config::Imram(model) => model.encoders.dim = 256,
        Config::Scan(model) => model.encoders.dim = 256,
        Config::Vse(model) => model.dim = 256,
        _ => return Err("a model without a width".into()),
    }
    let ((regions, words), batch) = (SHAPE, 32);
    let model = Model::new(config, Inputs { image: 2048, text: 8481 }, 1, Device::Cpu)?;
    let images =
        Tensor::new(numbers(batch * regions * 2048, 1.0), &[batch, regions, 2048], Device::Cpu)?;
    let word = |caption: usize, at: usize| 4 + ((caption * words + at) * 7919 % 8000) as u32;
    let captions: Vec<Vec<u32>> =
        (0..batch).map(|c| (0..words).map(|at| word(c, at)).collect()).collect();
    let batch = Batch::new(images, Texts::words(&captions)?);
    let mut trainer = Trainer::new(model, Training::default())?;
    let mut result = Ok(());
    let seconds = least(repeats, || result = trainer.step(&batch, 0).map(drop));
    result?;
    Ok(seconds)
}
