//! Every device against the formula and against the CPU.

use super::*;
use crate::ops::judge::{judge, tensor};
use crate::ops::unit_rows;
use crate::{Aggregation, Device, Normaliser, Precision};

const DIM: usize = 6;

fn direction(asking: Side, steps: usize, parts: &[Tensor]) -> Direction {
    let attention = Attention {
        temperature: 4.0,
        normaliser: Normaliser::ClippedL2,
        aggregation: Aggregation::Mean,
        steps,
        normalise_memory: steps == 3,
    };
    let memory = (steps > 1).then(|| MemoryWeights {
        linear_weight: parts[0].clone(),
        linear_bias: parts[1].clone(),
        gate_weight: parts[2].clone(),
        gate_bias: parts[3].clone(),
    });
    Direction { asking, attention, memory }
}

fn encoded(inputs: &[Tensor]) -> (Encoded, Encoded) {
    let rows = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
    let [images, texts] = rows;
    (
        Encoded { rows: images, offsets: vec![0, 3, 5] },
        Encoded { rows: texts, offsets: vec![0, 2, 3, 7] },
    )
}

#[test]
fn every_device_follows_the_formula() {
    let weights = |seed: u64| {
        [(0, 2 * DIM * DIM), (1, DIM), (2, 2 * DIM * DIM), (3, DIM)]
            .map(|(part, count)| tensor(seed + part, &[count]))
    };
    let pairs = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1)];
    for (asking, count) in
        [(vec![Side::Text], 1), (vec![Side::Image], 2), (vec![Side::Text, Side::Image], 3)]
    {
        let mut inputs = vec![tensor(1, &[5, DIM]), tensor(2, &[7, DIM])];
        if count > 1 {
            asking.iter().for_each(|&side| inputs.extend(weights(10 + 4 * side as u64)));
        }
        let matching = |inputs: &[Tensor]| {
            let parts = |at: usize| inputs.get(2 + 4 * at..).unwrap_or(&[]);
            let directions = asking.iter().enumerate();
            let directions =
                directions.map(|(at, &side)| direction(side, count, parts(at))).collect();
            Matching::new(DIM, directions).unwrap()
        };
        judge(&inputs, 2e-5, |inputs| {
            let (images, texts) = encoded(inputs);
            matching(inputs).pair_scores(&images, &texts, &pairs, None)
        });
        let (images, texts) = encoded(&inputs);
        let all = matching(&inputs).scores(&images, &texts).unwrap();
        let some = matching(&inputs).pair_scores(&images, &texts, &pairs, None).unwrap();
        for (&(image, text), score) in pairs.iter().zip(some.to_f32s().unwrap()) {
            assert_eq!(all[image as usize * 3 + text as usize].to_bits(), score.to_bits());
        }
        let exact: Vec<Tensor> =
            inputs.iter().map(|i| i.to_device(Device::Reference).unwrap()).collect();
        let (images, texts) = encoded(&exact);
        let plain = matching(&exact).scores(&images, &texts).unwrap();
        all.iter().zip(plain).for_each(|(a, b)| assert!((a - b).abs() < 1e-5, "{a} {b}"));
    }
}

/// Attention of `count` steps on random items, on a device; `dim` is large enough for the matrix
/// units.
fn random_scores(attention: Attention, asking: Side, dim: usize, device: Device) -> Vec<f32> {
    let rows = |seed: u64, offsets: &[usize]| {
        let count = offsets[offsets.len() - 1];
        let rows = tensor(seed, &[count, dim]).to_device(device).unwrap();
        Encoded { rows: unit_rows(&rows, 1e-8).unwrap(), offsets: offsets.to_vec() }
    };
    let images = rows(1, &(0..=9).map(|image| 21 * image).collect::<Vec<_>>());
    let texts = rows(2, &[0, 3, 4, 17, 30, 42, 50]);
    let weight = |seed: u64, count: usize| {
        let tensor = tensor(seed, &[count]).divided((2.0 * dim as f64).sqrt()).unwrap();
        tensor.to_device(device).unwrap()
    };
    let memory = (attention.steps > 1).then(|| MemoryWeights {
        linear_weight: weight(10, 2 * dim * dim),
        linear_bias: weight(11, dim),
        gate_weight: weight(12, 2 * dim * dim),
        gate_bias: weight(13, dim),
    });
    let direction = Direction { asking, attention, memory };
    Matching::new(dim, vec![direction]).unwrap().scores(&images, &texts).unwrap()
}

#[test]
fn scores_by_matrix_units_are_those_of_the_cpu() {
    let cuda = Device::available().into_iter().find(|&device| device != Device::Cpu);
    let Some(cuda) = cuda else { return };
    let normalisers = [
        Normaliser::ClippedL2,
        Normaliser::L2,
        Normaliser::ClippedL1,
        Normaliser::Clipped,
        Normaliser::Softmax,
        Normaliser::None,
    ];
    for (at, normaliser) in normalisers.into_iter().enumerate() {
        for asking in [Side::Text, Side::Image] {
            let aggregations = [
                Aggregation::Mean,
                Aggregation::Sum,
                Aggregation::Max,
                Aggregation::LogSumExp(6.0),
            ];
            let aggregation = aggregations[at % 4];
            for (steps, dim) in [(1, 32), (2, 64), (3, 96), (4, 256)] {
                let normalise_memory = steps % 2 == 1;
                let attention = Attention {
                    temperature: 9.0,
                    normaliser,
                    aggregation,
                    steps,
                    normalise_memory,
                };
                let scores = |device| random_scores(attention, asking, dim, device);
                let expected = scores(Device::Cpu);
                let largest = expected.iter().fold(1.0, |m: f32, x| m.max(x.abs()));
                for (precision, tolerance) in
                    [(Precision::Fp32, 1e-5), (Precision::Tf32, 2e-3), (Precision::Fp16, 6e-2)]
                {
                    let found = scores(cuda.with_precision(precision));
                    for (found, expected) in found.iter().zip(&expected) {
                        let off = (found - expected).abs();
                        assert!(
                            off <= tolerance * largest,
                            "{attention:?} {asking} {precision}: {found} {expected}"
                        );
                    }
                }
            }
        }
    }
}
