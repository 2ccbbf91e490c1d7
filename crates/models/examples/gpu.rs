//! Times a training step and the scores of a tile on a GPU.
use std::time::Instant;

use nextpair_data::Draws;
use nextpair_kernels::{Cuda, Device, Encoded, Precision, Tensor};
use nextpair_models::{Batch, Config, Imram, Inputs, Model, Texts, Trainer, Training};

fn lengths(count: usize, draws: &mut Draws, exact: bool) -> Vec<usize> {
    (0..count)
        .map(|_| if exact { 12 } else { 7 + (draws.normal().abs() * 5.0) as usize }.min(30))
        .collect()
}

fn tensor(draws: &mut Draws, shape: &[usize], device: Device) -> Tensor {
    let count: usize = shape.iter().product();
    let values = (0..count).map(|_| draws.normal() as f32).collect();
    Tensor::new(values, shape, device).unwrap()
}

fn unit(mut values: Vec<f32>, dim: usize) -> Vec<f32> {
    for row in values.chunks_exact_mut(dim) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
    }
    values
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mode, profile) = (args.next().unwrap(), args.next());
    let batch_size: usize = std::env::var("BATCH").map_or(128, |b| b.parse().unwrap());
    let mut draws = Draws::new(1);
    let imram = Imram::default();
    let inputs = Inputs { image: 2048, text: 8481 };
    let cuda = |precision| Device::Cuda(Cuda { precision, ..Cuda::default() });
    if mode == "score" {
        let (images, captions, dim) = (256, 256, 1024);
        let lens = lengths(captions, &mut draws, true);
        let words: usize = lens.iter().sum();
        let regions =
            unit(tensor(&mut draws, &[images * 36, dim], Device::Cpu).to_f32s().unwrap(), dim);
        let rows = unit(tensor(&mut draws, &[words, dim], Device::Cpu).to_f32s().unwrap(), dim);
        let mut offsets = vec![0];
        lens.iter().for_each(|len| offsets.push(offsets.last().unwrap() + len));
        let encoded = |device| {
            let regions = Tensor::new(regions.clone(), &[images * 36, dim], device).unwrap();
            let rows = Tensor::new(rows.clone(), &[words, dim], device).unwrap();
            (Encoded::uniform(regions, 36).unwrap(), Encoded { rows, offsets: offsets.clone() })
        };
        let model = Model::new(Config::Imram(imram.clone()), inputs, 1, Device::Cpu).unwrap();
        let few = |(images, texts): (Encoded, Encoded), device: Device| {
            let images = Encoded {
                rows: images.rows.first_rows(16 * 36).unwrap(),
                offsets: images.offsets[..17].to_vec(),
            };
            let texts = Encoded {
                rows: texts.rows.first_rows(texts.offsets[16]).unwrap(),
                offsets: texts.offsets[..17].to_vec(),
            };
            model.to_device(device).unwrap().comparison().unwrap().scores(&images, &texts).unwrap()
        };
        let truth = few(encoded(Device::Cpu), Device::Cpu);
        for precision in Precision::ALL {
            let device = cuda(precision);
            let found = few(encoded(device), device);
            let worst = truth.iter().zip(&found).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
            let model = model.to_device(device).unwrap();
            let (images_on, texts_on) = encoded(device);
            let comparison = model.comparison().unwrap();
            comparison.scores(&images_on, &texts_on).unwrap();
            let mut times = Vec::new();
            for _ in 0..if precision == Precision::Fp16 { 20 } else { 3 } {
                let start = Instant::now();
                comparison.scores(&images_on, &texts_on).unwrap();
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            let ms = times[times.len() / 2];
            println!(
                "score {precision}: {ms:.2} ms, {:.2} M pairs/s, error {worst:.2e}, largest {:?}",
                65536.0 / ms / 1e3,
                truth.iter().cloned().fold(0.0f32, f32::max)
            );
            if profile.is_some() && precision == Precision::Fp16 {
                nextpair_cuda::start_profile();
                comparison.scores(&images_on, &texts_on).unwrap();
                for (name, count, time) in nextpair_cuda::end_profile() {
                    println!("   {:9.3} ms {count:5} {name}", time.as_secs_f64() * 1e3);
                }
            }
        }
        return;
    }
    let lens = lengths(batch_size, &mut draws, std::env::var_os("EXACT").is_some());
    println!("words {}, longest {}", lens.iter().sum::<usize>(), lens.iter().max().unwrap());
    let features: Vec<f32> = tensor(&mut draws, &[batch_size * 36 * 2048], Device::Cpu)
        .to_f32s()
        .unwrap()
        .iter()
        .map(|x| x.max(0.0))
        .collect();
    let captions: Vec<Vec<u32>> = lens
        .iter()
        .map(|&len| (0..len).map(|_| 4 + (draws.normal().abs() * 1000.0) as u32 % 8000).collect())
        .collect();
    let mut devices: Vec<Device> = Precision::ALL.map(cuda).to_vec();
    if mode == "check" {
        devices.insert(0, Device::Cpu);
    }
    for device in devices {
        let model = Model::new(Config::Imram(imram.clone()), inputs, 1, device).unwrap();
        let training = Training { batch: batch_size, ..Training::default() };
        let mut trainer = Trainer::new(model, training).unwrap();
        let images = Tensor::new(features.clone(), &[batch_size, 36, 2048], device).unwrap();
        let batch = Batch::new(images, Texts::words(&captions).unwrap());
        let mut losses = Vec::new();
        for _ in 0..5 {
            let step = trainer.step(&batch, 2e-4, 1).unwrap();
            losses.push((step.loss, step.gradient.value().unwrap()));
        }
        println!("{device} {losses:.4?}");
        if device == Device::Cpu {
            continue;
        }
        let mut times = Vec::new();
        let mut norm = None;
        for _ in 0..4 {
            let start = Instant::now();
            for _ in 0..5 {
                norm = Some(trainer.step(&batch, 2e-4, 1).unwrap().gradient);
            }
            norm.as_ref().unwrap().value().unwrap();
            times.push(start.elapsed().as_secs_f64() * 1e3 / 5.0);
        }
        times.sort_by(f64::total_cmp);
        println!("step {}: {:.2} ms", device.describe(), times[1]);
        if profile.is_some() {
            nextpair_cuda::start_profile();
            trainer.step(&batch, 2e-4, 1).unwrap();
            let all = nextpair_cuda::end_profile();
            println!(
                "   {:.3} ms in {} launches",
                all.iter().map(|x| x.2.as_secs_f64()).sum::<f64>() * 1e3,
                all.iter().map(|x| x.1).sum::<u64>()
            );
            for (name, count, time) in all.iter().take(40) {
                println!("   {:9.3} ms {count:5} {name}", time.as_secs_f64() * 1e3);
            }
        }
    }
}
