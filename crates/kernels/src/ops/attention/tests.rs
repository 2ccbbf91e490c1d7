//! Every device against the formula and against the CPU.

use super::*;
use crate::ops::judge::{judge, shaken, tensor};
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
            Matching::new(DIM, 1, directions).unwrap()
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
    Matching::new(dim, 1, vec![direction]).unwrap().scores(&images, &texts).unwrap()
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

/// Three members with two images and two captions each, whose captions have other lengths. That of one
/// is so long that tests score the images of a member one by one.
const IMAGES: [usize; 7] = [0, 3, 5, 8, 9, 11, 14];
const TEXTS: [usize; 7] = [0, 2, 3, 7, 72, 73, 75];

/// The weights of memories of so many members, of vectors of `dim` dimensions.
fn memories(members: usize, dim: usize) -> Vec<Tensor> {
    let each = sizes(dim).into_iter().enumerate();
    let part = |(part, each): (usize, usize)| {
        let weights = tensor(10 + part as u64, &[members, each]);
        weights.divided((dim as f64).sqrt()).unwrap()
    };
    each.map(part).collect()
}

fn of_members(inputs: &[Tensor], dim: usize, asking: &[Side], steps: usize) -> Matching {
    let members = inputs.get(2).map_or(3, |weights| weights.shape()[0]);
    let own = asking.iter().map(|&side| direction(side, steps, &inputs[2..])).collect();
    Matching::new(dim, members, own).unwrap()
}

fn items_of_members(inputs: &[Tensor]) -> (Encoded, Encoded) {
    let [images, texts] = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
    (
        Encoded { rows: images, offsets: IMAGES.to_vec() },
        Encoded { rows: texts, offsets: TEXTS.to_vec() },
    )
}

/// Pairs within members, the first of which has most and the second one, in no order.
const PAIRS: [(u32, u32); 8] = [(4, 5), (1, 0), (0, 1), (3, 3), (0, 0), (5, 5), (1, 1), (4, 4)];

const WAYS: [&[Side]; 3] = [&[Side::Text], &[Side::Image], &[Side::Text, Side::Image]];

#[test]
fn members_follow_the_formula_on_every_device() {
    for asking in WAYS {
        for steps in 1..=4 {
            let mut inputs = vec![tensor(1, &[14, DIM]), tensor(3, &[75, DIM])];
            if steps > 1 {
                inputs.extend(memories(3, DIM));
            }
            judge(&inputs, 2e-5, |inputs| {
                let (images, texts) = items_of_members(inputs);
                let matching = of_members(inputs, DIM, asking, steps);
                matching.pair_scores(&images, &texts, &PAIRS, None)
            });
        }
    }
    let inputs = [tensor(1, &[14, DIM]), tensor(3, &[75, DIM])];
    let (images, texts) = items_of_members(&inputs);
    let matching = of_members(&inputs, DIM, WAYS[0], 1);
    let refused = matching.pair_scores(&images, &texts, &[(0, 1), (1, 2)], None).unwrap_err();
    assert!(refused.to_string().contains("of the member of the image"), "{refused}");
    let fewer = Encoded { rows: texts.rows.some_rows(0..13).unwrap(), offsets: vec![0, 2, 3, 13] };
    assert!(matching.scores(&images, &fewer).is_ok());
    let fewer = Encoded { offsets: vec![0, 13], ..fewer };
    assert!(matching.scores(&images, &fewer).is_err());
    let memory = memories(2, DIM);
    let two = vec![direction(Side::Text, 2, &memory)];
    assert!(Matching::new(DIM, 3, two).is_err());
}

/// Sets of inputs that say how much rounding moves: the first is exact.
const SHAKEN: u64 = 17;

/// The gradients and scores of a matching of members, and those of each of them alone.
#[test]
fn members_are_matchings_of_their_own() {
    let devices = Device::available().into_iter().flat_map(|device| match device {
        Device::Cuda(_) => {
            Precision::ALL.map(|precision| device.with_precision(precision)).to_vec()
        }
        other => vec![other],
    });
    for device in devices {
        // Products of other sizes are added up in another order.
        let (tolerance, rounds) = match device {
            Device::Cpu => (0.0, false),
            Device::Cuda(cuda) if cuda.precision != Precision::Fp32 => (1e-3, true),
            _ => (1e-5, false),
        };
        let settings = WAYS.into_iter().flat_map(|asking| (1..=4).map(move |k| (asking, k)));
        // The larger vectors are for the matrix units.
        for ((asking, steps), dim) in settings.flat_map(|how| [DIM, 32].map(|dim| (how, dim))) {
            let mut inputs = vec![tensor(1, &[14, dim]), tensor(2, &[75, dim])];
            if steps > 1 {
                inputs.extend(memories(3, dim));
            }
            let what = format!("{device:?} {asking:?} {steps} {dim}");
            let (expected, found) = alone_and_together(&inputs, dim, (asking, steps), device);
            assert_eq!(expected.len(), found.len(), "{what}");
            // Two ways of rounding may differ by what such a change of the inputs moves, and by as much again: factors
            // of later products are rounded too. Near a kink one change in many moves much more than the others.
            let moves: Vec<Vec<Vec<f32>>> = (0..if rounds { SHAKEN } else { 0 })
                .map(|seed| match seed {
                    0 => inputs.clone(),
                    seed => inputs.iter().map(|input| shaken(input, seed)).collect(),
                })
                .map(|inputs| alone_and_together(&inputs, dim, (asking, steps), Device::Cpu).0)
                .collect();
            let moved = |at: usize| {
                let (exact, shaken) = moves.split_first()?;
                let differences = shaken.iter().flat_map(|shaken| {
                    exact[at].iter().zip(&shaken[at]).map(|(a, b)| (a - b).abs())
                });
                Some(2.0 * differences.fold(0.0, f32::max))
            };
            for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                assert_eq!(expected.len(), found.len(), "{what}");
                let largest = expected.iter().fold(1.0, |m: f32, x| m.max(x.abs()));
                let allowed = moved(at).unwrap_or(0.0).max(tolerance * largest);
                for (a, b) in expected.iter().zip(found) {
                    assert!((a - b).abs() <= allowed, "{what}, result {at}: {a} {b}");
                }
            }
        }
    }
}

/// All scores, those of pairs and the gradients of all inputs: of three members one after the other, and
/// together.
fn alone_and_together(
    inputs: &[Tensor],
    dim: usize,
    (asking, steps): (&[Side], usize),
    device: Device,
) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let inputs: Vec<Tensor> =
        inputs.iter().map(|input| input.to_device(device).unwrap().into_weight()).collect();
    let upstream = tensor(99, &[PAIRS.len()]).to_f32s().unwrap();
    let results =
        |inputs: &[Tensor], matching: &Matching, items: (Encoded, Encoded), pairs: &[_]| {
            let of_pairs: Vec<(u32, u32)> = pairs.iter().map(|&(_, pair)| pair).collect();
            let all = matching.scores(&items.0, &items.1).unwrap();
            let some = matching.pair_scores(&items.0, &items.1, &of_pairs, None).unwrap();
            let slopes: Vec<f32> = pairs.iter().map(|&(place, _)| upstream[place]).collect();
            let gradients = some.backward(&slopes).unwrap();
            let mut found = vec![all, some.to_f32s().unwrap()];
            found.extend(inputs.iter().map(|input| {
                let found = gradients.of(input).map(|g| g.to_f64s().unwrap()).unwrap_or_default();
                found.into_iter().map(|x| x as f32).collect::<Vec<f32>>()
            }));
            found
        };
    let every: Vec<(usize, (u32, u32))> = PAIRS.into_iter().enumerate().collect();
    let matching = of_members(&inputs, dim, asking, steps);
    let together = results(&inputs, &matching, items_of_members(&inputs), &every);
    let mut alone: Vec<Vec<f32>> = vec![Vec::new(); together.len()];
    alone[1] = vec![0.0; PAIRS.len()];
    for member in 0..3 {
        let spans = [&IMAGES, &TEXTS].map(|offsets| &offsets[2 * member..=2 * member + 2]);
        let mut own: Vec<Tensor> = spans
            .iter()
            .zip(&inputs)
            .map(|(span, rows)| rows.some_rows(span[0]..span[2]).unwrap().into_weight())
            .collect();
        let weights = inputs[2..].iter();
        own.extend(weights.map(|w| w.some_rows(member..member + 1).unwrap().into_weight()));
        let moved = spans.map(|span| span.iter().map(|row| row - span[0]).collect::<Vec<_>>());
        let [images, texts] = [0, 1].map(|at| Encoded {
            rows: unit_rows(&own[at], 1e-8).unwrap(),
            offsets: moved[at].clone(),
        });
        let first = 2 * member as u32;
        let pairs = every.iter().filter(|(_, pair)| pair.0 / 2 == member as u32);
        let pairs: Vec<_> = pairs.map(|&(at, (i, j))| (at, (i - first, j - first))).collect();
        let directions = asking.iter().map(|&side| direction(side, steps, &own[2..])).collect();
        let matching = Matching::new(dim, 1, directions).unwrap();
        let found = results(&own, &matching, (images, texts), &pairs);
        for (at, found) in found.into_iter().enumerate() {
            match at {
                1 => pairs.iter().zip(found).for_each(|(&(place, _), x)| alone[1][place] = x),
                _ => alone[at].extend(found),
            }
        }
    }
    (alone, together)
}
