//! `runtimes tract|rten MODEL PREPROCESS IMAGES`: pooled features of images (one path a line) by one
//! runtime as it comes, with our decoding and preparing, one image at a time on every thread.
//! Prints the seconds and the number of images.

use std::path::Path;
use std::time::Instant;

use nextpair_encode::Preprocess;
use rayon::prelude::*;
use rten::{RunOptions, ThreadPool, Value};
use tract_onnx::prelude::*;

/// From the numbers of one image to its vector.
type Encode = Box<dyn Fn(Vec<f32>) -> Vec<f32> + Send + Sync>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, model, preprocess, images] = &arguments[..] else {
        return Err("runtimes tract|rten MODEL PREPROCESS IMAGES".into());
    };
    let preprocess = Preprocess::preset(preprocess).ok_or("an unknown preset")?;
    let paths = std::fs::read_to_string(images)?;
    let paths: Vec<&str> = paths.lines().collect();
    let began = Instant::now();
    let encode: Encode = match runtime.as_str() {
        "tract" => tract(model, preprocess.shape())?,
        "rten" => rten(model, preprocess.shape())?,
        _ => return Err("tract or rten".into()),
    };
    let sums: Vec<f32> = paths
        .par_iter()
        .map(|path| {
            let picture = nextpair_data::picture::read(Path::new(path)).expect("a readable image");
            let prepared = preprocess.prepare(&picture).expect("a picture with pixels");
            encode(prepared).iter().sum()
        })
        .collect();
    let total: f64 = sums.iter().map(|&sum| f64::from(sum)).sum();
    println!("{} {} {total}", began.elapsed().as_secs_f64(), sums.len());
    Ok(())
}

fn tract(model: &str, shape: [usize; 4]) -> TractResult<Encode> {
    let plan = tract_onnx::onnx()
        .with_ignore_output_shapes(true)
        .with_ignore_value_info(true)
        .model_for_path(model)?
        .with_input_fact(0, f32::fact(shape).into())?
        .with_outputs_by_name(["pooled"])?
        .into_optimized()?
        .into_runnable()?;
    Ok(Box::new(move |numbers| {
        let input = Tensor::from_shape(&shape, &numbers).expect("numbers of the shape");
        let outputs = plan.run(tvec![input.into()]).expect("a run");
        outputs[0].to_plain_array_view::<f32>().expect("floats").iter().copied().collect()
    }))
}

fn rten(model: &str, shape: [usize; 4]) -> Result<Encode, Box<dyn std::error::Error>> {
    let mut options = rten::ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let model = options.load_file(model)?;
    let (input, output) = (model.input_ids()[0], model.node_id("pooled")?);
    let pools: Vec<_> = (0..rayon::current_num_threads())
        .map(|_| std::sync::Arc::new(ThreadPool::with_num_threads(1)))
        .collect();
    Ok(Box::new(move |numbers| {
        let pool = pools[rayon::current_thread_index().unwrap_or(0)].clone();
        let value = Value::from_shape(shape, numbers).expect("numbers of the shape");
        let options = RunOptions::default().with_thread_pool(Some(pool));
        let outputs = model.run(vec![(input, value.into())], &[output], Some(options));
        let output = outputs.expect("a run").remove(0).into_tensor::<f32>().expect("floats");
        output.into_data()
    }))
}
